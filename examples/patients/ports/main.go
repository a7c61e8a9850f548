// Command ports makes a new connection to the service behind it for each request, and closes it
// afterwards (ports-exhausted). A port that was closed from this side rests in TIME_WAIT before it
// can be used again, and there are only so many: then nothing can be connected, while the processor
// idles. bench/patients.py makes a network namespace with few ports, so that the limit is met at a
// rate that this machine can offer.
//
// Cured, connections are kept.
package main

import (
	"fmt"
	"net/http"

	"plimsoll/examples/patients/stock"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	url, err := stock.Serve(p, nil)
	if err != nil {
		return nil, err
	}
	kept := &http.Transport{MaxIdleConnsPerHost: 256}
	p.OnEnd(kept.CloseIdleConnections)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		transport := kept
		if !p.Cured {
			transport = &http.Transport{}
			defer transport.CloseIdleConnections()
		}
		if err := stock.Get(r.Context(), &http.Client{Transport: transport}, url); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, work.Do(3))
	}), nil
}
