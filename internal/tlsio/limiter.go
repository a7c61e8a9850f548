package tlsio

import (
	"sync"

	"plimsoll/internal/crash"
)

// HandshakeLimiter bounds the handshakes in flight. A handshake costs as much CPU as a hundred
// requests. Without the bound, a storm of new clients would starve the existing ones, and the
// goroutines of its handshakes would take unbounded memory.
//
// A handshake that waits for its peer steps aside and leaves its place to another, so that a
// hundred or so clients that send a ClientHello and then nothing do not keep out all others. The
// number that stand aside is limited too, to bound their memory: asideShare for each place. Beyond
// that, handshakes keep their places while they wait. Stepping back does not wait for a free place,
// because little computation is left after the flight that the server signs. Peers that send a
// ClientHello in two parts, and all the second parts at once, can make all handshakes that stand
// aside compute at the same time: asideShare+1 times the limit at most.
//
// It is shared by all loops. Its mutex is held for a few instructions per handshake.
type HandshakeLimiter struct {
	mu       sync.Mutex
	limit    int
	inFlight int
	aside    int
	queue    []func() // a ring: waiting entries from head on
	head     int
	waiting  int
	refused  uint64
}

// HandshakeLimiterStats are a HandshakeLimiter's figures at one moment.
type HandshakeLimiterStats struct {
	InFlight int    // running functions, including those that stand aside
	Waiting  int    // functions in the queue
	Refused  uint64 // calls of Go that returned false, since the start
}

// NewHandshakeLimiter makes a limiter that runs up to inFlight functions at once (at least 1) and
// queues up to waiting more (0 for no queue).
func NewHandshakeLimiter(inFlight, waiting int) *HandshakeLimiter {
	return &HandshakeLimiter{limit: max(inFlight, 1), queue: make([]func(), max(waiting, 0))}
}

// Go runs f on a goroutine, now or when one of those in flight ends, in the order of the calls. If
// the queue is full, it drops f and returns false. It never blocks. Any goroutine may call it.
func (l *HandshakeLimiter) Go(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.inFlight < l.limit:
		l.inFlight++
		go l.run(f)
	case l.waiting < len(l.queue):
		l.queue[(l.head+l.waiting)%len(l.queue)] = f
		l.waiting++
	default:
		l.refused++
		return false
	}
	return true
}

// run runs f and then functions from the queue on the same goroutine, whose stack has already grown
// to the size that a handshake needs.
func (l *HandshakeLimiter) run(f func()) {
	defer crash.Guard("in a TLS handshake")
	for f != nil {
		f()
		f = l.next()
	}
}

func (l *HandshakeLimiter) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == 0 || l.inFlight > l.limit {
		l.inFlight--
		return nil
	}
	return l.first()
}

// first removes and returns the first function of the queue, which must not be empty. The caller
// holds the lock.
func (l *HandshakeLimiter) first() func() {
	f := l.queue[l.head]
	l.queue[l.head] = nil
	l.head = (l.head + 1) % len(l.queue)
	l.waiting--
	return f
}

// asideShare is how many handshakes per place may stand aside.
const asideShare = 16

// stepAside gives up the place of the calling function while it waits. It reports whether it did;
// if so, the caller must call stepBack.
func (l *HandshakeLimiter) stepAside() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aside >= l.limit*asideShare {
		return false
	}
	l.aside++
	if l.waiting > 0 && l.inFlight <= l.limit {
		go l.run(l.first())
	} else {
		l.inFlight--
	}
	return true
}

// stepBack takes a place again, even if none is free.
func (l *HandshakeLimiter) stepBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside--
	l.inFlight++
}

// Stats returns the current figures. Any goroutine may call it.
func (l *HandshakeLimiter) Stats() HandshakeLimiterStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return HandshakeLimiterStats{InFlight: l.inFlight + l.aside, Waiting: l.waiting, Refused: l.refused}
}
