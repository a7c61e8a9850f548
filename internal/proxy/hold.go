package proxy

import (
	"fmt"

	"plimsoll/internal/head"
	"plimsoll/internal/invariant"
)

// A request's body is held, up to Route.HoldBody, before a target is picked. So a client that sends
// it slowly occupies memory, and not one of the connections that all clients share. The part of a
// body beyond HoldBody is streamed. The body is held without its framing. It can be sent again as
// long as no part of it was streamed.

// maxHeld bounds the bytes of bodies that a loop holds. Beyond it bodies are streamed at once.
const maxHeld = 32 << 20

// mustHold reports whether to wait for the body before a target is picked. It is false for a body
// that came with its head, as most do.
func (f *flow) mustHold() bool {
	if f.is(requestSent) || f.route.HoldBody == 0 {
		return false
	}
	if f.call != nil {
		return false // its client may wait for an answer: see keepSent
	}
	// It cannot be held whole, so the upstream decides whether it comes.
	if f.expectsUpstream() && f.req.Length > f.route.HoldBody {
		return false
	}
	return f.req.Length == head.Unknown || int64(f.stream.buffered()) < f.req.Length
}

// holdBody begins to receive the body.
func (f *flow) holdBody() {
	f.stage = stageHolding
	f.flags |= bodyHeld
	f.beginWait()
	for f.stream.buffered() > 0 && f.mayHold() {
		if !f.hold() {
			return
		}
	}
	if !f.is(bodyWhole) {
		f.armBodyTimer()
		f.w.loop.SetTimer(&f.timer, f, f.deadline)
		if !f.invite() {
			return
		}
	}
	f.pumpHold()
}

// pumpHold receives until the body is whole, no more of it may be held, or the client pauses.
func (f *flow) pumpHold() {
	for reads := 0; f.mayHold(); reads++ {
		if reads == burst {
			f.stream.later()
			return
		}
		if !f.hold() {
			return
		}
		f.restartTimeout(f.w.loop.Now())
		f.w.loop.SetTimer(&f.timer, f, f.deadline)
	}
	f.endHold()
}

func (f *flow) mayHold() bool { return !f.is(bodyWhole) && f.holdRoom() > 0 }

// hold keeps the next content of the body, as far as it may be held. It returns false if there is
// none now, or if the exchange is over.
func (f *flow) hold() bool {
	data, err := f.nextUp(f.holdRoom())
	if err != nil {
		f.bodyFailed(err)
		return false
	}
	f.keep(data)
	if invariant.On && f.heldBody != nil && int64(len(f.heldBody.Data())) > f.route.HoldBody {
		panic(fmt.Sprintf("proxy: %d bytes of a body are held, hold_body is %d",
			len(f.heldBody.Data()), f.route.HoldBody))
	}
	return true
}

// holdRoom returns how many more bytes of the body may be held.
func (f *flow) holdRoom() int {
	most := int(f.route.HoldBody)
	switch {
	case f.heldBody == nil && f.w.heldBytes >= f.w.mostHeld:
		return 0
	case f.heldBody == nil:
		return most
	case f.w.heldBytes >= f.w.mostHeld:
		most = min(most, len(f.heldBody.Bytes))
	}
	return most - f.heldBody.End
}

// keep adds data to what is held. The buffer grows with what has come, and not with the announced
// length.
func (f *flow) keep(data []byte) {
	if len(data) == 0 {
		return
	}
	if f.heldBody == nil || len(data) > len(f.heldBody.Room()) {
		old, need := f.heldBody, len(data)
		if old != nil {
			need += len(old.Data())
		}
		f.heldBody = f.w.loop.GetBuffer(need)
		f.w.heldBytes += len(f.heldBody.Bytes)
		if old != nil {
			f.heldBody.End = copy(f.heldBody.Bytes, old.Data())
			f.w.heldBytes -= len(old.Bytes)
			f.w.loop.PutBuffer(old)
		}
		if without := f.w.heldBytes - len(f.heldBody.Bytes); invariant.On && without >= f.w.mostHeld {
			panic(fmt.Sprintf("proxy: a loop that holds %d bytes of bodies already begins to hold more",
				without))
		}
	}
	f.heldBody.End += copy(f.heldBody.Room(), data)
}

// dropHeld gives back the memory of a body that will not be sent again.
func (f *flow) dropHeld() {
	if f.heldBody != nil {
		f.w.heldBytes -= len(f.heldBody.Bytes)
		f.w.loop.PutBuffer(f.heldBody)
		f.heldBody = nil
	}
}

// endHold goes on to a target with the part of the body that has come. A retry goes back to the
// mark that is made here.
func (f *flow) endHold() {
	f.w.loop.StopTimer(&f.pace)
	f.w.loop.StopTimer(&f.timer)
	f.endWait(f.w.loop.Now())
	f.stage = stagePolicies
	f.stream.mark()
	f.heldIn = f.bodyIn
	f.attempt()
}
