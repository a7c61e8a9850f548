package reactor

import "slices"

// corksAtOnce is for how many connections a loop gathers at a time: as many buffers of ScratchSize
// stay in the processor's cache.
const corksAtOnce = 8

// Cork gathers what is written from now on until Push, which comes in the same turn. What fills a
// buffer of ScratchSize goes out before, and so does what the connection has that was corked the
// longest, where too many are. It is for messages of some kilobytes that come one after the other:
// each call that sends has the kernel look at the connection's pacing, and wakes a peer on the same
// machine, which costs more than a copy. Measured with 8 and 64 connections of HTTP/2 and responses
// of 16 KB: 19 % and 11 % of a request's CPU.
//
// A connection that waits for its peer gathers already, and is not corked: what is corked is
// Unsent, but not Queued, and does not make a Conn Congested.
func (c *Conn) Cork() {
	if c.queued > 0 || !c.Open() || c.flags&(connecting|batched|corked|tellDrained) != 0 {
		return
	}
	l := c.loop
	if len(l.corks) == corksAtOnce {
		l.corks[0].Push()
	}
	l.corks = append(l.corks, c)
	c.flags |= corked
}

// Push sends what was gathered since Cork. It calls no handler: Failed says whether it went well,
// and Queued whether the peer took it.
func (c *Conn) Push() {
	if c.flags&corked != 0 && c.flush() {
		c.leaveCorks()
	}
}

// full says that a message of n bytes does not fit behind what is corked.
func (c *Conn) full(n int) bool { return c.queued > 0 && n > len(c.last.Room()) }

// uncork makes what was gathered, and the peer did not take, wait as anything else does: in a
// buffer of its size, as the peer may be slow, and Congested where it is much.
func (c *Conn) uncork() {
	if c.flags&corked == 0 {
		return
	}
	c.leaveCorks()
	if rest := c.last.Data(); len(rest) < len(c.last.Bytes)/2 && c.first == c.last {
		small := c.loop.GetBuffer(len(rest))
		small.End = copy(small.Bytes, rest)
		c.loop.PutBuffer(c.last)
		c.first, c.last = small, small
	}
	if c.queued > c.loop.highWater() {
		c.flags |= tellDrained
	}
}

// leaveCorks takes c out of those that gather. The loop keeps no other: c may be used again
// elsewhere.
func (c *Conn) leaveCorks() {
	if c.flags&corked != 0 {
		c.flags &^= corked
		i := slices.Index(c.loop.corks, c)
		c.loop.corks = slices.Delete(c.loop.corks, i, i+1)
	}
}
