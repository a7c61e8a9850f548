package tlsio_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// again is the temporary error of the test sockets.
var again net.Error = againError{}

type againError struct{}

func (againError) Error() string   { return "nothing now" }
func (againError) Timeout() bool   { return true }
func (againError) Temporary() bool { return true }

// queue is one direction of a connection in memory.
type queue struct {
	mu     sync.Mutex
	cond   sync.Cond
	b      []byte
	off    int
	closed bool
	tell   func()
}

func newQueue() *queue {
	q := &queue{}
	q.cond.L = &q.mu
	return q
}

func (q *queue) put(p []byte) {
	q.mu.Lock()
	if q.off == len(q.b) {
		q.b, q.off = q.b[:0], 0
	}
	q.b = append(q.b, p...)
	tell := q.tell
	q.mu.Unlock()
	q.cond.Broadcast()
	if tell != nil {
		tell()
	}
}

func (q *queue) end() {
	q.mu.Lock()
	q.closed = true
	tell := q.tell
	q.mu.Unlock()
	q.cond.Broadcast()
	if tell != nil {
		tell()
	}
}

// take gets what is there, or again, or the end.
func (q *queue) take(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := copy(p, q.b[q.off:])
	q.off += n
	switch {
	case n > 0:
		return n, nil
	case q.closed:
		return 0, io.EOF
	}
	return 0, again
}

// wait gets what is there, and waits when there is nothing.
func (q *queue) wait(p []byte) (int, error) {
	q.mu.Lock()
	for q.off == len(q.b) && !q.closed {
		q.cond.Wait()
	}
	q.mu.Unlock()
	return q.take(p)
}

// socket is the tested side: a tlsio.Socket in memory.
type socket struct {
	rx, tx *queue
	reads  int         // calls of Read
	writes int         // calls of Write
	last   []byte      // what the last Write sent
	fail   error       // what Read and Write return, if anything
	keep   bool        // whether to record last
	crumbs bool        // the raw calls take one byte, and say again every other time
	turn   bool        //
	wake   func()      // signals readiness
	inMax  int         // raw reads stop after so many bytes; -1 for no end
	outMax int         // raw writes likewise
	stuck  chan int    // told when a raw call stops at its end
	cut    atomic.Bool // whether the connection ends there
}

func (s *socket) Read(p []byte) (int, error) {
	s.reads++
	if s.fail != nil {
		return 0, s.fail
	}
	return s.rx.take(p)
}

func (s *socket) Write(p []byte) error {
	s.writes++
	if s.keep {
		s.last = append(s.last[:0], p...)
	}
	if s.fail != nil {
		return s.fail
	}
	s.tx.put(p)
	return nil
}

func (s *socket) RawRead(p []byte) (int, error) {
	return s.raw(p, &s.inMax, s.rx.take)
}

func (s *socket) RawWrite(p []byte) (int, error) {
	return s.raw(p, &s.outMax, func(p []byte) (int, error) {
		s.tx.put(p)
		return len(p), nil
	})
}

func (s *socket) raw(p []byte, left *int, op func([]byte) (int, error)) (int, error) {
	if *left == 0 {
		if s.cut.Load() {
			return 0, io.EOF
		}
		select {
		case s.stuck <- 1:
		default:
		}
		return 0, again
	}
	if s.crumbs {
		if s.turn = !s.turn; s.turn {
			s.wake()
			return 0, again
		}
		p = p[:1]
	}
	if *left > 0 {
		p = p[:min(len(p), *left)]
	}
	n, err := op(p)
	if *left > 0 {
		*left -= n
	}
	return n, err
}

// peer is the other side: an ordinary blocking net.Conn.
type peer struct {
	rx, tx *queue
}

func (p *peer) Read(b []byte) (int, error)       { return p.rx.wait(b) }
func (p *peer) Write(b []byte) (int, error)      { p.tx.put(b); return len(b), nil }
func (p *peer) Close() error                     { p.tx.end(); p.rx.end(); return nil }
func (p *peer) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (p *peer) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (p *peer) SetDeadline(time.Time) error      { return nil }
func (p *peer) SetReadDeadline(time.Time) error  { return nil }
func (p *peer) SetWriteDeadline(time.Time) error { return nil }

func newLink() (*socket, *peer) {
	in, out := newQueue(), newQueue()
	return &socket{rx: in, tx: out, inMax: -1, outMax: -1, stuck: make(chan int, 1)}, &peer{rx: out, tx: in}
}
