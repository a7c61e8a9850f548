package proxy

import "plimsoll/internal/reactor"

// newcomers decides which new connections a listener accepts while its loop has more to do than it
// can. Accepting a connection, refusing its request and closing it costs several times as much as a
// refusal on a connection that stays, and the request is known only once it is read. So new
// connections wait in the accept queue, where they cost nothing, and accepting one takes a token. A
// connection whose first request is served gives two tokens back. So if half of them are served,
// all are accepted, and if none is, one in each newcomerTime. Only the listener's loop may use it.
type newcomers struct {
	tokens float64
	at     int64 // when tokens were last given, in the loop's time
}

const (
	// newcomerTime is the loop's processor time, in nanoseconds, for which one token is given. As a
	// connection costs 60 µs, a fiftieth of the loop's time goes to connections that come for nothing.
	// When one to three were accepted in each turn instead, clients that gave up and connected
	// again took a tenth to a third of it (bench/own_cpu.py).
	newcomerTime = 3e6
	// newcomersMost bounds the tokens, and so how many connections come at once.
	newcomersMost = 16
	// goneCost is how many tokens a connection takes whose client had gone before it was accepted.
	// With an eighth, goodput was lower: 0.54 to 0.72 of the line, in place of 0.63 to 0.75
	// (bench/own_cpu.py).
	goneCost = 1. / 2
)

// limits reports whether connections need tokens.
func (a *Acceptor) limits() bool {
	law := a.Worker.view.Admission
	if law == nil || law.Shadow {
		return false
	}
	w := a.Worker
	return w.limiter.Behind(law) || w.limiter.Refusing(w.loop.Now())
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

// comes takes the token of a connection, and reports whether its client is still there. In an
// overload most have given up by the time they are accepted.
func (a *Acceptor) comes(s reactor.Socket) bool {
	if a.limits() && s.PeerEnded() {
		a.newcomers.add(-goneCost)
		return false
	}
	a.newcomers.add(-1)
	return true
}

// judge notes whether an exchange is served. If it is the first one of its connection, that gives
// tokens to the connections that come after it.
func (o *origin) judge(served bool) {
	if o.fresh && served {
		o.acceptor.newcomers.add(2)
	}
	o.fresh = false
}
