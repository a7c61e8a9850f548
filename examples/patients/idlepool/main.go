// Command idlepool asks the service behind it three things for each request, all at once, and keeps
// as many idle connections to it as net/http does when it is told nothing, which is two
// (upstream-connections-not-reused). Half of the calls begin with a TLS handshake, which costs both
// sides.
//
// Cured, connections are kept.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	"plimsoll/examples/patients/selfsigned"
	"plimsoll/examples/patients/stock"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// calls is how many things are asked for each request.
const calls = 3

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	certificate, err := selfsigned.ECDSA()
	if err != nil {
		return nil, err
	}
	url, err := stock.Serve(p, &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: selfsigned.Trust(certificate)},
	}
	if p.Cured {
		transport.MaxIdleConnsPerHost = 256
	}
	p.OnEnd(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := askAll(r.Context(), client, url); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, work.Do(4))
	}), nil
}

// askAll asks everything at once, and returns the first error.
func askAll(ctx context.Context, client *http.Client, url string) error {
	errs := make(chan error, calls)
	for range calls {
		go func() { errs <- stock.Get(ctx, client, url) }()
	}
	var first error
	for range calls {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
