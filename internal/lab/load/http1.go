package load

import (
	"errors"
	"fmt"
	"io"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// http1Conn speaks HTTP/1.1: one request after the other.
//
// Nearly all answers are complete at the first read. They are parsed in place, in the loop's
// scratch memory, judged and forgotten. An incomplete answer is kept in a held: the bytes of an
// incomplete head, or the complete head while its body arrives, because the script judges both
// together.
type http1Conn struct {
	only   exchange
	body   http1.Body
	inBody bool // the head is complete and in held
}

// limits limit what a target may send. A body has no limit, because it is kept only if the script
// asks to see it.
var limits = http1.Limits{Line: 8 << 10, Head: 64 << 10, Fields: 256, Extension: 64 << 10}

const (
	readsAtOnce = 16 // reads of one connection before others get their turn
	maxInterim  = 32 // 1xx answers to one request
)

// batchBelow is the size, in bytes, below which a request is sent together with those of other
// connections. A larger one is sent alone, because the kernel may take it in several writes and
// only the time of the last one is known.
const batchBelow = 16 << 10

var errUnasked = errors.New("the target sent what nobody asked for")

// start implements protocol. Data that came while a handshake goroutine had the socket causes no
// further event. A server that rejects our certificate says so here.
func (h *http1Conn) start() {
	c := h.only.c
	if c.tls != nil {
		if err := h.quiet(); err != nil {
			c.giveUp(fmt.Errorf("TLS: %w", err))
			return
		}
	}
	c.ready()
}

// room implements protocol.
func (h *http1Conn) room() bool { return h.only.c.under == 0 }

// exchange implements protocol.
func (h *http1Conn) exchange() *exchange {
	h.inBody = false
	return &h.only
}

// send implements protocol.
func (h *http1Conn) send(x *exchange) {
	c := x.c
	w := c.w
	w.part.out += uint64(len(w.out))
	if len(w.out) < batchBelow {
		c.sock.Batch()
	} else {
		x.written = reactor.Clock()
	}
	c.write(w.out)
}

// drained implements protocol: nothing waits for the send queue, because the next request waits for
// an answer.
func (h *http1Conn) drained() {}

// expire implements protocol.
func (h *http1Conn) expire(x *exchange) {
	x.c.fail(measure.Timeout, "no whole answer within the timeout", nil)
}

// end implements protocol.
func (h *http1Conn) end(kind measure.Kind) {
	if l := &h.only; l.session != nil {
		l.c.w.sessionOver(l.over(kind))
	}
}

// release implements protocol.
func (h *http1Conn) release() { h.only.c.w.putHeld(&h.only) }

// quiet returns nil if the peer has neither closed nor sent unrequested data, and otherwise an
// error. It reads TLS records that carry no data.
func (h *http1Conn) quiet() error {
	c := h.only.c
	if !c.mayRead() {
		return nil
	}
	switch n, err := c.read(c.w.loop.Scratch()); {
	case n > 0:
		return errUnasked
	case err == reactor.ErrAgain:
		return nil
	default:
		return err
	}
}

// receive implements protocol: it reads what has arrived of the answer to the request under way.
func (h *http1Conn) receive() {
	c := h.only.c
	if c.under == 0 {
		if h.quiet() != nil {
			c.again()
		}
		return
	}
	if c.sock.Batched() {
		if err := h.quiet(); err != nil {
			c.fail(measure.ConnectionLost,
				"the connection was of no use when the request was about to be sent", err)
			return
		}
	}
	w := c.w
	for i := range readsAtOnce {
		if i > 0 {
			w.now = reactor.Clock()
		}
		b := w.loop.Scratch()
		n, err := c.read(b)
		if n == 0 {
			h.readEnded(err)
			return
		}
		w.part.in += uint64(n)
		if !h.take(b[:n]) || !c.mayRead() {
			return
		}
	}
	c.readLater()
}

// readEnded handles a read that found nothing, for now or for good.
func (h *http1Conn) readEnded(err error) {
	if err == reactor.ErrAgain {
		return
	}
	if h.inBody && err == io.EOF && h.body.EOF() == http1.OK {
		h.wholeHeld(false)
		return
	}
	c := h.only.c
	if h.inBody || h.only.held != nil {
		c.fail(measure.ConnectionLost, "the connection ended in the middle of the answer", err)
		return
	}
	c.fail(measure.ConnectionLost, "the connection ended before an answer began", err)
}

// take uses bytes of the answer. It reports whether the answer goes on; if not, the connection has
// already been put to its next use.
func (h *http1Conn) take(b []byte) bool {
	if h.inBody {
		return h.takeBody(b)
	}
	l := &h.only
	w := l.c.w
	for {
		if l.held != nil {
			l.held.head = append(l.held.head, b...)
			b = l.held.head
		}
		w.parser.Reset()
		n, err := w.parser.Parse(b, &limits, l.request.Head)
		switch {
		case err != http1.OK:
			why := "what came is not an HTTP answer"
			if w.examples[measure.BadHTTP] == "" {
				why = fmt.Sprintf("%s, %q", why, b[:min(len(b), 60)])
			}
			l.c.fail(measure.BadHTTP, why, err)
			return false
		case n == 0:
			if l.held == nil {
				l.held = w.getHeld()
				l.held.head = append(l.held.head, b...)
			}
			return true
		case w.parser.Status >= 200:
			return h.headWhole(b, n)
		case w.parser.Status == 101 || l.interim == maxInterim:
			l.c.fail(measure.BadHTTP,
				"an upgrade that was not asked for, or 1xx answers without end", nil)
			return false
		}
		l.interim++
		b = b[n:]
		if l.held != nil {
			l.held.head, b = l.held.head[:copy(l.held.head, b)], nil
		}
	}
}

// headWhole continues after a complete head, the first n bytes of b.
func (h *http1Conn) headWhole(b []byte, n int) bool {
	l := &h.only
	w := l.c.w
	r, rest := &w.parser, b[n:]
	length := int64(0)
	if r.Framing != http1.None {
		length = r.Length
	}
	if length != head.Unknown && length <= int64(len(rest)) {
		h.whole(rest[:length], false, length < int64(len(rest)))
		return false
	}
	h.body.Start(r.Framing, r.Length, &limits)
	h.inBody = true
	if l.held == nil {
		l.held = w.getHeld()
		l.held.head = append(l.held.head, b[:n]...)
	} else {
		l.held.head = l.held.head[:n]
	}
	return h.takeBody(rest)
}

// takeBody uses bytes of a body that did not arrive complete with its head.
func (h *http1Conn) takeBody(b []byte) bool {
	for len(b) > 0 && !h.body.Done() {
		data, n, err := h.body.Next(b)
		if err != http1.OK {
			h.only.c.fail(measure.BadHTTP,
				"the answer's body is not framed as HTTP requires", err)
			return false
		}
		h.only.addBody(data)
		b = b[n:]
	}
	if !h.body.Done() {
		return true
	}
	h.wholeHeld(len(b) > 0)
	return false
}

// wholeHeld ends an answer whose head was kept while its body arrived.
func (h *http1Conn) wholeHeld(surplus bool) {
	l := &h.only
	parser := &l.c.w.parser
	parser.Reset()
	parser.Parse(l.held.head, &limits, l.request.Head)
	h.whole(l.held.body, l.held.cut, surplus)
}

// whole judges a complete answer and puts the session and the connection to their next use. surplus
// reports that more bytes followed the answer.
func (h *http1Conn) whole(body []byte, cut, surplus bool) {
	l := &h.only
	c := l.c
	w := c.w
	if surplus {
		c.fail(measure.BadHTTP,
			"more came than the answer's own length, before anything else was asked", nil)
		return
	}
	keep := w.parser.KeepAlive
	if !keep {
		w.closing++
	}
	verdict := l.judge(w.parser.Status, &w.parser.Fields, body, cut)
	session := l.over(verdict.Kind)
	w.putHeld(l)
	// A target that answers before it has the whole request may never read the rest.
	keep = keep && !c.sock.Unsent() && h.quiet() == nil
	c.next(session, &verdict, keep)
}
