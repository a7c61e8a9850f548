// Package refserver serves HTTP with a known capacity, so that tools that measure a service can be
// compared with it. A queue computes the time of each answer when the request arrives, and the
// server keeps that time to the microsecond. One loop does all the work. When it is late, the delay
// does not add up, because completions are planned and not measured. The package must not know what
// is compared with it.
package refserver

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"plimsoll/internal/http1"
	"plimsoll/internal/lab/heap"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/reference"
	"plimsoll/internal/reactor"
)

// Options are what a server does. The zero value of each field but Station, or Service in its place,
// is the default it names.
type Options struct {
	// Station is the queue that requests stand in. One that it refuses is answered with 503 at
	// once.
	Station queue.Station
	Seed    uint64 // of the service times
	// Service, when there is one, is played instead of the station, and Paths are those of its
	// routes, without a query; a request for another path is for the first.
	Service reference.Service
	Paths   []string
	// Address to listen on; "127.0.0.1:0", a free port.
	Address string
	// Body of a good answer; empty.
	Body []byte
	// Stall freezes the server once.
	Stall Stall
	// Connections is the most that are open at once; one more is closed at once. 65536.
	Connections int
}

// Stall stops the time of the queue for a while: nothing is answered and no work gets done, as in a
// service that collects its garbage. Requests that arrive meanwhile stand in the queue as if all
// had come at its end.
type Stall struct {
	// At is the number of the request, from 1 on, whose arrival begins it; 0 means no stall.
	At  uint64
	For time.Duration
}

// Counts is what a server has done.
type Counts struct {
	// requests that arrived, and those that were answered with 200 and with 429 or 503
	Offered, Served, Refused uint64
	// requests whose client had left before the answer was due; their work was done all the same
	Gone uint64
	// connections closed because of what came over them, pipelined requests too, or because there
	// was no room
	BadRequests uint64
	TooMany     uint64 // connections closed because of Options.Connections
	// Planned is the truth: from the arrival of each request to the computed end of its service,
	// once that has come; refusals are left out.
	Planned measure.Sparse
	// Late is how long after its computed time each answer was given to the kernel.
	Late measure.Sparse
}

// Server is a running server.
type Server struct {
	address reactor.Address
	loop    *reactor.Loop
	running sync.WaitGroup
	closing sync.Once
	state   *state
}

// patience is how long the loop may take to answer a question of another goroutine.
const patience = 5 * time.Second

// Start listens and serves until Close.
func Start(o Options) (*Server, error) {
	if o.Service == nil {
		if o.Station.Workers < 1 || o.Station.Service == nil {
			return nil, errors.New("a reference server needs at least one worker and a service time")
		}
		o.Service = reference.Station(o.Station, o.Seed)
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.Connections == 0 {
		o.Connections = 1 << 16
	}
	address, err := reactor.ParseAddress(o.Address)
	if err != nil {
		return nil, err
	}
	fd, err := reactor.BindFirst(address, 4096)
	if err != nil {
		return nil, err
	}
	bound, err := reactor.LocalAddress(fd)
	if err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	loops, err := reactor.NewGroup(1, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	s := &Server{address: bound, loop: loops[0], state: newState(loops[0], o)}
	s.running.Go(s.loop.Run)
	listening := errors.New("the server's loop does not answer")
	s.loop.Call(patience, func() { listening = s.state.listen(fd) })
	if listening != nil {
		s.Close()
		return nil, fmt.Errorf("listen on %s: %w", bound, listening)
	}
	return s, nil
}

// Address is where the server listens, as "127.0.0.1:18700".
func (s *Server) Address() string { return s.address.String() }

// Counts is what the server has done so far, and after Close what it did. Any goroutine may ask.
func (s *Server) Counts() Counts {
	var c Counts
	if !s.loop.Call(patience, func() { c = s.state.copyCounts() }) {
		s.running.Wait()
		c = s.state.copyCounts()
	}
	return c
}

// Close ends the server: requests that wait get no answer.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.loop.Call(patience, s.state.close)
		s.running.Wait()
	})
}

// state is what the loop owns.
type state struct {
	loop     *reactor.Loop
	service  reference.Service
	paths    []string
	stall    Stall
	stalled  int64 // Clock when the stall began; 0 before
	listener *reactor.Listener
	conns    map[*conn]struct{}
	most     int
	pending  heap.Heap[completion]
	planned  measure.Histogram
	late     measure.Histogram
	counts   Counts
	request  http1.Request
	good     reply
	refusal  reply
	tooMany  reply
	last     int64 // the queue's time of the last arrival
}

