package sim

import (
	"slices"
	"time"
)

// Waits of the gateway or the kernel that are not in a configuration.
const (
	// lastSYN is when an actor gives up an address whose accept queue is full: after pauses of 1,
	// 2, 4 and 8 seconds.
	lastSYN = 16 * time.Second
	// slowBodies is how long a request body may stand still if neither its route nor its listener
	// has a shorter limit.
	slowBodies = 10 * time.Second
	// lingering is how long a connection is kept for a client that may not have read its last
	// answer.
	lingering = 2 * time.Second
	// aWhile is time for bytes to travel and for loops to have their turns.
	aWhile = 500 * time.Millisecond
	// sweep is how often a loop checks what has no timer of its own.
	sweep = time.Second
	// shortage is how long a connection may wait for a process that has no descriptors left.
	shortage = 15 * time.Second
)

// longest returns the timeouts of the present or any earlier configuration of the run: a reload may
// have replaced the first one's by longer ones.
func (w *world) longest() GatewayPlan {
	g := w.scenario.Gateway
	if w.replaced {
		g.Timeout = max(g.Timeout, longestTimeout)
	}
	return g
}

// slack is how much later than its timeout anything may happen, because loops and bytes take time.
func (w *world) slack() time.Duration {
	k := w.scenario.Kernel
	slack := aWhile
	if k.Stall > 0 {
		slack += 8 * k.StallFor
	}
	if k.Descriptors < plenty {
		slack += shortage
	}
	return slack
}

// patience is how long a client's connection may stand still.
func (c *client) patience() time.Duration {
	slack := c.w.slack() + c.plan.ReadWait // it may pause while there is something to read
	if c.stuck {                           // it does not read what ends the wait
		slack += lingering
	}
	return c.wait() + slack
}

// wait is how long the connection may stay in its present state.
func (c *client) wait() time.Duration {
	g := c.w.longest()
	unread := 3 * g.Send // it is too slow after two of them, and reset after a third
	asked := len(c.asked)
	switch {
	case !c.connected:
		return lastSYN
	case c.http2 != nil && !(c.stuck && c.plan.Manner == Stops && asked > 0):
		return c.http2.wait(g)
	case asked > 0 && c.sent < c.asked[asked-1].from+c.asked[asked-1].head && asked == 1:
		return g.Head
	case c.stuck && c.plan.Manner == Stops && asked > 0:
		// It sees no answer, so all successive waits pass in silence, even the parts of an answer
		// that each arrive at the last moment.
		longest := max(slowBodies, g.Head, g.Timeout+10*g.Stream, g.Tunnel)
		for _, q := range c.asked {
			if q.WebSocket != nil {
				longest = max(longest, g.Timeout+q.rest(c, g))
			}
		}
		if c.http2 == nil { // pipelined requests are served one by one, as far as there is room
			longest += time.Duration(asked-1) * (g.Pending + g.Connect + g.Timeout)
		}
		if c.http2 != nil && g.Ping > 0 {
			longest = min(longest, max(slowBodies, g.Head, 2*g.Ping+2*sweep))
		}
		return longest + unread + g.Idle
	case c.talk != nil:
		return c.begun.rest(c, g)
	case c.tunnel:
		return g.Tunnel + unread
	case asked == 0 && c.sent == 0: // there may be a handshake before
		return g.Head + max(g.Head, g.Idle)
	case asked == 0:
		return max(g.Head, g.Idle)
	case c.sent < c.asked[asked-1].to:
		return max(slowBodies, g.Head, g.Timeout, g.Stream)
	}
	return c.w.answering(c.asked[0], g)
}

