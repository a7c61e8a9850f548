// Command semaphore lets four requests at a time ask the service behind it, which could serve many
// more: a channel with room for four is taken and given back around the call.
//
// Cured, there is room for 64.
package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// takes is how long the service behind is busy with a request, of which it serves many at once.
	takes, workers = 10 * time.Millisecond, 256
	few, many      = 4, 64
)

// desk lets so many ask at once as its channel has room for.
type desk struct {
	asking    chan struct{}
	warehouse *upstream.Upstream
}

// ask waits for its turn.
func (d *desk) ask(ctx context.Context) ([]byte, error) {
	d.asking <- struct{}{}
	defer func() { <-d.asking }()
	return d.warehouse.Ask(ctx)
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	stock, err := d.ask(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, len(stock), work.Do(4))
}

func open(p *ward.Patient) (http.Handler, error) {
	room := few
	if p.Cured {
		room = many
	}
	warehouse, err := upstream.Start(p, workers, takes)
	return &desk{make(chan struct{}, room), warehouse}, err
}

func main() { upstream.Main(open) }
