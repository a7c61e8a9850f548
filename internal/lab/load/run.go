package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/http3"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
	"plimsoll/internal/tlsio"
)

// run is the state that the workers of one run share. Its Options have the defaults filled in.
type run struct {
	Options
	workers  []*worker
	opened   chan opened
	full     chan *part
	depleted atomic.Int32 // loops whose schedule has no more arrivals
	end      atomic.Int64 // when the last request ended, in nanoseconds since the start
}

// opened is what a worker reports once it has tried all its connections.
type opened struct {
	made int
	err  error // why the first failed one failed; nil if none did
}

// Limits of the options. Longer times count as longest, which is a year; that keeps sums of times
// from overflowing.
const (
	mostConnections = 1 << 20
	mostStreams     = 1 << 14
	mostLoops       = 1 << 10
	mostWaiting     = 1 << 24
	longest         = 365 * 24 * time.Hour
)

// headStart is how long before the start of the run's clock the loops are told, in nanoseconds.
const headStart = 5_000_000

// Run sends what o describes and returns the results. It fails without results if o makes no sense
// or if no connection can be made; the error is one line that says why. When ctx ends, requests
// under way are cut off and counted as Unfinished, and Run returns the results so far, without an
// error. Before the run's clock has started it returns the context's error instead.
//
// Run may be called from any goroutine, also several times at once. It uses o.Loops threads until
// it returns.
func Run(ctx context.Context, o Options) (*measure.Totals, error) {
	outcome, err := Measure(ctx, o)
	if err != nil {
		return nil, err
	}
	return outcome.Totals(&o), nil
}

// Measure is like Run for one part of a run: its outcome adds up with those of the other parts.
func Measure(ctx context.Context, o Options) (*Outcome, error) {
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	var loops sync.WaitGroup
	for _, w := range r.workers {
		loops.Go(w.loop.Run)
		w.loop.Post(w.prepare)
	}
	start, err := r.awaitStart(ctx)
	if err != nil {
		r.post((*worker).cancel)
		loops.Wait()
		r.closeUDP()
		return nil, err
	}
	c := r.collector()
	var collecting sync.WaitGroup
	collecting.Go(c.run)
	if o.Began != nil {
		o.Began(time.Now().Add(time.Duration(start - reactor.Clock())))
	}
	r.post(func(w *worker) { w.begin(start) })
	over := make(chan struct{})
	go func() {
		loops.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
		r.post((*worker).cancel)
		<-over
	}
	close(r.full)
	collecting.Wait()
	r.closeUDP()
	return r.outcome(c, start), nil
}

// awaitStart waits until the connections are open and the run is about to start. It returns the
// start by reactor.Clock.
func (r *run) awaitStart(ctx context.Context) (start int64, err error) {
	if err := r.awaitConnections(ctx); err != nil {
		return 0, err
	}
	if r.Start == nil {
		return reactor.Clock() + headStart, nil
	}
	if start, err = r.Start(ctx); err != nil {
		return 0, err
	}
	// The cost of the loops is counted from when they are told.
	early := time.NewTimer(time.Duration(start - headStart - reactor.Clock()))
	defer early.Stop()
	select {
	case <-early.C:
		return start, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (r *run) closeUDP() {
	for _, w := range r.workers {
		w.closeUDP()
	}
}

// withDefaults checks the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Script == nil || len(o.Script.Names()) == 0:
		return o, errors.New("nothing to send: give a script with at least one request")
	case len(o.Target.Addresses) == 0:
		return o, errors.New("nowhere to send to: the target has no address")
	case o.Duration < 0 || o.Connections < 0 || o.Loops < 0 || o.Timeout < 0 || o.Backlog < 0 ||
		o.PerConnection < 0 || o.Lifetime < 0 || o.Streams < 0 ||
		o.Window < 0 || o.Lateness < 0:
		return o, errors.New("durations, connections, loops, streams and limits of a load must " +
			"not be negative")
	case o.Streams > mostStreams:
		return o, fmt.Errorf("%d streams on a connection are too many: %d are the most",
			o.Streams, mostStreams)
	case o.Connections > mostConnections || o.Loops > mostLoops:
		return o, fmt.Errorf("%d connections on %d loops are too many: %d and %d are the most",
			o.Connections, o.Loops, mostConnections, mostLoops)
	}
	defaults := func(v *int, is int) {
		if *v == 0 {
			*v = is
		}
	}
	defaults(&o.Connections, 64)
	defaults(&o.Loops, 1)
	defaults(&o.Backlog, 1<<20)
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Window == 0 {
		o.Window = 250 * time.Millisecond
	}
	if o.All == 0 {
		o.Loops = min(o.Loops, o.Connections)
		o.All = o.Loops
	}
	if o.First < 0 || o.All > min(o.Connections, mostLoops) || o.First > o.All-o.Loops {
		return o, fmt.Errorf("%d loops from loop %d on are not a part of %d loops with %d connections",
			o.Loops, o.First, o.All, o.Connections)
	}
	if o.Offered != nil {
		if err := o.Offered.Validate(); err != nil {
			return o, err
		}
		o.Arrivals = o.Offered.Schedule
	}
	o.Backlog = min(o.Backlog, mostWaiting)
	for _, d := range []*time.Duration{&o.Timeout, &o.Duration, &o.Lifetime, &o.Window} {
		*d = min(*d, longest)
	}
	switch {
	case o.Target.HTTP3 && o.Target.TLS == nil:
		return o, errors.New("HTTP/3 is always spoken over TLS: write the URL with https://")
	case o.Target.HTTP3:
		o.Streams = max(o.Streams, 1)
		o.Target.TLS = o.Target.TLS.Clone()
		o.Target.TLS.NextProtos = []string{http3.ALPN}
	default:
		o.Target.TLS = offering(o.Target.TLS, o.Streams > 0)
	}
	return o, nil
}

