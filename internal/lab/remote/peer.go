package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// Link is a connection to a generator: its standard output and input. Close ends the generator. If
// possible, its error says why the generator had ended before.
type Link interface {
	io.Reader
	io.Writer
	Close() error
}

// peer is a generator as seen by its fleet. One goroutine reads from it.
type peer struct {
	name   string
	link   Link
	wire   *wire
	hello  hello
	loops  int  // chosen by the generator, or set by Options.Loops
	near   bool // the target is on its machine
	clock  comparison
	ahead  int64 // how far its wall clock is ahead of ours, in nanoseconds
	heard  *time.Timer
	closed chan struct{}
	clocks chan answer
	shut   sync.Once
	why    error // the reason if the fleet closed it
	// gone says why it cannot be used any more; nil while it can. Only the fleet uses it.
	gone error
}

// answer is the end of a round trip, with its arrival time by our clock.
type answer struct {
	trip
	back int64
}

// event is a message from a peer, or with kind 0 the fact that it is gone.
type event struct {
	peer    *peer
	kind    kind
	window  *measure.Window
	done    *finished
	counted int
	loops   prepared
	err     error // why it failed or is gone
}

// greet exchanges greetings. expect is the required hash of its program; empty for any.
func greet(name string, link Link, expect string) (*peer, error) {
	p := &peer{
		name:   name,
		link:   link,
		wire:   newWire(link, link),
		closed: make(chan struct{}),
		clocks: make(chan answer, 1),
	}
	late := time.AfterFunc(loginPatience, func() { link.Close() })
	k, content, err := p.wire.receive()
	if !late.Stop() {
		err = fmt.Errorf("it has not greeted for %v", loginPatience)
	}
	if err == nil && k != kindHello {
		err = fmt.Errorf("it begins with a frame of kind %q and not with a greeting", k)
	}
	var h *hello
	if err == nil {
		h, err = decode[hello](content)
	}
	if err == nil {
		err = h.check()
	}
	if err == nil && expect != "" && h.Sum != expect {
		err = errors.New("the program there is not the one that was sent: remove the folder " +
			"plimsoll in the .cache of that user's home, and try again")
	}
	if err == nil {
		err = p.wire.send(kindHello, hello{Version: protocolVersion})
	}
	if err != nil {
		return nil, because(p.cause(err), link.Close())
	}
	h.Host = clean(h.Host, 100)
	p.hello = *h
	return p, nil
}

// cause describes an error of the connection.
func (p *peer) cause(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection to it has ended")
	}
	return err
}

// listen posts what the peer sends, until it is gone.
func (p *peer) listen(post func(event)) {
	p.heard = time.AfterFunc(silence, func() {
		p.close(fmt.Errorf("nothing was heard of it for %v", silence))
	})
	defer p.heard.Stop()
	err := p.hear(post)
	p.close(p.cause(err))
	post(event{peer: p, err: p.why})
}

// hear returns the reason for the end.
func (p *peer) hear(post func(event)) error {
	for {
		k, content, err := p.wire.receive()
		if err != nil {
			return err
		}
		now := reactor.Clock()
		p.heard.Reset(silence)
		if k == kindBeat {
			continue
		}
		if k == kindClock {
			if err := p.toldTime(content, now); err != nil {
				return err
			}
			continue
		}
		e, err := p.understand(k, content)
		if err != nil {
			return err
		}
		post(e)
	}
}

// toldTime completes a round trip.
func (p *peer) toldTime(content []byte, now int64) error {
	t, err := decode[trip](content)
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return err
	}
	select {
	case p.clocks <- answer{*t, now}:
	default: // nobody asked
	}
	return nil
}

// understand turns a frame into an event.
func (p *peer) understand(k kind, content []byte) (e event, err error) {
	e = event{peer: p, kind: k}
	switch k {
	case kindPrepared:
		var m *prepared
		if m, err = decode[prepared](content); err == nil {
			e.loops = *m
			if m.Loops < 1 || m.Loops > 1<<10 {
				err = errors.New("it asks for an impossible number of loops")
			}
		}
	case kindReady:
	case kindWindow:
		e.window, err = decode[measure.Window](content)
	case kindOutcome:
		e.done, err = decode[finished](content)
	case kindFailed:
		var m *failed
		if m, err = decode[failed](content); err == nil {
			e.err = m.err()
		}
	case kindCounted:
		var m *counted
		if m, err = decode[counted](content); err == nil {
			e.counted = max(m.Connections, 0)
		}
	default:
		err = fmt.Errorf("a frame of kind %q does not come from a generator", k)
	}
	return e, err
}

// close ends the connection and with it the generator. The first reason counts.
func (p *peer) close(why error) {
	p.shut.Do(func() {
		p.why = why
		close(p.closed)
		if err := p.link.Close(); why != nil {
			p.why = because(why, err)
		}
	})
}

// because joins an error and its cause in one line; behind may be nil.
func because(err, behind error) error {
	if behind == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, behind)
}

// beat sends a sign of life until the peer is gone.
func (p *peer) beat() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := p.wire.send(kindBeat, nil); err != nil {
				return
			}
		case <-p.closed:
			return
		}
	}
}

// compareClocks makes the round trips. It fails if the peer goes away.
func (p *peer) compareClocks(ctx context.Context) error {
	readings := make([]reading, 0, roundTrips)
	var last answer
	for number := range roundTrips {
		sent := reactor.Clock()
		if err := p.wire.send(kindClock, trip{Number: number}); err != nil {
			return err
		}
		for answered := false; !answered; {
			select {
			case last = <-p.clocks:
				if answered = last.Number == number; answered {
					readings = append(readings, reading{sent, last.Received, last.Sent, last.back})
				}
			case <-p.closed:
				return errors.New("the connection to it has ended")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	p.clock = compare(readings)
	since := reactor.Clock() - (last.Received - p.clock.offset)
	p.ahead = last.Wall - (time.Now().UnixNano() - since)
	return nil
}
