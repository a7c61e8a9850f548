// Package remote runs generators on other machines: a fleet that sends one load together. It
// reaches them through the system's ssh, sends a copy of this program along, and talks to it in a
// small protocol of frames. The loops of a load are divided among the generators, so that they send
// exactly the schedule of one generator with as many loops. They start at the same moment, using
// compared clocks, and their counts are added up exactly. A generator that dies, is late or does
// not keep up makes the load invalid. The package must not know what a load is for: a fleet
// replaces load.Run.
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

// Options describe a fleet.
type Options struct {
	// Generators are their addresses: user@host[:port], as ssh understands them.
	Generators []string
	Work       *Work
	// Script is the script of the work, as read on this machine.
	Script load.Script
	// Loops is the number of loops of each generator; 0 lets it choose, as harness.Loops does.
	Loops int
	// Dial connects to a generator that speaks the protocol; nil uses ssh. Sum is the required hash
	// of its program; empty for any.
	Dial func(ctx context.Context, generator string) (Link, error)
	Sum  string
}

// Fleet is a set of ready generators. Its methods, except Close, are called one at a time.
type Fleet struct {
	o      Options
	peers  []*peer
	events chan event
	over   chan struct{}
	once   sync.Once
	living sync.WaitGroup
}

// Open connects to all generators and sends them the work. Its error names the generator.
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

// dial connects to all at once. Those it reached belong to the fleet, even if others failed.
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

// prepare sends the work to all generators.
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

// ask sends a frame to each of the peers and waits until each has answered with a frame of kind
// want. It stops at the first failure, even one that is unrelated to the question.
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

// tell sends a frame. Unless the peer is already known to be gone, its reader reports that.
func (p *peer) tell(k kind, message any) error {
	if p.gone != nil {
		return p.named(p.gone)
	}
	if err := p.wire.send(k, message); err != nil {
		return p.named(err)
	}
	return nil
}

// named adds the generator's name to an error.
func (p *peer) named(err error) error { return fmt.Errorf("generator %s: %w", p.name, err) }

// post delivers an event, unless the fleet is closed.
func (f *Fleet) post(e event) {
	select {
	case f.events <- e:
	case <-f.over:
	}
}

// next returns the next event. A peer that is gone stays gone.
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

// Near reports whether the target is on the machine of one of the generators, which then takes
// processor time from it.
func (f *Fleet) Near() bool {
	for _, p := range f.peers {
		if p.near {
			return true
		}
	}
	return false
}

// Loops is the total number of the generators' event loops, for the given number of connections.
func (f *Fleet) Loops(connections int) int {
	loops := 0
	for _, p := range f.peers {
		loops += p.loops
	}
	return min(loops, connections)
}

// Connections is the number of connections from the generators' machines to the target.
func (f *Fleet) Connections(ctx context.Context) (n int, err error) {
	err = f.ask(ctx, f.peers, kindCount, func(*peer) any { return nil }, kindCounted,
		func(e event) { n += e.counted })
	return n, err
}
