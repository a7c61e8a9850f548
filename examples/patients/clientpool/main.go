// Command clientpool asks a service for each request that takes 3 ms for an answer and could give many
// at once. Its HTTP client may open two connections to it: the others wait in the client's pool, and
// nothing in the service or behind it is busy.
//
// Cured, 64 may be open.
package main

import (
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// takes is how long the service behind is busy with a request, of which it serves many at once.
	takes, workers = 3 * time.Millisecond, 256
	few, many      = 2, 64
)

func open(p *ward.Patient) (http.Handler, error) {
	warehouse, err := upstream.Start(p, workers, takes)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxConnsPerHost: few, MaxIdleConnsPerHost: many}
	if p.Cured {
		transport.MaxConnsPerHost = many
	}
	p.OnEnd(transport.CloseIdleConnections)
	warehouse.Through(transport)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stock, err := warehouse.Ask(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, len(stock), work.Do(4))
	}), nil
}

func main() { upstream.Main(open) }
