// Command freight tells where a container is. The carrier that it asks takes 10 ms. Questions to it
// stand in a channel from which workers take them, and there are five workers. Only pprof is shown.
//
// Cured, there are 64.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	containers = 90_000
	few, many  = 5, 64
	takes      = 10 * time.Millisecond // to ask the carrier
)

// question is asked by a worker, which answers it once.
type question struct {
	ctx       context.Context
	container int
	answer    chan<- answer
}

type answer struct {
	place string
	err   error
}

// office asks the carrier. Any goroutine may use it.
type office struct {
	carrier   *upstream.Upstream
	questions chan question
}

// work answers questions until the service ends.
func (o *office) work(ctx context.Context) {
	for {
		select {
		case q := <-o.questions:
			text, err := o.carrier.Ask(q.ctx)
			q.answer <- answer{fmt.Sprint("hold ", (len(text)+q.container)%11), err}
		case <-ctx.Done():
			return
		}
	}
}

// where is a container.
func (o *office) where(ctx context.Context, container int) (string, error) {
	answered := make(chan answer, 1)
	select {
	case o.questions <- question{ctx, container, answered}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case a := <-answered:
		return a.place, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	container := rand.IntN(containers)
	place, err := o.where(r.Context(), container)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, container, place, work.Do(3))
}

func open(p *ward.Patient) (http.Handler, error) {
	carrier, err := upstream.Start(p, 256, takes)
	if err != nil {
		return nil, err
	}
	o := &office{carrier, make(chan question, 1024)}
	workers := few
	if p.Cured {
		workers = many
	}
	for range workers {
		go o.work(p.Context)
	}
	return o, nil
}

func main() { upstream.Main(open) }
