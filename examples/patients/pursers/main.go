// Command pursers speaks TLS to clients that make a connection for each request. It makes a
// configuration for each of them, by the name that it asks for, with new keys for session tickets,
// so that no ticket is ever known again, and each connection costs a signature. Nothing is shown.
//
// Cured, all of these configurations have the same keys.
package main

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"

	"plimsoll/examples/patients/selfsigned"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// key is for session tickets.
type key [32]byte

func newKey() (k key, err error) {
	_, err = rand.Read(k[:])
	return k, err
}

// lines are the shipping lines that share the service.
type lines struct {
	certificate tls.Certificate
	key         key
	cured       bool
}

// configuration is that of the line whose name a client asks for.
func (l *lines) configuration(*tls.ClientHelloInfo) (*tls.Config, error) {
	tickets := l.key
	if !l.cured {
		var err error
		if tickets, err = newKey(); err != nil {
			return nil, err
		}
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{l.certificate},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
	}
	c.SetSessionTicketKeys([][32]byte{tickets})
	return c, nil
}

func open(p *ward.Patient) (http.Handler, error) {
	certificate, err := selfsigned.RSA()
	if err != nil {
		return nil, err
	}
	k, err := newKey()
	if err != nil {
		return nil, err
	}
	l := &lines{certificate: certificate, key: k, cured: p.Cured}
	p.Server.TLSConfig = &tls.Config{
		Certificates:       []tls.Certificate{certificate},
		GetConfigForClient: l.configuration,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, work.Do(3))
	}), nil
}

func main() { ward.Main(open) }
