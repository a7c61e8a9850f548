// Package refserver serves HTTP with a known capacity, so that tools that measure services can be
// compared with it. A queue computes the time of each answer when the request arrives, and the
// server keeps that time to the microsecond. One loop does all the work. If it is late, the delay
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

// Options say what a server does. Except for Station, or Service instead of it, the zero value of a
// field means the default that its comment names.
type Options struct {
	// Station is the queue of the requests. A request that it refuses is answered with a 503 at
	// once.
	Station queue.Station
	Seed    uint64 // of the service times
	// Service, if set, replaces the station, and Paths are the paths of its routes, without a
	// query. A request for another path counts for the first route.
	Service reference.Service
	Paths   []string
	// Address to listen on; default "127.0.0.1:0", a free port.
	Address string
	// Body of a good answer; default empty.
	Body []byte
	// Stall freezes the server once.
	Stall Stall
	// Connections is the most open connections; more are closed at once. Default 65536.
	Connections int
}

// Stall stops the time of the queue for a while: the server answers nothing and does no work, as
// during a garbage collection. Requests that arrive meanwhile queue as if all had arrived at its
// end.
type Stall struct {
	// At is the number of the request, from 1, whose arrival starts the stall; 0 for no stall.
	At  uint64
	For time.Duration
}

// Counts are the counters of a server.
type Counts struct {
	// requests that arrived, and those answered with 200 and with 429 or 503
	Offered, Served, Refused uint64
	// requests whose client left before the answer was due; their work was done anyway
	Gone uint64
	// connections closed because of invalid input, including pipelined requests, or because there
	// was no room
	BadRequests uint64
	TooMany     uint64 // connections closed because of Options.Connections
	// Planned is the truth: the time from the arrival of each request to the computed end of its
	// service, recorded at that end; without refusals.
	Planned measure.Sparse
	// Late is how long after its computed time each good answer was given to the kernel.
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

// patience is how long the loop may take to serve a call from another goroutine.
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

// Address is where the server listens, such as "127.0.0.1:18700".
func (s *Server) Address() string { return s.address.String() }

// Counts returns the present counters, and after Close the final ones. Any goroutine may call it.
func (s *Server) Counts() Counts {
	var c Counts
	if !s.loop.Call(patience, func() { c = s.state.copyCounts() }) {
		s.running.Wait()
		c = s.state.copyCounts()
	}
	return c
}

// Close ends the server. Waiting requests get no answer.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.loop.Call(patience, s.state.close)
		s.running.Wait()
	})
}

// state belongs to the loop.
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

// reply is a prepared answer in the four forms that are needed.
type reply struct {
	// head is for HEAD requests; the last forms say that the connection ends
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

// Shed counts a connection for which there was no descriptor.
func (s *state) Shed(*reactor.Loop) { s.counts.TooMany++ }

// Accepts implements reactor.Acceptor.
func (s *state) Accepts(*reactor.Loop) bool { return true }

// virtual is the queue's time. It stands still during the stall and remains behind by its length.
func (s *state) virtual(now int64) int64 {
	if s.stalled == 0 {
		return now
	}
	return max(s.stalled, now-int64(s.stall.For))
}

// real is the real time of a moment of the queue's time.
func (s *state) real(virtual int64) int64 {
	if s.stalled == 0 || virtual < s.stalled {
		return virtual
	}
	return virtual + int64(s.stall.For)
}

// mostPending bounds the requests inside. The number of connections does not bound them, because
// the request of a client that leaves stays in the queue.
const mostPending = 1 << 20

// arrive puts a request into the queue. It returns false if there is no memory for it.
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

// serve answers the requests that are due, and sets the alarm for the next one.
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

// Run is called by the alarm.
func (s *state) Run() { s.serve(reactor.Clock()) }

// completion is a planned answer.
type completion struct {
	arrived int64
	done    int64 // in the queue's time
	conn    *conn
	status  int
}

// Before implements heap.Ordered.
func (c completion) Before(o completion) bool { return c.done < o.done }