// answering is how long it may take until a part of the answer to a complete request arrives.
func (w *world) answering(q *request, g GatewayPlan) time.Duration {
	answer := g.Timeout
	if q.Body > 0 {
		// The timeout runs until the body is sent, and once more from then, with a tolerance of a
		// quarter.
		answer += g.Timeout + g.Timeout/4
	}
	if q.Cached != nil { // it may wait for up to three fetches, and then go to the service itself
		answer += w.scenario.Cache.Wait + 4*(g.Timeout+w.scenario.Cache.Slow)
	}
	return w.slowReading(q) + max(answer, g.Stream, g.Head)
}

// slowReading is how long services may take to read a request's body. Meanwhile the timeout starts
// again.
func (w *world) slowReading(q *request) (longest time.Duration) {
	for _, s := range w.scenario.Services {
		if s.Sip > 0 {
			longest = max(longest, time.Duration(1+q.Body/s.Sip)*s.Rest)
		}
		if s.HTTP2 != nil && q.Body > 0 {
			longest = max(longest, 2*s.HTTP2.Wait)
		}
	}
	return 2 * longest // a copy may go to the same service
}

// progress is called when something moves on the connection. It checks that this did not take too
// long.
func (c *client) progress() {
	c.lookAtPatience()
	c.moved = c.w.kernel.Clock()
}

// still is how long nothing has moved on the connection, nor in the bodies of its requests on their
// way from the gateway to a service.
func (c *client) still() time.Duration {
	last := c.moved
	for _, q := range c.asked {
		last = max(last, q.moved)
	}
	return time.Duration(c.w.kernel.Clock() - last)
}

// watch checks, whenever its patience may have ended, whether the connection has been forgotten.
func (c *client) watch() {
	left := c.patience() - c.still()
	c.w.kernel.After(max(left, 0)+time.Millisecond, func() {
		if c.done {
			return
		}
		if c.GivenUp() {
			c.finish("has been given up", c.Close)
			return
		}
		c.lookAtPatience()
		c.watch()
	})
}

func (c *client) lookAtPatience() {
	still, limit := c.still(), c.patience()
	if still > limit && !c.GivenUp() {
		c.w.violate("%s is neither served nor ended: nothing has moved for %v, the longest that it "+
			"may wait is %v; it has sent %d of %d bytes and read %d, and waits for %d answers",
			c.name, still, limit, c.sent, c.given, c.received, len(c.asked))
	}
}

// watch checks whether a client's WebSocket is kept although both sides have been silent for too
// long.
func (t *talker) watch() {
	p := t.peer
	if t.over() || p != nil && (p.over() || t.ended && p.ended) {
		return
	}
	limit, still := t.silence(), time.Duration(0)
	if p != nil && t.hasHeardAll() && p.hasHeardAll() && !t.by.sleeping && !t.shut() {
		still = time.Duration(t.w.kernel.Clock() - max(t.moved, p.moved, t.by.rested))
	}
	if still > limit {
		t.w.violate("the WebSocket of %s is kept: nothing has moved over it for %v, the longest that "+
			"it may stay so is %v", t.name, still, limit)
		return
	}
	t.w.kernel.After(limit-still+time.Millisecond, t.watch)
}

// over reports whether nothing more is expected of the other side or of the gateway.
func (t *talker) over() bool { return t.gone || t.spoilt || t.told || t.peerEnded || !t.alive() }

// shut reports whether its client has no open window for it.
func (t *talker) shut() bool {
	h := t.by.http2
	if h == nil {
		return false
	}
	return slices.ContainsFunc(h.streams, func(st *http2Stream) bool {
		return st.talk == t && min(st.receive, h.receive) <= 0
	})
}

// hasHeardAll reports whether nothing that the other side has sent is still on its way.
func (t *talker) hasHeardAll() bool {
	_, more := t.next()
	return !more && len(t.held) == 0
}

// silence is how long both sides may be silent. If the client does not read what the gateway has
// for it, the gateway checks again later.
func (t *talker) silence() time.Duration {
	tunnel := t.w.scenario.WebSockets.Tunnel
	return tunnel + min(tunnel, t.w.scenario.Gateway.Stream) + t.w.slack()
}
