// Command fanout keeps requests waiting for a processor although there is time to spare: orders are
// entered in an index in batches, and a batch starts a goroutine for each order. For as long as
// these run, every request stands in the queue with them.
//
// Cured, one goroutine enters the orders as they come: the same work, on one processor at a time.
package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	batch  = 300 * time.Millisecond // how often orders are entered
	most   = 20_000                 // orders that wait to be entered; more are refused
	order  = 5                      // what a request costs
	enters = 4                      // what entering its order in the index costs
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	orders := make(chan struct{}, most)
	enter := inBatches
	if p.Cured {
		enter = oneByOne
	}
	go enter(p.Context, orders)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case orders <- struct{}{}:
			fmt.Fprintln(w, work.Do(order))
		default:
			http.Error(w, "too many orders", http.StatusServiceUnavailable)
		}
	}), nil
}

// inBatches is the disease.
func inBatches(ctx context.Context, orders <-chan struct{}) {
	tick := time.NewTicker(batch)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var all sync.WaitGroup
		for range len(orders) {
			<-orders
			all.Go(func() { work.Do(enters) })
		}
		all.Wait()
	}
}

func oneByOne(ctx context.Context, orders <-chan struct{}) {
	for {
		select {
		case <-orders:
			work.Do(enters)
		case <-ctx.Done():
			return
		}
	}
}
