package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
)

// This file checks, in every state of a connection, that the client does not take what it is sent
// too slowly. It goes by the bytes that the client has acknowledged. What was written to the socket
// says nothing, because the kernel takes some hundred kilobytes in advance. The kernel is asked
// only when the timer is due, so an ordinary exchange makes no system call for it.
//
// A window of SendTimeout begins when bytes wait for the client, in the gateway or, between
// exchanges, in the kernel. At its end the client must have taken as much as MinBodyRate asks for,
// or else have kept up: it has taken all that it had been given when the window began, and the
// gateway withholds nothing from it at one of the window's ends. While more waits, the next window
// follows, whatever exchanges begin and end meanwhile.

// watchTaking begins a window, unless one is under way or nothing has been given since the client
// had taken everything.
func (c *clientConn) watchTaking() {
	if c.watching || c.conn.Written() == c.acked {
		return
	}
	if c.withheld() {
		c.acked = c.conn.Acked()
	}
	c.beginWindow(c.w.loop.Now())
}

// withheld reports whether something waits for the client that the kernel has not taken: queued
// bytes, or the rest of a file.
func (c *clientConn) withheld() bool { return c.conn.Queued() > 0 || c.conn.Congested() }

func (c *clientConn) beginWindow(now int64) {
	c.watching, c.given = true, c.conn.Written()
	c.queued = c.withheld()
	c.w.loop.SetTimer(&c.pace, c, now+c.listener.SendTimeout)
}

// judgeTaking is called at the end of a window.
func (c *clientConn) judgeTaking(now int64) {
	// The exchange is over in this turn, and Run ends it.
	if c.state == clientBusy && c.flow.stage == stageSending || c.state == clientHTTP2 &&
		c.http2.anySending() {
		c.beginWindow(now)
		return
	}
	c.watching = false
	before := c.acked
	c.acked = c.conn.Acked()
	keptUp := c.acked >= c.given && !(c.queued && c.withheld())
	if !keptUp && c.acked-before < c.listener.leastAcked() {
		c.tooSlow(now, c.acked > before)
		return
	}
	if c.acked < c.conn.Written() {
		c.beginWindow(now)
	}
}

// behind reports whether the client has not taken everything. It makes a system call while a window
// is under way.
func (c *clientConn) behind() bool {
	return c.watching && (c.withheld() || c.conn.Acked() < c.conn.Written())
}

// tooSlow ends a connection whose client takes what it is sent too slowly. moved says that the
// client takes something.
//
// What is queued is dropped. The client gets what the kernel has, and an orderly end: it can tell
// that a response of a known length, or in chunks, was cut off. Only if the end of the connection
// ends the response must that be a reset. If the client takes nothing of the rest either, the
// connection is reset, so that the kernel frees it.
func (c *clientConn) tooSlow(now int64, moved bool) {
	if !c.slow {
		c.slow = true
		c.w.shard.SlowConnections++
	}
	switch {
	case c.state == clientLinger && moved && c.conn.Queued() == 0:
		c.conn.Close() // the kernel has the rest, the end too, and goes on
		c.release()
		return
	case c.state == clientLinger && moved && !c.toEOF:
		c.conn.CutWrite()
		c.beginWindow(now)
		return
	case c.state == clientBusy || c.state == clientTunnel:
		c.flow.endSlow()
		c.freeFlow()
	case c.state == clientHTTP2:
		c.http2.slow()
	case c.state == clientHead && c.flow != nil:
		c.freeFlow()
	}
	if c.state == clientLinger {
		c.conn.Reset()
		c.release()
		return
	}
	c.cutOff(now)
}

// cutOff ends a connection that has no exchange, without what is queued for its client.
func (c *clientConn) cutOff(now int64) {
	if c.toEOF {
		c.conn.Reset()
		c.release()
		return
	}
	c.conn.CutWrite()
	c.state, c.discarded = clientLinger, 0
	c.leaveLine()
	c.dropBuffers()
	c.beginWindow(now)
	c.w.loop.SetTimer(&c.timer, c, now+lingerTime)
	c.discard()
}

// endSlow ends an exchange whose client is too slow. The caller deals with its stream.
func (f *flow) endSlow() {
	f.Reason = exchange.ClientSlow
	f.leaveAll()
	f.flags |= closeClient
	f.account(exchange.ClientGone, reactor.Clock())
}
