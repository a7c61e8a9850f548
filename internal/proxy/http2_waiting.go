package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

const (
	// loopHeld is how many bytes of buffers the content of a loop's HTTP/2 streams may fill. Beyond
	// it windows no longer grow, and connections that hold more than their share get no window
	// back.
	loopHeld = 32 << 20

	// loopHeldMost is the number of bytes beyond which streams are reset, those that hold most
	// first, until little more than loopHeldGoal is left.
	loopHeldMost = 64 << 20
	loopHeldGoal = 56 << 20
)

// waiting counts what the HTTP/2 streams of a loop hold, on both sides: content that has come and
// was not taken. Within a turn it may exceed loopHeldMost; the windows bound by how much.
type waiting struct {
	w      *Worker
	memory int        // bytes of buffers
	links  int        // how many connections hold some
	first  *http2Link // the first of these
	due    bool       // Run is to be called
}

// scarce reports whether the loop holds too much.
func (q *waiting) scarce() bool { return q.memory > loopHeld }

// share returns each connection's equal share of so many bytes.
func (q *waiting) share(of int) int { return of / max(1, q.links) }

// note counts memory that a connection takes or gives back.
func (q *waiting) note(l *http2Link, memory int) {
	i := &l.intake
	had, scarce := i.memory > 0, q.scarce()
	i.memory += memory
	q.memory += memory
	switch has := i.memory > 0; {
	case has && !had:
		q.links++
		if i.nxt = q.first; i.nxt != nil {
			i.nxt.intake.prev = l
		}
		q.first = l
	case had && !has:
		q.links--
		if i.nxt != nil {
			i.nxt.intake.prev = i.prev
		}
		if i.prev != nil {
			i.prev.intake.nxt = i.nxt
		} else {
			q.first = i.nxt
		}
		i.prev, i.nxt = nil, nil
	}
	if (q.memory > loopHeldMost || scarce && !q.scarce()) && !q.due {
		q.due = true
		q.w.loop.Defer(q)
	}
}

// Run implements reactor.Runner: the loop holds more than it may, or no longer too much.
func (q *waiting) Run() {
	q.due = false
	if q.memory > loopHeldMost {
		q.shed()
	}
	for l := q.first; l != nil && !q.scarce(); l = l.intake.nxt {
		l.hold(0, 0) // gives back the windows that were withheld
	}
}

// shed resets streams until the loop holds loopHeldGoal. It begins with the connections that hold
// more than half of everything, goes on with those that hold more than a quarter, and so on. It
// leaves alone connections within their share: if none exceeds it, the loop holds no more than
// loopHeldGoal.
func (q *waiting) shed() {
	share := q.share(loopHeldGoal)
	for limit := q.memory / 2; q.memory > loopHeldGoal; limit /= 2 {
		limit = max(limit, share)
		var above []*http2Link // a copy, because shedding on one may end others
		for l := q.first; l != nil; l = l.intake.nxt {
			if l.intake.memory > limit {
				above = append(above, l)
			}
		}
		for _, l := range above {
			l.shed(limit)
		}
		if limit == share {
			return
		}
	}
}

// shed resets the streams that hold most, until the connection holds at most limit bytes or the
// loop loopHeldGoal.
func (l *http2Link) shed(limit int) {
	for l.intake.memory > limit && l.w.waiting.memory > loopHeldGoal {
		var most *streamData
		for d := l.first; d != nil; d = d.after {
			if most == nil || d.in.Memory() > most.in.Memory() {
				most = d
			}
		}
		before := l.intake.memory
		if most == nil || most.in.Memory() == 0 {
			return
		}
		if most.owner.shed(); l.intake.memory >= before {
			return
		}
	}
}

// shed implements streamOwner.
func (st *http2Stream) shed() {
	f := st.flow
	if f == nil || f.stage == stageSending { // the body is not needed any more
		st.dropBody()
		return
	}
	h := st.h
	h.wrote(http2.AppendRST(h.room(32), st.id, http2.EnhanceYourCalm))
	st.how, st.endSent = ourReset, true
	st.dropQueue()
	f.endHeld()
}

// shed implements streamOwner.
func (r *http2Request) shed() { r.flow.endHeld() }

// endHeld ends an exchange because one of its streams holds too much.
func (f *flow) endHeld() {
	f.w.shard.HTTP2Shed++
	if f.is(isMirror) {
		f.endMirror()
		return
	}
	f.Reason = exchange.InstanceOverloaded
	f.leaveAll()
	f.flags |= closeClient
	f.account(exchange.Shed, reactor.Clock())
	f.stream.reset(f)
}
