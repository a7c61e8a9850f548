// Command closing ends the connection after each answer (client-connections-closed), as a service
// does whose keep-alive was once switched off to be rid of another problem. Its clients would stay;
// they connect again and shake hands for each request.
//
// Cured, connections are kept.
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
	certificate, err := selfsigned.ECDSA()
	if err != nil {
		return nil, err
	}
	p.Server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	p.Server.SetKeepAlivesEnabled(p.Cured)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, work.Do(2))
	}), nil
}
