// Command cachelock keeps prices in a map, and holds the map's lock while it asks for a
// price that has grown old: nobody gets on meanwhile.
//
// Cured, it asks first and holds the lock only to write down the answer.
package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// takes is how long it takes to ask for a price.
	takes = 4 * time.Millisecond
	// uses are how often a price is given out before it is asked for again.
	uses = 2
)

// prices remembers prices.
type prices struct {
	warehouse *upstream.Upstream
	cured     bool

	mu    sync.Mutex
	price int // of the one thing that is sold
	left  int // uses of it
}

func main() { upstream.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	warehouse, err := upstream.Start(p, 64, takes)
	if err != nil {
		return nil, err
	}
	known := &prices{warehouse: warehouse, cured: p.Cured}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		price, err := known.get(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, price, work.Do(4))
	}), nil
}

// get is the price, asked for again when it is old.
func (p *prices) get(ctx context.Context) (int, error) {
	p.mu.Lock()
	if p.left > 0 {
		defer p.mu.Unlock()
		p.left--
		return p.price, nil
	}
	p.left = uses - 1
	if p.cured {
		p.mu.Unlock()
	}
	answer, err := p.warehouse.Ask(ctx)
	if p.cured {
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	if err != nil {
		return 0, err
	}
	p.price = len(answer)
	return p.price, nil
}
