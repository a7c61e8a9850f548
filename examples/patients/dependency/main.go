// Command dependency asks a service that serves four at a time. While its own processor idles, its
// requests wait there.
//
// Cured, the service that it asks has 32 workers.
package main

import (
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// takes is how long a worker of the other service is busy with a request.
const takes = 5 * time.Millisecond

func main() { upstream.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	workers := 4
	if p.Cured {
		workers = 32
	}
	warehouse, err := upstream.Start(p, workers, takes)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stock, err := warehouse.Ask(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, len(stock), work.Do(4))
	}), nil
}
