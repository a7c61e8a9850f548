package refserver

import (
	"bytes"
	"slices"

	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
)

// limits bound a request's head and the framing of its body.
var limits = http1.Limits{Line: 8 << 10, Head: 16 << 10, Fields: 128, Extension: 4 << 10}

// mostHead is the longest head in bytes: a request line, the fields, and the empty lines around
// them.
var mostHead = limits.Line + limits.Head + 8

// proceed asks for a body that the client holds back.
var proceed = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// conn is a client connection. It has three states: reading a head, dropping a body, and waiting
// for the answer. While it waits, only the end of the connection may arrive.
type conn struct {
	reactor.Conn
	state    *state
	head     []byte // the beginning of an incomplete head
	body     http1.Body
	dropping bool
	waiting  bool
	toHEAD   bool
	route    int
	last     bool // the connection ends with this answer
	over     bool // the last answer has been sent
}

// Connected reports the result of a Dial. This connection never dials.
func (c *conn) Connected(error) {}

// Drained is called when the connection can be written again. Answers are never held back, because
// there is only one at a time.
func (c *conn) Drained() {}

// Readable reads the bytes that have arrived. It may answer a request meanwhile.
func (c *conn) Readable() {
	for c.Open() {
		scratch := c.Loop().Scratch()
		n, err := c.Read(scratch)
		switch {
		case err == reactor.ErrAgain:
			return
		case err != nil:
			c.drop()
			return
		}
		if !c.take(scratch[:n]) {
			c.state.counts.BadRequests++
			c.drop()
			return
		}
	}
}

// take consumes received bytes. It reports whether the connection can continue.
func (c *conn) take(in []byte) bool {
	for len(in) > 0 {
		switch {
		case c.waiting || c.over:
			return false
		case c.dropping:
			_, n, err := c.body.Next(in)
			if err != http1.OK {
				return false
			}
			in = in[n:]
			if c.body.Done() {
				c.dropping = false
				return len(in) == 0 && c.state.arrive(c, c.Loop().Now())
			}
		default:
			rest, ok := c.takeHead(in)
			if !ok {
				return false
			}
			in = rest
		}
	}
	return true
}

// takeHead parses a request's head, or keeps an incomplete one. rest is what follows the head.
func (c *conn) takeHead(in []byte) (rest []byte, ok bool) {
	kept := len(c.head)
	if kept > 0 {
		c.head = append(c.head, in...)
		in = c.head
	}
	r := &c.state.request
	r.Reset()
	n, err := r.Parse(in, &limits)
	switch {
	case err != http1.OK:
		return nil, false
	case n == 0:
		if kept == 0 {
			c.head = append(c.head, in...)
		}
		return nil, len(c.head) <= mostHead
	}
	rest = in[n:]
	c.head = c.head[:0]
	target, _, _ := bytes.Cut(r.Target, []byte("?"))
	c.route = max(slices.IndexFunc(c.state.paths, func(path string) bool {
		return path == string(target)
	}), 0)
	c.last, c.toHEAD = !r.KeepAlive, string(r.Method) == "HEAD"
	if r.Framing == http1.None {
		return nil, len(rest) == 0 && c.state.arrive(c, c.Loop().Now())
	}
	if r.Expect100 && c.Write(proceed) != nil {
		return nil, false
	}
	c.body.Start(r.Framing, r.Length, &limits)
	c.dropping = true
	return rest, true
}

// answer sends the answer.
func (c *conn) answer(r *reply) {
	c.waiting, c.over = false, c.last
	b := r.whole
	switch {
	case c.last && c.toHEAD:
		b = r.headLast
	case c.last:
		b = r.wholeLast
	case c.toHEAD:
		b = r.head
	}
	if c.Write(b) != nil {
		c.drop()
		return
	}
	if c.last {
		c.CloseWrite()
	}
}

// drop removes the connection. A pending answer to it is not sent.
func (c *conn) drop() {
	delete(c.state.conns, c)
	c.Close()
}
