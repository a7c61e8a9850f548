package proxy

import "plimsoll/internal/http2"

// alive is the state of the check whether an HTTP/2 client is still there.
type alive struct {
	heard  bool  // bytes have come since the last check
	pinged bool  // a PING was sent that must bring some
	since  int64 // when a check last found it heard, or its PING was sent
	acked  int64 // bytes that the client's machine had acknowledged then
	given  int64 // bytes that had been written before the PING
}

// looksASweep is how many clients, and streams of theirs, are checked in a sweep, so that nothing
// else waits for more than about a millisecond. If a loop has more, a round takes several sweeps.
const looksASweep = 4096

// lookAtHTTP2 packs exchanges that have waited for long. It sends a PING to HTTP/2 clients that
// have streams and are silent, and ends those that do not answer. It is part of the sweep, and
// there is no timer for each connection: that would be set twice with each request, and a second
// more or less does not matter.
func (w *Worker) lookAtHTTP2(now int64) {
	if w.streamCounts == (streamCounts{}) {
		return
	}
	var gone []*http2Conn // ending one may end others
	packs := packsASweep
	c := w.looked
	for looks := looksASweep; looks > 0; looks-- {
		if c = c.next; c == &w.clients {
			break // the next sweep begins again with the newest
		}
		if c.state != clientHTTP2 {
			continue
		}
		looks -= c.http2.open
		packs = c.http2.packWaiting(now, packs)
		if !c.http2.lives(now) {
			gone = append(gone, c.http2)
		}
	}
	w.looked = c
	for _, h := range gone {
		if h.c.http2 == h && h.c.state == clientHTTP2 {
			h.fail(http2.Silent)
		}
	}
}

// lives sends a PING to a client that has been silent for PingAfter. It returns false once the PING
// has not been answered for as long. But while the client's machine still takes what was written
// before the PING, the client counts as there.
func (h *http2Conn) lives(now int64) bool {
	a, c := &h.alive, h.c
	switch {
	case a.heard || h.open == 0 || !h.greeted || h.dead || h.broken:
		*a = alive{since: now}
	case h.block != nil || c.inLine || c.deferred || c.pending() || c.withheld():
		// Its head has a time-out of its own; or what it has sent is not read yet; or pace.go deals
		// with what it does not take.
		*a = alive{since: now}
	case now-a.since < c.listener.PingAfter:
	case !a.pinged:
		*a = alive{pinged: true, since: now, acked: c.conn.Acked(), given: c.conn.Written()}
		h.wrote(http2.AppendPing(h.room(32), false, [8]byte{}))
	default:
		acked := c.conn.Acked()
		if acked <= a.acked || a.acked >= a.given {
			return false
		}
		a.since, a.acked = now, acked
	}
	return true
}
