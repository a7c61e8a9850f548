package tlsio

import (
	"sync"

	"plimsoll/internal/crash"
)

// HandshakeLimiter bounds the handshakes in flight. A handshake costs as much CPU as a hundred
// requests, so that a storm of new clients would otherwise starve those who are already served, and
// its goroutines would take memory without bound.
//
// A handshake that waits for its peer steps aside and leaves its place to another, so that some
// hundred clients that say hello and then nothing do not keep all others out. How many may stand
// aside is bounded too, for their memory's sake: asideShare for each place. Beyond that they keep
// their places. Stepping back waits for nothing. After the flight that a server signs little is
// left to compute. Peers that send a ClientHello in two parts, and all the second parts at once,
// can make as many handshakes as stand aside compute together: asideShare+1 times the limit at
// most.
//
// It is shared by all loops; its mutex is held for a few instructions a handshake.
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
	InFlight int    // functions that run, those that stand aside included
	Waiting  int    // functions in the queue
	Refused  uint64 // calls of Go that returned false, ever
}

// NewHandshakeLimiter makes a limiter that lets inFlight functions run at once (at least 1) while
// up to waiting more wait their turn (0 for no queue).
func NewHandshakeLimiter(inFlight, waiting int) *HandshakeLimiter {
	return &HandshakeLimiter{limit: max(inFlight, 1), queue: make([]func(), max(waiting, 0))}
}

// Go runs f on a goroutine, now or as soon as one of those in flight ends, first come first served.
// It returns false, and drops f, when the queue is full. It never blocks. Any goroutine.
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

// run goes on with the queue on the same goroutine, whose stack has already grown to what a
// handshake needs.
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

// first takes the first out of the queue, which is not empty. The lock is held.
func (l *HandshakeLimiter) first() func() {
	f := l.queue[l.head]
	l.queue[l.head] = nil
	l.head = (l.head + 1) % len(l.queue)
	l.waiting--
	return f
}

// asideShare is how many handshakes for each place may wait for their peers beside it.
const asideShare = 16

// stepAside gives the place of the calling function up while it waits, and says whether it could:
// then it owes a stepBack.
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

// stepBack takes a place again, be there one or not.
func (l *HandshakeLimiter) stepBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside--
	l.inFlight++
}

// Stats are the figures of this moment. Any goroutine.
func (l *HandshakeLimiter) Stats() HandshakeLimiterStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return HandshakeLimiterStats{InFlight: l.inFlight + l.aside, Waiting: l.waiting, Refused: l.refused}
}
