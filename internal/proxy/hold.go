package proxy

import (
	"plimsoll/internal/http1"
)

// A request's body is held, up to Route.HoldBody, before a target is picked: a client that is slow
// with it occupies memory, and not one of the connections that everybody shares. A body that is
// longer is streamed from there on. What is held is the body without its framing; it can be sent
// again as long as nothing of the rest was streamed.

// maxHeld bounds the bytes of bodies held on a loop; beyond it bodies are streamed at once.
const maxHeld = 32 << 20

// mustHold says whether the body is to be waited for. One that came with its head, as most do, is
// not.
func (f *flow) mustHold() bool {
	if f.is(requestSent) || f.route.HoldBody == 0 {
		return false
	}
	// It cannot be held whole, so the upstream decides whether it comes.
	if f.expectsUpstream() && f.req.Length > f.route.HoldBody {
		return false
	}
	return f.req.Framing != http1.Length || int64(len(f.client.in.Data())) < f.req.Length
}

// holdBody begins to receive the body.
func (f *flow) holdBody() {
	c := f.client
	f.stage = stageHolding
	f.flags |= bodyHeld
	f.beginWait()
	used, bad := f.hold(c.in.Data())
	c.in.Start += used
	if bad != http1.OK {
		f.badBody(bad)
		return
	}
	if !f.up.Done() {
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
	c := f.client
	for reads := 0; !f.up.Done() && f.holdRoom() > 0; reads++ {
		if reads == burst {
			c.later()
			return
		}
		in, ok := f.readBody(f.holdRoom())
		if !ok {
			return
		}
		f.restartTimeout(f.w.loop.Now())
		f.w.loop.SetTimer(&f.timer, f, f.deadline)
		used, bad := f.hold(in)
		if bad != http1.OK {
			f.badBody(bad)
			return
		}
		if used < len(in) {
			c.keepAhead(in[used:])
		}
	}
	f.endHold()
}

// holdRoom is how many more bytes of the body may be held.
func (f *flow) holdRoom() int {
	most := int(f.route.HoldBody)
	switch {
	case f.heldBody == nil && f.w.heldBytes >= maxHeld:
		return 0
	case f.heldBody == nil:
		return most
	case f.w.heldBytes >= maxHeld:
		most = min(most, len(f.heldBody.Bytes))
	}
	return most - f.heldBody.End
}

// hold keeps the content of body bytes that have come, as far as it may be held, and says how many
// it used. The room is what it was when they were read: the loop's bound may be reached while they
// are kept, and nobody else would take what is left behind.
func (f *flow) hold(in []byte) (used int, bad http1.Error) {
	room := f.holdRoom()
	for !f.up.Done() && room > 0 {
		data, n, bad := f.nextUp(in[used:min(len(in), used+room)])
		if bad != http1.OK {
			return used, bad
		}
		if n == 0 {
			break
		}
		used += n
		room -= len(data)
		f.keep(data)
	}
	return used, http1.OK
}

// keep adds to what is held. The buffer grows with what has come and not with what was announced.
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
	}
	f.heldBody.End += copy(f.heldBody.Room(), data)
}

// dropHeld gives the memory back of a body that will not be sent again.
func (f *flow) dropHeld() {
	if f.heldBody != nil {
		f.w.heldBytes -= len(f.heldBody.Bytes)
		f.w.loop.PutBuffer(f.heldBody)
		f.heldBody = nil
	}
}

// endHold goes on to a target with what is there. A retry begins here again.
func (f *flow) endHold() {
	f.w.loop.StopTimer(&f.client.timer)
	f.w.loop.StopTimer(&f.timer)
	f.endWait(f.w.loop.Now())
	f.stage = stagePolicies
	f.bodyStart, f.heldUp, f.heldIn = f.client.in.Start, f.up, f.bodyIn
	f.attempt()
}
