package tlsio

import (
	"sync"

	"plimsoll/internal/crash"
)

// Gate bounds the handshakes in flight. A handshake costs as much CPU as a hundred requests, so that a storm of new
// clients would otherwise starve those who are already served, and its goroutines would take memory without bound.
//
// A handshake that waits for its peer steps aside and leaves its place to another, so that some hundred clients that say hello and
// then nothing do not keep all others out. How many may stand aside is bounded too, for their memory's sake: asideShare for each
// place. Beyond that they keep their places. What is left to compute when the peer goes on is little, so stepping back waits for nothing.
//
// It is shared by all loops; its mutex is held for a few instructions a handshake.
type Gate struct {
	mu       sync.Mutex
	limit    int
	inFlight int
	aside    int
	queue    []func() // a ring: waiting entries from head on
	head     int
	waiting  int
	refused  uint64
}

// GateStats are a Gate's figures at one moment.
type GateStats struct {
	InFlight int    // functions that run, those that stand aside included
	Waiting  int    // functions in the queue
	Refused  uint64 // calls of Go that returned false, ever
}

// NewGate makes a gate through which inFlight functions may run at once (at least 1) while up to waiting more wait
// their turn (0 for no queue).
func NewGate(inFlight, waiting int) *Gate {
	return &Gate{limit: max(inFlight, 1), queue: make([]func(), max(waiting, 0))}
}

// Go runs f on a goroutine, now or as soon as one of those in flight ends, first come first served. It returns false,
// and drops f, when the queue is full. It never blocks. Any goroutine.
func (g *Gate) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.inFlight < g.limit:
		g.inFlight++
		go g.run(f)
	case g.waiting < len(g.queue):
		g.queue[(g.head+g.waiting)%len(g.queue)] = f
		g.waiting++
	default:
		g.refused++
		return false
	}
	return true
}

// run goes on with the queue on the same goroutine, whose stack has already grown to what a handshake needs.
func (g *Gate) run(f func()) {
	defer crash.Guard("in a TLS handshake")
	for f != nil {
		f()
		f = g.next()
	}
}

func (g *Gate) next() func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == 0 || g.inFlight > g.limit {
		g.inFlight--
		return nil
	}
	return g.first()
}

// first takes the first out of the queue, which is not empty. The lock is held.
func (g *Gate) first() func() {
	f := g.queue[g.head]
	g.queue[g.head] = nil
	g.head = (g.head + 1) % len(g.queue)
	g.waiting--
	return f
}

// asideShare is how many handshakes for each place may wait for their peers beside it.
const asideShare = 16

// stepAside gives the place of the calling function up while it waits, and says whether it could: then it owes a stepBack.
func (g *Gate) stepAside() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.aside >= g.limit*asideShare {
		return false
	}
	g.aside++
	if g.waiting > 0 && g.inFlight <= g.limit {
		go g.run(g.first())
	} else {
		g.inFlight--
	}
	return true
}

// stepBack takes a place again, be there one or not.
func (g *Gate) stepBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.aside--
	g.inFlight++
}

// Stats are the figures of this moment. Any goroutine.
func (g *Gate) Stats() GateStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return GateStats{InFlight: g.inFlight + g.aside, Waiting: g.waiting, Refused: g.refused}
}
