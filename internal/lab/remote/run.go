package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

const (
	// lead is how long before a load's start the generators are told the start, in addition to
	// twice their longest round trip, in nanoseconds.
	lead = 50_000_000
	// stopPatience is how long generators may take to end a load after being told to.
	stopPatience = 15 * time.Second
)

// Run is load.Run over all generators: it deals o.Loops out to them. The script and the target of o
// must be those of the fleet's work. If a generator goes away during the load, is late or does not
// keep up, the totals are invalid and all generators stop.
func (f *Fleet) Run(ctx context.Context, o load.Options) (*measure.Totals, error) {
	if o.Arrivals != nil {
		return nil, errors.New("a schedule that is not plain data cannot be sent to generators")
	}
	o = withDefaults(o)
	shares := f.deal(&o)
	if err := f.compareClocks(ctx, shares); err != nil {
		return nil, err
	}
	at, err := f.ready(ctx, shares)
	if err != nil {
		return nil, err
	}
	if o.Began != nil {
		o.Began(time.Now().Add(time.Duration(at - reactor.Clock())))
	}
	r := &running{fleet: f, o: &o, shares: shares}
	r.windows = windows{
		length:  int64(o.Window),
		of:      make([]part, len(shares)),
		observe: o.Observe,
	}
	r.run(ctx)
	return r.totals(ctx)
}

// withDefaults fills in the defaults that the generators must agree on.
func withDefaults(o load.Options) load.Options {
	o.Connections = cmp.Or(o.Connections, 64)
	o.Loops = max(o.Loops, 1)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Window = cmp.Or(o.Window, 250*time.Millisecond)
	return o
}

// share is one generator's part of a load.
type share struct {
	*peer
	assignment
	over bool      // it has reported everything about this load
	done *finished // what it measured; nil if it failed
}

// deal deals out the load's loops one by one, up to the number that each generator can run, and
// gives each a range of them. A generator without loops has no share.
func (f *Fleet) deal(o *load.Options) []*share {
	all := min(o.Loops, f.Loops(o.Connections))
	loops := make([]int, len(f.peers))
	for left := all; left > 0; {
		for i, p := range f.peers {
			if left > 0 && loops[i] < p.loops {
				loops[i]++
				left--
			}
		}
	}
	var shares []*share
	first := 0
	for i, p := range f.peers {
		if loops[i] == 0 {
			continue
		}
		shares = append(shares, &share{peer: p, assignment: assignment{
			Offered:       o.Offered,
			Duration:      o.Duration,
			Connections:   o.Connections,
			Streams:       o.Streams,
			Loops:         loops[i],
			First:         first,
			All:           all,
			Timeout:       o.Timeout,
			Backlog:       o.Backlog,
			PerConnection: o.PerConnection,
			Lifetime:      o.Lifetime,
			Window:        o.Window,
			Lateness:      o.Lateness,
			Seed:          o.Seed,
		}})
		first += loops[i]
	}
	return shares
}

