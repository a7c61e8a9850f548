package main

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/text"
)

// liveWindow is how often progress is redrawn, and how many of them make the second that it tells
// of.
const (
	liveWindow = 250 * time.Millisecond
	liveCount  = 4
)

// mostWindows bounds the windows that are kept of a run; those of a long one are longer.
const mostWindows = 4000

// errStopped is why a run ended that a person ended.
var errStopped = errors.New("it was stopped")

// offer is one load that is offered, with progress on the terminal.
type offer struct {
	options load.Options
	length  time.Duration           // how long it is meant to last; 0 is unknown
	keep    bool                    // the windows, too
	watch   func(w *measure.Window) // is shown each window; it may be nil
	began   time.Time
	windows []measure.Window
}

// run offers the load. early is why it ended before it was done, or empty. An error means that
// there is nothing to report.
func (o *offer) run(ctx context.Context, c *console) (t *measure.Totals, early string, err error) {
	if err := allowDescriptors(o.options.Connections); err != nil {
		return nil, "", err
	}
	defer makeRoom(o.options.Loops)()
	p := c.progress()
	live := &recent{}
	o.options.Window = liveWindow
	if o.keep {
		o.options.Window = max(liveWindow, o.length/mostWindows)
	}
	o.options.Observe = func(w *measure.Window) {
		if o.keep {
			o.windows = append(o.windows, *w)
		}
		if o.watch != nil {
			o.watch(w)
		}
		if p.terminal() {
			p.show(text.LoadNow(live.add(w), float64(w.End()), float64(o.length)))
		}
	}
	p.show("opening connections to " + o.options.Target.URL)
	o.began = time.Now()
	t, err = load.Run(ctx, o.options)
	p.clear()
	if err != nil {
		return nil, "", stoppedEarly(ctx, err)
	}
	if ctx.Err() != nil {
		early = errStopped.Error()
	}
	return t, early, nil
}

// stoppedEarly is the error of something that a person may have stopped before there was anything
// to report.
func stoppedEarly(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return withExit{exitUnexpected, errors.New("it was stopped before it had begun")}
	}
	return err
}

// recent is the windows of about the last second. Its methods are for one goroutine at a time, but
// not for the same one always.
type recent struct {
	mu   sync.Mutex
	last []*measure.Window
}

// add adds the newest window and returns those of the last second.
func (r *recent) add(w *measure.Window) []*measure.Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = append(r.last, w)
	if len(r.last) > liveCount {
		r.last = append(r.last[:0:0], r.last[1:]...)
	}
	return r.last
}

// forget is for a step that begins.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = nil
}

// outcomeOfLoad is what load --json and replay --json print.
type outcomeOfLoad struct {
	Command     string
	Target      string
	Settings    map[string]string
	Early       string `json:",omitempty"`
	Totals      *measure.Totals
	Ended       map[string]uint64 // Totals.Ended by name
	Rate        float64           // requests due a second
	Goodput     float64           // that ended well, a second
	Percentiles []percentiles
	Requests    []outcomeOfRequest // each kind of request of a mix
	Log         any                `json:",omitempty"` // what replay says of the log
}

// outcomeOfRequest is what came of one kind of request. Its percentiles have response times only.
type outcomeOfRequest struct {
	Name        string
	Ended       map[string]uint64
	Percentiles []percentiles
}

// percentiles are one quantile of both times, in nanoseconds. One that lies among requests that
// failed is null.
type percentiles struct {
	Share             float64
	Response, Service *int64
}

// shares are the quantiles that are printed.
var shares = []float64{.5, .75, .9, .99, .999, .9999}

func newOutcome(command, target string, settings map[string]string, t *measure.Totals, early string) *outcomeOfLoad {
	o := &outcomeOfLoad{Command: command, Target: target, Settings: settings, Early: early, Totals: t, Rate: t.Rate(), Goodput: t.Goodput()}
	service := measure.Totals{Ended: t.Ended, Response: t.Service}
	quantile := func(t *measure.Totals, q float64) *int64 {
		if ns, ok := t.Quantile(q); ok {
			return &ns
		}
		return nil
	}
	o.Ended = byName(&t.Ended)
	for _, q := range shares {
		o.Percentiles = append(o.Percentiles, percentiles{q, quantile(t, q), quantile(&service, q)})
	}
	for i := range t.Requests {
		k := &t.Requests[i]
		of := measure.Totals{Ended: k.Ended, Response: k.Response}
		one := outcomeOfRequest{Name: k.Name, Ended: byName(&k.Ended)}
		for _, q := range shares {
			one.Percentiles = append(one.Percentiles, percentiles{q, quantile(&of, q), nil})
		}
		o.Requests = append(o.Requests, one)
	}
	return o
}

// byName is how many requests ended as each kind.
func byName(t *measure.Tally) map[string]uint64 {
	all := make(map[string]uint64, measure.Kinds)
	for k, n := range t {
		all[measure.Kind(k).String()] = n
	}
	return all
}

// exitOfLoad is nil when a run is what was asked for.
func exitOfLoad(t *measure.Totals, early string) error {
	switch {
	case t.Generator.Invalid != "":
		return withExit{exitUnexpected, silent{errors.New(t.Generator.Invalid)}}
	case early != "":
		return withExit{exitUnexpected, silent{errStopped}}
	}
	return nil
}

// writeHDR writes the response times of each window as an HDR log.
func writeHDR(path string, began time.Time, windows []measure.Window) error {
	var log bytes.Buffer
	if err := record.WriteHDR(&log, began, windows, func(w *measure.Window) *measure.Sparse { return &w.Response }); err != nil {
		return err
	}
	return writeFile(path, log.Bytes())
}
