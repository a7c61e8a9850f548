// Command handshakes speaks TLS without session tickets (handshakes-dominate), to clients that make
// a connection for each request: each proves its identity again, with a signature by an RSA key.
//
// Cured, clients that come again show their ticket, and nothing has to be signed.
package main

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"plimsoll/examples/patients/selfsigned"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	certificate, err := selfsigned.RSA()
	if err != nil {
		return nil, err
	}
	p.Server.TLSConfig = &tls.Config{
		Certificates:           []tls.Certificate{certificate},
		SessionTicketsDisabled: !p.Cured,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, work.Do(6))
	}), nil
}
