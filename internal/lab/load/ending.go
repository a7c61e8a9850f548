package load

import (
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// How a worker's part of a run ends. It is over when no more requests may begin and all that had
// begun have ended. No more may begin once Duration is over, or once the schedules of all loops
// have no more arrivals. A loop waits for the other loops' schedules so that its windows last as
// long as theirs.

// settle ends the worker's part once it is over.
func (w *worker) settle() {
	if w.now < w.end && !w.exhausted {
		return
	}
	if w.inFlight > 0 || w.waiting.count > 0 || w.thinking.Len() > 0 {
		return
	}
	if w.now >= w.end || w.run.exhausted() {
		w.finish()
	}
}

// offeredUntil returns when this loop's last request is due; never while unknown.
func (w *worker) offeredUntil() int64 {
	if w.end == never && w.exhausted {
		return w.lastDue
	}
	return w.end
}

// cancel ends the run now and cuts off what is under way. It must be posted to the loop.
func (w *worker) cancel() {
	if w.phase == closing {
		return
	}
	if w.phase != running {
		w.phase = closing
		w.closeAll()
		return
	}
	w.now = reactor.Clock()
	w.end, w.next, w.ask, w.cut = min(w.end, w.now), never, never, true
	w.dropThoughts()
	for i := range w.conns {
		if c := &w.conns[i]; c.under > 0 {
			c.protocol.end(measure.Unfinished)
			w.closed()
			c.shut()
			c.state = resting
		}
	}
	for w.waiting.count > 0 {
		w.unsent(w.waiting.pop(), measure.Unfinished)
	}
	w.finish()
}

// finish passes on the last window and closes everything.
func (w *worker) finish() {
	w.phase = closing
	w.endCost()
	w.passLast()
	w.closeAll()
}

// closeAll closes every connection. The loop stops once no handshake goroutine has a socket.
func (w *worker) closeAll() {
	w.loop.StopAlarm()
	w.loop.ReleaseTimer(&w.limit)
	w.loop.ReleaseTimer(&w.boundary)
	for i := range w.conns {
		c := &w.conns[i]
		if c.state == shaking || c.state == aborting {
			c.abortHandshake()
			continue
		}
		if c.state == open && c.tls != nil {
			c.tls.CloseWrite()
		}
		c.state = resting
		c.shut()
	}
	w.stopWhenClosed()
}

func (w *worker) stopWhenClosed() {
	if w.shaking == 0 {
		w.loop.Stop()
	}
}
