package exchange

// Hold lets a policy that returned Held resume the exchange later, once. It may be kept and used on
// any goroutine, even after the hold is over or the exchange has ended; Resume then does nothing.
type Hold struct {
	x      *Exchange
	engine Engine // a copy: only its loop may read the exchange, which may be in its next life
	life   uint64
	number uint32 // of the hold in the exchange's life
}

// hold begins a hold that ends as end says if it is not resumed.
func (x *Exchange) hold(end holdEnd) Hold {
	end.number = x.holdEnd.number + 1
	x.holdEnd = end
	return Hold{x, x.engine, x.life, end.number}
}

// Hold begins a hold. The policy must then return Held. An exchange that is not resumed ends with
// the route's timeout, or when its client goes away.
func (x *Exchange) Hold() Hold {
	return x.hold(holdEnd{})
}

// HoldUntil is a Hold with a deadline on the loop's clock. At the deadline the exchange is refused
// with the status and the reason. The time held is counted separately: it is neither the gateway's
// own time nor the upstream's.
func (x *Exchange) HoldUntil(deadline int64, status int, reason Reason) Hold {
	return x.hold(holdEnd{deadline: deadline, status: status, reason: reason})
}

// HoldThen is a Hold with a deadline on the loop's clock. At the deadline the exchange goes on as
// late says, and a later Resume does nothing. The deadline is as precise as that of PauseUntil. The
// policy may return a verdict other than Held if it will not resume the hold.
func (x *Exchange) HoldThen(deadline int64, late func(*Exchange) PolicyVerdict) Hold {
	return x.hold(holdEnd{deadline: deadline, then: late})
}

// PauseUntil returns a verdict: the exchange waits until due, on the loop's clock, and then goes on
// as then says, without a Resume. It is never early, and at most a tick of the loop's timers (4.2
// ms) late. If the route's timeout comes first, it ends the exchange instead. The time counts as
// held.
func (x *Exchange) PauseUntil(due int64, then func(*Exchange) PolicyVerdict) PolicyVerdict {
	x.hold(holdEnd{deadline: due, then: then})
	return Held
}

// Resume runs then on the exchange's loop, and the exchange goes on as its verdict says.
func (h Hold) Resume(then func(*Exchange) PolicyVerdict) {
	h.engine.Resume(h.x, h.life, func(x *Exchange) PolicyVerdict {
		if x.holdEnd.number != h.number {
			return Held // held by another hold, which continues
		}
		return then(x)
	})
}

// holdEnd is how a hold ends if it is not resumed. The zero value leaves that to the route's
// timeout.
type holdEnd struct {
	deadline int64
	status   int
	reason   Reason
	then     func(*Exchange) PolicyVerdict // not nil if the end is not a refusal
	number   uint32
}

// HoldEnd returns when, and with which answer, the present hold ends if it is not resumed. The
// deadline is never after latest. Only the engine calls it.
func (x *Exchange) HoldEnd(latest int64) (deadline int64, status int, reason Reason) {
	if h := x.holdEnd; h.deadline != 0 && h.deadline < latest {
		return h.deadline, h.status, h.reason
	}
	return latest, 504, UpstreamTimeout
}

// PauseEnd returns what the exchange goes on with if the present hold is a pause, or a HoldThen,
// whose time has come; nil otherwise. Only the engine calls it.
func (x *Exchange) PauseEnd(now int64) func(*Exchange) PolicyVerdict {
	if now < x.holdEnd.deadline {
		return nil
	}
	return x.holdEnd.then
}
