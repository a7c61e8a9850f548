// Command semaphore lets four requests at a time ask the service behind it, which could serve many
// more: a channel with room for four is taken and given back around the call.
//
// Cured, there is room for 64.
package main

import (
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// takes is how long the service behind is busy with a request.
const takes = 10 * time.Millisecond

func main() {
	if !upstream.Here() {
		ward.Main(shop)
	}
}

func shop(p *ward.Patient) (http.Handler, error) {
	room := 4
	if p.Cured {
		room = 64
	}
	warehouse, err := upstream.Start(p, 256, takes)
	if err != nil {
		return nil, err
	}
	asking := make(chan struct{}, room)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asking <- struct{}{}
		stock, err := warehouse.Ask(r.Context())
		<-asking
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, len(stock), work.Do(4))
	}), nil
}
