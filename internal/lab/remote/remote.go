// Package remote runs generators on other machines: a fleet of them sends one load together. It
// reaches them by the system's ssh, sends a copy of this program along, and speaks a small protocol
// of frames with it. The loops of a load are divided among the generators, so that they send
// exactly the schedule of one generator with as many loops. They start at one instant, with
// compared clocks, and their counts are added up exactly. A generator that dies, is late or does
// not keep up makes the load invalid. The package must not know what a load is for: a fleet takes
// the place of load.Run.
package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"plimsoll/internal/lab/load"
)

// mostGenerators bounds a fleet.
const mostGenerators = 64

// Options are what a fleet is made of.
type Options struct {
	// Generators are where they run: user@host[:port], as ssh understands it.
	Generators []string
	Work       *Work
	// Script is what the work sends, as this machine has read it.
	Script load.Script
	// Loops of each generator; 0 lets it choose, as harness.Loops does.
	Loops int
	// Dial reaches a generator, which speaks the protocol; nil does so by ssh. Sum is the hash that its
	// program must have; empty is any.
	Dial func(ctx context.Context, generator string) (Link, error)
	Sum  string
}

// Fleet is generators that are ready. Its methods are called one at a time, but for Close.
type Fleet struct {
	o      Options
	peers  []*peer
	events chan event
	over   chan struct{}
	once   sync.Once
	living sync.WaitGroup
}

// Open reaches all the generators and tells them the work. Its error names the generator.
func Open(ctx context.Context, o Options) (*Fleet, error) {
	if len(o.Generators) > mostGenerators {
		return nil, fmt.Errorf("%d generators are too many: %d are the most",
			len(o.Generators), mostGenerators)
	}
	if o.Dial == nil {
		program, err := thisProgram()
		if err != nil {
			return nil, err
		}
		o.Dial, o.Sum = program.dial, program.sum
	}
	f := &Fleet{o: o, events: make(chan event, 64), over: make(chan struct{})}
	if err := f.dial(ctx); err != nil {
		f.Close()
		return nil, err
	}
	for _, p := range f.peers {
		f.living.Go(func() { p.listen(f.post) })
		f.living.Go(p.beat)
	}
	if err := f.prepare(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// dial reaches all at once. Those that were reached are the fleet's, also when another was not.
func (f *Fleet) dial(ctx context.Context) error {
	peers, errs := make([]*peer, len(f.o.Generators)), make([]error, len(f.o.Generators))
	var all sync.WaitGroup
	for i, name := range f.o.Generators {
		all.Go(func() {
			link, err := f.o.Dial(ctx, name)
			if err == nil {
				stop := context.AfterFunc(ctx, func() { link.Close() })
				defer stop()
				peers[i], err = greet(name, link, f.o.Sum)
			}
			if err != nil {
				errs[i] = fmt.Errorf("generator %s: %w", name, err)
			}
		})
	}
	all.Wait()
	for _, p := range peers {
		if p != nil {
			f.peers = append(f.peers, p)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// prepare tells all of them the work.
func (f *Fleet) prepare(ctx context.Context) error {
	err := f.ask(ctx, f.peers, kindWork, func(*peer) any { return f.o.Work }, kindPrepared,
		func(e event) {
			e.peer.loops, e.peer.near = e.loops.Loops, e.loops.Near
		})
	for _, p := range f.peers {
		if f.o.Loops > 0 {
			p.loops = f.o.Loops
		}
	}
	return err
}

// ask sends each of the peers a frame and waits until each has answered with one of another kind. The
// first failure ends it, also one that has nothing to do with what was asked.
func (f *Fleet) ask(
	ctx context.Context, peers []*peer, k kind, message func(*peer) any, want kind,
	answered func(event),
) error {
	for _, p := range peers {
		if err := p.tell(k, message(p)); err != nil {
			return err
		}
	}
	for left := len(peers); left > 0; {
		e, err := f.next(ctx)
		if err != nil {
			return err
		}
		if e.err != nil {
			return e.peer.named(e.err)
		}
		if e.kind == want {
			answered(e)
			left--
		}
	}
	return nil
}

// tell sends a frame. That a peer is gone is what its reading says, unless it was known.
func (p *peer) tell(k kind, message any) error {
	if p.gone != nil {
		return p.named(p.gone)
	}
	if err := p.wire.send(k, message); err != nil {
		return p.named(err)
	}
	return nil
}

// named is an error with the generator's name.
func (p *peer) named(err error) error { return fmt.Errorf("generator %s: %w", p.name, err) }

// post passes an event on, unless the fleet is closed.
func (f *Fleet) post(e event) {
	select {
	case f.events <- e:
	case <-f.over:
	}
}

// next is the next event. Who is gone stays gone.
func (f *Fleet) next(ctx context.Context) (event, error) {
	select {
	case e := <-f.events:
		if e.kind == 0 {
			if e.err == nil {
				e.err = errors.New("it has ended")
			}
			e.peer.gone = e.err
		}
		return e, nil
	case <-ctx.Done():
		return event{}, ctx.Err()
	}
}

// Close ends the generators.
func (f *Fleet) Close() {
	f.once.Do(func() { close(f.over) })
	var all sync.WaitGroup
	for _, p := range f.peers {
		all.Go(func() { p.close(nil) })
	}
	all.Wait()
	f.living.Wait()
}

// Near says whether the target is on the machine of one of the generators, which then takes
// processors from it.
func (f *Fleet) Near() bool {
	for _, p := range f.peers {
		if p.near {
			return true
		}
	}
	return false
}

// Loops is how many event loops the generators have together, for so many connections.
func (f *Fleet) Loops(connections int) int {
	loops := 0
	for _, p := range f.peers {
		loops += p.loops
	}
	return min(loops, connections)
}

// Connections is how many connections the generators' machines have to the target.
func (f *Fleet) Connections(ctx context.Context) (n int, err error) {
	err = f.ask(ctx, f.peers, kindCount, func(*peer) any { return nil }, kindCounted,
		func(e event) { n += e.counted })
	return n, err
}
