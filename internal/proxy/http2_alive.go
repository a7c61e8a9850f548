package proxy

import "plimsoll/internal/http2"

// alive is what is known of whether an HTTP/2 client is still there.
type alive struct {
	heard  bool  // bytes have come since the last look
	pinged bool  // a PING is to bring some
	since  int64 // the look at which it was heard last, or its PING was sent
	acked  int64 // bytes that its machine had acknowledged then
	given  int64 // bytes that had been written before the PING
}

// looksASweep is how many clients, and streams of theirs, are looked at in a sweep: with so many
// nothing else waits for more than about a millisecond. Where a loop has more, a round takes some
// sweeps.
const looksASweep = 4096

// lookAtHTTP2 packs what waits for long, asks the clients of HTTP/2 that have streams and are silent
// whether they are there, and ends those that do not say. It is part of the sweep and no timer of
// each connection: a timer would be moved twice with each request, and a second more or less does not
// matter.
func (w *Worker) lookAtHTTP2(now int64) {
	if w.streamCounts == (streamCounts{}) {
		return
	}
	var gone []*http2Conn // ending one may end others
	packs := packsASweep
	c := w.looked
	for looks := looksASweep; looks > 0; looks-- {
		if c = c.next; c == &w.clients {
			break // the next sweep begins with the newest again
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

// lives asks a client that is silent whether it is there. It says false once that has not been
// answered for as long; but while its machine still takes what stands in front of the PING, it is
// there.
func (h *http2Conn) lives(now int64) bool {
	a, c := &h.alive, h.c
	switch {
	case a.heard || h.open == 0 || !h.greeted || h.dead || h.broken:
		*a = alive{since: now}
	case h.block != nil || c.inLine || c.deferred || c.pending() || c.withheld():
		// Its head has a time-out of its own; what it has sent is not read yet; or what it does not take
		// is judged by its pace.
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
