package exchange

// Hold lets a policy that answered Held resume the exchange later, once. It may be kept and used on
// any goroutine, also after the hold is over or the exchange has ended, when Resume does nothing.
type Hold struct {
	x      *Exchange
	engine Engine // its own copy: the exchange belongs to its loop, and may be at its next life
	life   uint64
	number uint32 // of the hold in the exchange's life
}

// hold begins a hold that ends as end says when nobody resumes it.
func (x *Exchange) hold(end holdEnd) Hold {
	end.number = x.holdEnd.number + 1
	x.holdEnd = end
	return Hold{x, x.engine, x.life, end.number}
}

// Hold must be followed by the verdict Held. An exchange that is not resumed is ended by the route's
// timeout, or by its client.
func (x *Exchange) Hold() Hold {
	return x.hold(holdEnd{})
}

// HoldUntil is a Hold that ends at a deadline, on the loop's clock: then the exchange is refused
// with the status and the reason. The time held is counted apart: it is neither the gateway's own
// time nor the upstream's.
func (x *Exchange) HoldUntil(deadline int64, status int, reason Reason) Hold {
	return x.hold(holdEnd{deadline: deadline, status: status, reason: reason})
}

// HoldThen is a Hold that ends at a deadline, on the loop's clock: then the exchange goes on as late
// says. A Resume that comes after that does nothing. The deadline is met as that of PauseUntil. Another
// verdict than Held may follow when nobody will resume it.
func (x *Exchange) HoldThen(deadline int64, late func(*Exchange) PolicyVerdict) Hold {
	return x.hold(holdEnd{deadline: deadline, then: late})
}

// PauseUntil is a verdict: the exchange waits for a time on the loop's clock and then goes on as then
// says, without anybody resuming it. It is never early, and late by a tick of the loop's timers
// (4.2 ms) at most. The route's timeout, where that is sooner, ends the exchange instead. The time
// counts as held.
func (x *Exchange) PauseUntil(due int64, then func(*Exchange) PolicyVerdict) PolicyVerdict {
	x.hold(holdEnd{deadline: due, then: then})
	return Held
}

// Resume runs then on the exchange's loop and goes on as its verdict says.
func (h Hold) Resume(then func(*Exchange) PolicyVerdict) {
	h.engine.Resume(h.x, h.life, func(x *Exchange) PolicyVerdict {
		if x.holdEnd.number != h.number {
			return Held // by another hold, which goes on
		}
		return then(x)
	})
}

// holdEnd is how a hold ends that nobody resumes; the zero value leaves that to the route's timeout.
type holdEnd struct {
	deadline int64
	status   int
	reason   Reason
	then     func(*Exchange) PolicyVerdict // where the end is not a refusal
	number   uint32
}

// HoldEnd is how the present hold ends when nobody resumes it: with which answer, and when, which is
// never after latest. Only the engine calls it.
func (x *Exchange) HoldEnd(latest int64) (deadline int64, status int, reason Reason) {
	if h := x.holdEnd; h.deadline != 0 && h.deadline < latest {
		return h.deadline, h.status, h.reason
	}
	return latest, 504, UpstreamTimeout
}

// PauseEnd is what a pause goes on with whose time has come; nil for any other hold. Only the engine
// calls it.
func (x *Exchange) PauseEnd(now int64) func(*Exchange) PolicyVerdict {
	if now < x.holdEnd.deadline {
		return nil
	}
	return x.holdEnd.then
}