func newState(l *reactor.Loop, o Options) *state {
	s := &state{
		loop:    l,
		service: o.Service,
		paths:   o.Paths,
		stall:   o.Stall,
		conns:   map[*conn]struct{}{},
		most:    o.Connections,
	}
	s.good = newReply(reference.Good, o.Body)
	s.refusal, s.tooMany = newReply(reference.Unavailable, nil), newReply(reference.TooMany, nil)
	return s
}

// reply is a prepared answer, in the forms in which it is needed.
type reply struct {
	// a head without the body answers HEAD; the last ones say that the connection ends
	whole, head, wholeLast, headLast []byte
}

func newReply(status int, body []byte) reply {
	b := http1.AppendStatusLine(nil, status)
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n"...)
	kept := append(slices.Clone(b), "\r\n"...)
	last := append(slices.Clone(b), "Connection: close\r\n\r\n"...)
	return reply{slices.Concat(kept, body), kept, slices.Concat(last, body), last}
}

func (s *state) listen(fd int) (err error) {
	s.listener, err = s.loop.Listen(fd, s)
	return err
}

func (s *state) copyCounts() Counts {
	c := s.counts
	c.Planned, c.Late = s.planned.Sparse(), s.late.Sparse()
	return c
}

func (s *state) close() {
	if s.listener != nil {
		s.listener.Close(false)
	}
	for c := range s.conns {
		c.Close()
	}
	s.loop.StopAlarm()
	s.loop.Stop()
}

// Accepted takes a new connection.
func (s *state) Accepted(l *reactor.Loop, socket reactor.Socket) {
	if len(s.conns) >= s.most {
		s.counts.TooMany++
		socket.Close()
		return
	}
	c := &conn{state: s}
	if c.Attach(l, socket, c) == nil {
		s.conns[c] = struct{}{}
	}
}

// Shed counts a connection that there was no descriptor for.
func (s *state) Shed(*reactor.Loop) { s.counts.TooMany++ }

// Accepts implements reactor.Acceptor.
func (s *state) Accepts(*reactor.Loop) bool { return true }

// virtual is the queue's time, which stands still during the stall and is behind by it ever after.
func (s *state) virtual(now int64) int64 {
	if s.stalled == 0 {
		return now
	}
	return max(s.stalled, now-int64(s.stall.For))
}

// real is when a moment of the queue's time has come.
func (s *state) real(virtual int64) int64 {
	if s.stalled == 0 || virtual < s.stalled {
		return virtual
	}
	return virtual + int64(s.stall.For)
}

// mostPending bounds the requests that are inside at once. A client that leaves stays in the queue,
// so connections do not bound them.
const mostPending = 1 << 20

// arrive has a request stand in the queue at a moment. It says whether there is memory for it.
func (s *state) arrive(c *conn, now int64) bool {
	if s.pending.Len() >= mostPending {
		return false
	}
	if s.counts.Offered++; s.counts.Offered == s.stall.At {
		s.stalled = now
	}
	at := max(s.virtual(now), s.last)
	s.last = at
	done, status := s.service.Offer(at, c.route)
	c.waiting = true
	s.pending.Push(completion{now, done, c, status})
	s.serve(reactor.Clock())
	return true
}

// serve answers what is due, and has the loop come back for what is due next.
func (s *state) serve(now int64) {
	for s.pending.Len() > 0 {
		due := s.real(s.pending.Top().done)
		if due > now {
			s.loop.SetAlarm(due, s)
			return
		}
		p := s.pending.Pop()
		if p.status == reference.Good {
			s.planned.Record(due - p.arrived)
		}
		switch {
		case !p.conn.Open():
			s.counts.Gone++
		case p.status == reference.TooMany:
			s.counts.Refused++
			p.conn.answer(&s.tooMany)
		case p.status != reference.Good:
			s.counts.Refused++
			p.conn.answer(&s.refusal)
		default:
			s.counts.Served++
			s.late.Record(now - due)
			p.conn.answer(&s.good)
		}
	}
	s.loop.StopAlarm()
}

// Run is the alarm.
func (s *state) Run() { s.serve(reactor.Clock()) }

// completion is an answer that is to be given.
type completion struct {
	arrived int64
	done    int64 // in the queue's time
	conn    *conn
	status  int
}

// Before implements heap.Ordered.
func (c completion) Before(o completion) bool { return c.done < o.done }
