package load

import (
	"fmt"
	"net/http"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// How an answer is read. Nearly all answers are there whole at the first read: they are parsed
// where they were received, in the loop's scratch memory, judged and forgotten. What is not whole
// is kept in a held: the bytes of a head that is not complete, or the complete head while its body
// arrives, because the script judges both together at the end.

// limits bound what a target may send. A body has no limit, as it is not kept, unless the script
// wants to see it.
var limits = http1.Limits{Line: 8 << 10, Head: 64 << 10, Fields: 256, Extension: 64 << 10}

const (
	readsAtOnce = 16 // reads of one connection before others have their turn
	maxInterim  = 32 // 1xx answers to one request
)

// held is what is kept of an answer that is not whole. Held are used again, so that they cost no
// allocation.
type held struct {
	head []byte // without a beginning of the body
	body []byte // without its framing, where the script wants it
	cut  bool   // there was more than BodyLimit, or than the loop has room for
	next *held
}

// keptHeld bounds the memory of held that wait on a loop for their next use, in bytes.
const keptHeld = 16 << 20

// mostBodies bounds the bodies that a loop's connections hold for checks at once, in bytes: a
// thousand connections to a target without end would else take a gigabyte. What comes beyond it is
// cut off.
const mostBodies = 256 << 20

func (w *worker) getHeld() *held {
	h := w.freeHeld
	if h == nil {
		return new(held)
	}
	w.freeHeld, h.next = h.next, nil
	w.heldBytes -= cap(h.head) + cap(h.body)
	return h
}

// putHeld gives back what c holds, if anything.
func (w *worker) putHeld(c *conn) {
	h := c.held
	if h == nil {
		return
	}
	c.held = nil
	w.bodyBytes -= len(h.body)
	size := cap(h.head) + cap(h.body)
	if w.heldBytes+size > keptHeld {
		return
	}
	w.heldBytes += size
	h.head, h.body, h.cut = h.head[:0], h.body[:0], false
	h.next, w.freeHeld = w.freeHeld, h
}

// receive reads what has arrived of the answer to the request under way.
func (c *conn) receive() {
	if c.sock.Batched() {
		if err := c.quiet(); err != nil {
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
			c.readEnded(err)
			return
		}
		w.part.in += uint64(n)
		if !c.take(b[:n]) || !c.mayRead() {
			return
		}
	}
	if !c.deferred {
		c.deferred = true
		w.loop.Defer(c)
	}
}

// take uses bytes of the answer. It says whether the answer goes on; if not, the connection has
// already been put to another use.
func (c *conn) take(b []byte) bool {
	if c.inBody {
		return c.takeBody(b)
	}
	w := c.w
	for {
		if c.held != nil {
			c.held.head = append(c.held.head, b...)
			b = c.held.head
		}
		w.parser.Reset()
		n, err := w.parser.Parse(b, &limits, c.request.Head)
		switch {
		case err != http1.OK:
			why := "what came is not an HTTP answer"
			if w.examples[measure.BadHTTP] == "" {
				why = fmt.Sprintf("%s, %q", why, b[:min(len(b), 60)])
			}
			c.fail(measure.BadHTTP, why, err)
			return false
		case n == 0:
			if c.held == nil {
				c.held = w.getHeld()
				c.held.head = append(c.held.head, b...)
			}
			return true
		case w.parser.Status >= 200:
			return c.headWhole(b, n)
		case w.parser.Status == 101 || c.interim == maxInterim:
			c.fail(measure.BadHTTP,
				"an upgrade that was not asked for, or 1xx answers without end", nil)
			return false
		}
		c.interim++
		b = b[n:]
		if c.held != nil {
			c.held.head, b = c.held.head[:copy(c.held.head, b)], nil
		}
	}
}

// headWhole goes on behind a complete head, which is the first n bytes of b.
func (c *conn) headWhole(b []byte, n int) bool {
	w := c.w
	r, rest := &w.parser, b[n:]
	length := int64(0)
	if r.Framing != http1.None {
		length = r.Length
	}
	if length != head.Unknown && length <= int64(len(rest)) {
		c.whole(rest[:length], false, length < int64(len(rest)))
		return false
	}
	c.body.Start(r.Framing, r.Length, &limits)
	c.inBody = true
	if c.held == nil {
		c.held = w.getHeld()
		c.held.head = append(c.held.head, b[:n]...)
	} else {
		c.held.head = c.held.head[:n]
	}
	return c.takeBody(rest)
}

// takeBody uses bytes of a body that was not there whole with its head.
func (c *conn) takeBody(b []byte) bool {
	for len(b) > 0 && !c.body.Done() {
		data, n, err := c.body.Next(b)
		if err != http1.OK {
			c.fail(measure.BadHTTP, "the answer's body is not framed as HTTP requires", err)
			return false
		}
		if h := c.held; c.request.Body {
			take := max(min(len(data), BodyLimit-len(h.body), mostBodies-c.w.bodyBytes), 0)
			h.body = append(h.body, data[:take]...)
			c.w.bodyBytes += take
			h.cut = h.cut || take < len(data)
		}
		b = b[n:]
	}
	if !c.body.Done() {
		return true
	}
	c.wholeHeld(len(b) > 0)
	return false
}

// wholeHeld ends an answer whose head was kept while its body came.
func (c *conn) wholeHeld(surplus bool) {
	c.w.parser.Reset()
	c.w.parser.Parse(c.held.head, &limits, c.request.Head)
	c.whole(c.held.body, c.held.cut, surplus)
}

// whole judges an answer that has arrived whole, and puts the session and the connection to their
// next use. surplus says that something came behind the answer.
func (c *conn) whole(body []byte, cut, surplus bool) {
	w := c.w
	if surplus {
		c.fail(measure.BadHTTP,
			"more came than the answer's own length, before anything else was asked", nil)
		return
	}
	keep := w.parser.KeepAlive
	verdict := c.judge(body, cut)
	session := c.over(verdict.Kind)
	w.putHeld(c)
	// A target that answers before it has the whole request may never read the rest.
	keep = keep && !c.wornOut() && !c.sock.Unsent() && c.quiet() == nil
	switch {
	case !verdict.More:
		w.sessionOver(session)
	case verdict.Think > 0:
		w.think(session, w.now+int64(verdict.Think))
	case keep && w.now < w.end:
		w.part.due++
		c.begin(session, w.now)
		c.prompt = w.schedule == nil
		return
	default:
		w.think(session, w.now)
	}
	if keep {
		w.free(c)
		return
	}
	c.again()
}

// judge asks the script what it thinks of an answer. One that came too late is not worth asking,
// though the timer, which is a few milliseconds late, has not fired yet.
func (c *conn) judge(body []byte, cut bool) AnswerVerdict {
	w := c.w
	start := c.due
	if c.prompt {
		start = c.sentAt()
	}
	if w.now-start > int64(w.run.Timeout) {
		w.example(measure.Timeout, "the answer came after the timeout", nil)
		return AnswerVerdict{Kind: measure.Timeout}
	}
	w.answer = Answer{Status: w.parser.Status, Fields: &w.parser.Fields}
	if c.request.Body {
		w.answer.Body, w.answer.Cut = body, cut
	}
	verdict := c.session.Answer(&w.answer)
	if verdict.Kind != measure.OK && w.examples[verdict.Kind] == "" {
		text := fmt.Sprintf("status %d %s", w.parser.Status, http.StatusText(w.parser.Status))
		if verdict.Why != "" {
			text += ": " + verdict.Why
		}
		w.example(verdict.Kind, text, nil)
	}
	return verdict
}

// wornOut says that the connection has carried what it may.
func (c *conn) wornOut() bool {
	o := &c.w.run.Options
	return o.PerConnection > 0 && c.carried >= o.PerConnection ||
		o.Lifetime > 0 && c.w.now-c.opened >= int64(o.Lifetime)
}