// compareClocks compares clocks with all generators that have a share, at once.
func (f *Fleet) compareClocks(ctx context.Context, shares []*share) error {
	errs := make([]error, len(shares))
	var all sync.WaitGroup
	for i, s := range shares {
		if s.gone != nil {
			return s.named(s.gone)
		}
		all.Go(func() {
			if err := s.compareClocks(ctx); err != nil {
				errs[i] = s.named(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, s := range shares {
		if errs[i] == nil {
			continue
		}
		// Its last event says why it is gone.
		for s.gone == nil {
			if _, err := f.next(ctx); err != nil {
				return errs[i]
			}
		}
		return s.named(s.gone)
	}
	return nil
}

// ready makes the generators open their connections and tells them when to start, by their clocks.
// It returns the start by our clock. If one of them fails, none starts.
func (f *Fleet) ready(ctx context.Context, shares []*share) (at int64, err error) {
	left := map[*peer]bool{}
	for _, s := range shares {
		if err = s.tell(kindLoad, s.assignment); err != nil {
			break
		}
		left[s.peer] = true
	}
	preparing := len(left)
	for err == nil && preparing > 0 {
		var e event
		if e, err = f.next(ctx); err != nil {
			break
		}
		switch {
		case e.err != nil:
			delete(left, e.peer)
			err = e.peer.named(e.err)
		case e.kind == kindReady:
			preparing--
		}
	}
	if err != nil {
		f.giveUp(left)
		return 0, err
	}
	longest := int64(0)
	for _, s := range shares {
		longest = max(longest, s.clock.longest)
	}
	at = reactor.Clock() + lead + 2*longest
	for _, s := range shares {
		// A peer that goes away meanwhile reports that in its last event.
		_ = s.wire.send(kindStart, start{at + s.clock.offset})
	}
	return at, nil
}

// giveUp stops loads that have not started and waits until the generators confirm. A generator that
// does not confirm is closed.
func (f *Fleet) giveUp(left map[*peer]bool) {
	for p := range left {
		_ = p.wire.send(kindStop, nil)
	}
	bounded, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	for len(left) > 0 {
		e, err := f.next(bounded)
		if err != nil {
			break
		}
		if e.err != nil || e.kind == kindOutcome {
			delete(left, e.peer)
		}
	}
	for p := range left {
		p.close(errors.New("it did not end a load that it was told to end"))
	}
}

// running is a running load.
type running struct {
	fleet   *Fleet
	o       *load.Options
	shares  []*share
	windows windows
	broken  []string // reasons why the figures are worthless
	stopped bool
}

// run handles the generators' events until each has sent its outcome or is gone.
func (r *running) run(ctx context.Context) {
	bounded, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		r.stopAll()
		time.AfterFunc(stopPatience, cancel)
	})
	defer stop()
	for left := len(r.shares); left > 0; {
		e, err := r.fleet.next(bounded)
		if err != nil {
			r.abandon()
			return
		}
		i := slices.IndexFunc(r.shares, func(s *share) bool { return s.peer == e.peer })
		if i < 0 {
			continue // it has no share, and ended
		}
		s := r.shares[i]
		if s.over {
			continue
		}
		if s.over = r.take(i, s, e); s.over {
			left--
			r.windows.end(i)
		}
		if len(r.broken) > 0 && !r.stopped {
			r.stopped = true
			r.stopAll()
			time.AfterFunc(stopPatience, cancel)
		}
	}
}

// take handles one event of a share and reports whether it was its last.
func (r *running) take(i int, s *share, e event) (ended bool) {
	wrong := error(nil)
	switch {
	case e.err != nil:
		// A load stopped before its start is not a failure of the generator that says so.
		if !r.stopped || e.kind == 0 {
			r.broken = append(r.broken, s.named(e.err).Error())
		}
		return true
	case e.kind == kindWindow:
		if wrong = r.windows.add(i, e.window); wrong == nil {
			if slow, far := r.windows.behind(); far {
				r.broken = append(r.broken, fmt.Sprintf("generator %s does not keep up: it is more "+
					"than %d windows behind the others", r.shares[slow].name, mostBehind))
			}
		}
	case e.kind == kindOutcome:
		if wrong = e.done.check(&s.assignment, len(r.o.Script.Names())); wrong == nil {
			s.done = e.done
			return true
		}
	default:
		wrong = fmt.Errorf("a frame of kind %q does not come from a generator under load", e.kind)
	}
	if wrong != nil {
		// The share's last event will have the reason, and ends it.
		go s.close(wrong)
	}
	return false
}

// stopAll ends the load on all generators. Any goroutine may call it.
func (r *running) stopAll() {
	for _, s := range r.shares {
		go s.wire.send(kindStop, nil)
	}
}

// abandon closes the generators that did not end.
func (r *running) abandon() {
	for _, s := range r.shares {
		if !s.over {
			why := errors.New("it did not end a load that it was told to end")
			r.broken = append(r.broken, s.named(why).Error())
			go s.close(why)
		}
	}
}

// totals adds up the outcomes. If no generator has measured anything, there is nothing to add.
func (r *running) totals(ctx context.Context) (*measure.Totals, error) {
	var sum *load.Outcome
	var remote []measure.Remote
	for _, s := range r.shares {
		if s.done == nil {
			continue
		}
		remote = append(remote, s.figures())
		if sum == nil {
			sum = &s.done.Outcome
			continue
		}
		sum.Add(&s.done.Outcome)
	}
	if sum == nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if sum == nil {
		return nil, errors.New(strings.Join(r.broken, "; "))
	}
	for i, name := range r.o.Script.Names() {
		if i < len(sum.Requests) {
			sum.Requests[i].Name = name
		}
	}
	t := sum.Totals(r.o)
	t.Generator.Remote = remote
	r.judge(&t.Generator)
	return t, nil
}

// figures returns what is recorded about a generator. Call it before adding to its outcome.
func (s *share) figures() measure.Remote {
	o := &s.done.Outcome
	m := measure.Remote{
		Name:             s.name,
		Host:             s.hello.Host,
		Cores:            s.hello.Cores,
		Descriptors:      s.hello.Descriptors,
		Loops:            o.Loops,
		Due:              o.Due,
		Sent:             o.Sent,
		Lag:              o.Lag.Quantile(.99),
		CPU:              o.CPU,
		Busy:             o.Busy,
		HostBusy:         s.done.HostBusy,
		ClockOffset:      s.ahead,
		ClockUncertainty: s.clock.uncertainty,
		Invalid:          s.done.Invalid,
	}
	if late := time.Duration(s.done.Late); m.Invalid == "" && late > 0 {
		m.Invalid = fmt.Sprintf("it was told %v after the start that the load had started: "+
			"the connection to it is too slow, or its machine is too busy", late.Round(time.Microsecond))
	}
	return m
}

// judge marks figures as worthless if a generator is gone, or was the limit, which the sums over
// all generators may hide.
func (r *running) judge(g *measure.Generator) {
	for i := range g.Remote {
		if m := &g.Remote[i]; m.Invalid != "" {
			r.broken = append(r.broken, fmt.Sprintf("generator %s: %s", m.Name, m.Invalid))
		}
	}
	if len(r.broken) > 0 {
		g.Invalid = strings.Join(r.broken, "; ")
	}
}
