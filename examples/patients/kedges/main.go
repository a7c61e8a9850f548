// Command kedges hires out kedges, which are small anchors. One goroutine owns the list of what is
// in the store, so that no lock is needed, and takes requests from a channel. It also has a bank
// hold the deposit, which takes 2 ms, so one request at a time is with the bank, and the others
// wait for the goroutine. Nothing is shown.
//
// Cured, a request has its deposit held before it is sent to the goroutine.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// takes is how long the bank is busy with a deposit, of which it holds many at once.
	takes, workers = 2 * time.Millisecond, 256

	sizes = 40
	lent  = 200 // kedges of a size that can be out at the same time; then the first comes back
)

// hire is a request for a kedge. The store answers on its channel.
type hire struct {
	ctx    context.Context
	size   int
	answer chan receipt
}

// receipt is what a client is told.
type receipt struct {
	Size    int    `json:"size"`
	Kedge   int    `json:"kedge"`
	Out     int    `json:"out"`
	Deposit int    `json:"deposit"`
	Seal    string `json:"seal"`
	err     error
}

// chandler hires out what is in the store.
type chandler struct {
	bank  *upstream.Upstream
	hires chan hire
	ahead bool // the deposit is held before the store is asked
}

// hold has the bank hold a deposit, and returns how much.
func (c *chandler) hold(ctx context.Context, size int) (int, error) {
	held, err := c.bank.Ask(ctx)
	return len(held) + size*5, err
}

// keep owns the store until the service ends.
func (c *chandler) keep(ctx context.Context) {
	given := make([]int, sizes)
	for {
		select {
		case h := <-c.hires:
			h.answer <- c.give(h, given)
		case <-ctx.Done():
			return
		}
	}
}

// give takes the next kedge of a size.
func (c *chandler) give(h hire, given []int) receipt {
	var deposit int
	if !c.ahead {
		var err error
		if deposit, err = c.hold(h.ctx, h.size); err != nil {
			return receipt{err: err}
		}
	}
	given[h.size]++
	return receipt{
		Size:    h.size,
		Kedge:   given[h.size] % lent,
		Out:     min(given[h.size], lent),
		Deposit: deposit,
	}
}

// hire asks the store for a kedge.
func (c *chandler) hire(ctx context.Context, size int) (receipt, error) {
	var deposit int
	if c.ahead {
		var err error
		if deposit, err = c.hold(ctx, size); err != nil {
			return receipt{}, err
		}
	}
	h := hire{ctx, size, make(chan receipt, 1)}
	select {
	case c.hires <- h:
	case <-ctx.Done():
		return receipt{}, ctx.Err()
	}
	given := <-h.answer
	given.Deposit = max(given.Deposit, deposit)
	return given, given.err
}

func (c *chandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given, err := c.hire(r.Context(), rand.IntN(sizes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	given.Seal = work.Do(5)
	body, err := json.Marshal(given)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}

func open(p *ward.Patient) (http.Handler, error) {
	bank, err := upstream.Start(p, workers, takes)
	if err != nil {
		return nil, fmt.Errorf("start the bank: %w", err)
	}
	c := &chandler{bank: bank, hires: make(chan hire), ahead: p.Cured}
	ctx, stop := context.WithCancel(context.WithoutCancel(p.Context)) // requests end first
	p.OnEnd(stop)
	go c.keep(ctx)
	return c, nil
}

func main() { upstream.Main(open) }
