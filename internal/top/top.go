// Package top shows what a running gateway is doing: rates, percentiles, concurrency, headroom,
// breakers and limits of each route and upstream. It is a client of the admin API and nothing more,
// so it may run on another machine and against another version.
//
// It has four parts. The client (client.go) fetches a sample, within limits on time and size. The
// model (model.go) turns two samples into figures and is pure. The view (view.go) turns figures
// into lines and is pure, too. The program (program.go) shows these lines in a terminal until it is
// told to end. The package must not know how the gateway counts, and keeps nothing but two samples.
package top

import (
	"context"
	"errors"
	"time"
)

// The interval between two looks: below the first a percentile would rest on too few requests, and
// the admin API watches its loops for the second at most.
const (
	ShortestInterval = 200 * time.Millisecond
	LongestInterval  = 30 * time.Second
)

// Watcher looks at a gateway again and again. It has one user at a time.
type Watcher struct {
	client   *Client
	interval time.Duration
	before   *sample // nil at first, and after an error
}

// NewWatcher looks once an interval.
func NewWatcher(c *Client, interval time.Duration) *Watcher {
	return &Watcher{client: c, interval: interval}
}

// Next returns the figures of the next interval, which it waits for. After an error the one after
// it begins again, so that no figure covers more than it says.
func (w *Watcher) Next(ctx context.Context) (*Figures, error) {
	before := w.before
	w.before = nil
	if before == nil {
		var err error
		if before, err = w.client.sample(ctx); err != nil {
			return nil, err
		}
	}
	loops, err := w.client.loops(ctx, w.interval)
	busy := errors.Is(err, errCrowded)
	if busy {
		err = wait(ctx, w.interval)
	}
	if err != nil {
		return nil, err
	}
	after, err := w.client.sample(ctx)
	if err != nil {
		return nil, err
	}
	f := compare(before, after, loops)
	f.Address = w.client.String()
	if busy {
		f.Notes = append(f.Notes, "the loops are not shown: too many others watch them")
	}
	w.before = after
	return f, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
