package proxy

import "plimsoll/internal/reactor"

// newcomers decides which new connections a listener takes while its loop has more to do than it
// can. To accept one, refuse its request and see it go costs several times what a refusal costs on a
// connection that stays, and what its request is shows only when it is read. So they wait in the
// accept queue, where they cost nothing, and each takes a token. One whose first request is served
// pays two back: where half of them are, all are accepted, and where none is, one for each
// newcomerTime. Only the listener's loop may use it.
type newcomers struct {
	tokens float64
	at     int64 // when the last were given, of the loop's time
}

const (
	// newcomerTime is the loop's processor time, in nanoseconds, for which it gives a token: a
	// fiftieth of it goes to connections that come for nothing, at the 60 µs that one costs. With one
	// to three accepted in each turn, clients that gave up and connected again took a tenth to a
	// third of it (bench/own_cpu.py).
	newcomerTime = 3e6
	// newcomersMost bounds the tokens, and so how many connections come at once.
	newcomersMost = 16
	// goneCost is what a connection takes whose client has gone before it was accepted.
	goneCost = 1. / 8
)

// limits says whether connections need tokens.
func (a *Acceptor) limits() bool {
	law := a.Worker.view.Admission
	return law != nil && !law.Shadow && a.Worker.limiter.Behind(law)
}

// Accepts implements reactor.Acceptor.
func (a *Acceptor) Accepts(l *reactor.Loop) bool {
	if !a.limits() {
		return true
	}
	n := &a.newcomers
	n.add(float64(l.Now()-n.at) / (newcomerTime * l.Stretch()))
	n.at = l.Now()
	return n.tokens >= 1
}

func (n *newcomers) add(tokens float64) {
	n.tokens = min(max(n.tokens+tokens, 0), newcomersMost)
}

// comes takes the token of a connection, and says whether its client is still there. In an overload
// most have given up when they are accepted at last.
func (a *Acceptor) comes(s reactor.Socket) bool {
	if a.limits() && s.PeerEnded() {
		a.newcomers.add(-goneCost)
		return false
	}
	a.newcomers.add(-1)
	return true
}

// judge says whether an exchange is served; that of a connection's first one counts for those who
// come after it.
func (o *origin) judge(served bool) {
	if o.fresh && served {
		o.acceptor.newcomers.add(2)
	}
	o.fresh = false
}
