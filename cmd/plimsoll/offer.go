package main

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/remote"
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
	fleet   *remote.Fleet           // the generators; nil is this process
	length  time.Duration           // how long it is meant to last; 0 is unknown
	keep    bool                    // the windows, too
	watch   func(w *measure.Window) // is shown each window; it may be nil
	began   time.Time
	windows []measure.Window
}

// run offers the load. early is why it ended before it was done, or empty. An error means that
// there is nothing to report.
func (o *offer) run(ctx context.Context, c *console) (t *measure.Totals, early string, err error) {
	run := load.Run
	if o.fleet != nil {
		run = o.fleet.Run
	} else {
		release, err := harness.Reserve(o.options.Connections, o.options.Loops)
		if err != nil {
			return nil, "", err
		}
		defer release()
	}
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
	t, err = run(ctx, o.options)
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
	if err := record.WriteHDR(&log, began, windows, func(w *measure.Window) *measure.Sparse {
		return &w.Response
	}); err != nil {
		return err
	}
	return writeFile(path, log.Bytes())
}