// offering returns a config that offers HTTP/2 first, if http2 is set. It offers HTTP/1.1 too, so
// that a target names its choice instead of just refusing.
func offering(cfg *tls.Config, http2 bool) *tls.Config {
	if cfg == nil || !http2 {
		return cfg
	}
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"h2", "http/1.1"}
	return cfg
}

// agreed returns nil if ALPN chose the protocol to speak.
func (r *run) agreed(protocol string) error {
	switch {
	case r.Streams == 0 || protocol == "h2":
		return nil
	case protocol == "":
		return errors.New("the target chose no protocol (ALPN), so it speaks HTTP/1.1 and not HTTP/2")
	}
	return fmt.Errorf("the target chose %q and not HTTP/2 (ALPN)", protocol)
}

// speak sets the protocol of a connection.
func (r *run) speak(c *conn) {
	switch {
	case r.Target.HTTP3:
		c.protocol = newHTTP3(c)
		return
	case r.Streams > 0:
		c.protocol = newHTTP2(c)
		return
	}
	c.protocol = &http1Conn{only: exchange{c: c}}
}

// newRun makes the loops and their workers. It does not start them.
func newRun(o Options) (*run, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	loops, err := reactor.NewGroup(o.Loops, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("cannot make the generator's loops: %w", err)
	}
	r := &run{
		Options: o,
		opened:  make(chan opened, o.Loops),
		full:    make(chan *part, o.Loops*partsPerLoop),
	}
	for i, l := range loops {
		w := &worker{
			run:     r,
			loop:    l,
			id:      o.First + i,
			tls:     tlsio.NewLoop(),
			player:  o.Script.Player(o.First+i, o.All, o.Seed),
			spare:   make(chan *part, partsPerLoop),
			conns:   make([]conn, (o.Connections+o.All-1-o.First-i)/o.All),
			waiting: backlog{limit: (o.Backlog + o.All - 1) / o.All},
			part:    &part{loop: i},
			alarmAt: never,
		}
		w.places = len(w.conns) * max(o.Streams, 1)
		for range partsPerLoop - 1 {
			w.spare <- &part{loop: i}
		}
		if o.Arrivals != nil {
			w.schedule = o.Arrivals(o.First+i, o.All)
		}
		if names := o.Script.Names(); len(names) > 1 {
			w.kinds = make([]kind, len(names))
		}
		r.workers = append(r.workers, w)
	}
	return r, nil
}

// post calls f on every loop, with the loop's worker.
func (r *run) post(f func(w *worker)) {
	for _, w := range r.workers {
		w.loop.Post(func() { f(w) })
	}
}

// awaitConnections waits until every connection was made or has failed. It fails if all have.
func (r *run) awaitConnections(ctx context.Context) error {
	made := 0
	var failed error
	for range r.workers {
		select {
		case o := <-r.opened:
			made += o.made
			if failed == nil {
				failed = o.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if made == 0 {
		return cannotConnect(&r.Target, failed)
	}
	return nil
}

// exhaust records that one more loop's schedule has no more arrivals. The last such loop tells the
// others, which wait for it.
func (r *run) exhaust() {
	if int(r.depleted.Add(1)) == len(r.workers) {
		r.post(func(w *worker) {
			w.now = reactor.Clock()
			w.afterEvent()
		})
	}
}

// exhausted reports that no loop's schedule has more arrivals.
func (r *run) exhausted() bool { return int(r.depleted.Load()) == len(r.workers) }

func (r *run) collector() *collector {
	c := &collector{
		full:    r.full,
		queue:   make([][]*part, len(r.workers)),
		window:  int64(r.Window),
		observe: r.Observe,
		end:     r.end.Load,
	}
	for _, w := range r.workers {
		c.spare = append(c.spare, w.spare)
	}
	return c
}
