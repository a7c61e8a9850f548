package load

import (
	"fmt"
	"net/http"
	"strings"

	"plimsoll/internal/head"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// exchange carries one request at a time, from sending it to its end. An HTTP/1.1 connection has
// one exchange, an HTTP/2 connection one per request under way.
type exchange struct {
	c     *conn
	timer reactor.Timer

	session Session // of the request under way; nil if there is none
	request Request
	due     int64  // the intended start of the request
	written int64  // when its first byte was sent, if not sock.Sent
	held    *held  // the part of an incomplete answer that has arrived; nil if none
	found   int    // other requests of the loop in flight when it was sent
	interim int    // 1xx answers to the request
	stream  uint32 // stream identifier in HTTP/2; 0 in HTTP/1.1
	onTime  bool   // a connection was free when it was due: its lag is the generator's
	prompt  bool   // the intended start is the time of sending
}

// Expire implements reactor.Expirer: the request has no complete answer in time.
func (x *exchange) Expire(*reactor.Timer, int64) {
	w := x.c.w
	w.now = reactor.Clock()
	x.c.protocol.expire(x)
	w.afterEvent()
}

// sentAt returns when the first byte of the request was sent.
func (x *exchange) sentAt() int64 {
	switch {
	case x.written != 0:
		return x.written
	case x.c.sock.Batched():
		return x.c.w.now
	}
	return x.c.sock.Sent()
}

// over counts the request under way as ended and returns its session.
func (x *exchange) over(kind measure.Kind) Session {
	w := x.c.w
	w.turnPage()
	s := x.session
	x.session = nil
	x.c.under--
	w.inFlight--
	w.loop.StopTimer(&x.timer)
	sent := x.sentAt()
	if x.prompt {
		x.due = sent
	}
	if x.onTime {
		w.part.lag.Record(sent - x.due)
	}
	w.ended(kind, x.request.Name, w.now-x.due, w.now-sent)
	if kind == measure.OK {
		w.atSend[min(x.found, measure.MostFound)].add(w.now - sent)
	}
	return s
}

// judge asks the script for its verdict on an answer. It does not ask about an answer after the
// timeout, even if the timer, which is a few milliseconds late, has not fired yet.
func (x *exchange) judge(status int, fields *head.List, body []byte, cut bool) AnswerVerdict {
	w := x.c.w
	start := x.due
	if x.prompt {
		start = x.sentAt()
	}
	if w.now-start > int64(w.run.Timeout) {
		w.example(measure.Timeout, "the answer came after the timeout", nil)
		return AnswerVerdict{Kind: measure.Timeout}
	}
	if !w.named {
		w.named, w.server = true, serverField(fields)
	}
	w.answer = Answer{Status: status, Fields: fields}
	if x.request.Body {
		w.answer.Body, w.answer.Cut = body, cut
	}
	verdict := x.session.Answer(&w.answer)
	if verdict.Kind != measure.OK && w.examples[verdict.Kind] == "" {
		text := fmt.Sprintf("status %d %s", status, http.StatusText(status))
		if verdict.Why != "" {
			text += ": " + verdict.Why
		}
		w.example(verdict.Kind, text, nil)
	}
	return verdict
}

// maxServer is the maximum length of a Server field that is kept.
const maxServer = 200

// serverField returns what an answer says of the server program; empty if nothing.
func serverField(fields *head.List) string {
	f := fields.Find([]byte("server"))
	if f == nil {
		return ""
	}
	return strings.ToValidUTF8(string(f.Value[:min(len(f.Value), maxServer)]), "?")
}

// held keeps an incomplete answer. Held values are reused to avoid allocations.
type held struct {
	head   []byte    // HTTP/1.1: as received, without any part of the body
	fields head.List // HTTP/2: the bytes are in head
	body   []byte    // without framing, if the script asks for it
	cut    bool      // the body exceeded BodyLimit, or the loop's room
	next   *held
}

// keptHeld limits the memory of a loop's free list of held values, in bytes.
const keptHeld = 16 << 20

// mostBodies limits the bodies that a loop's connections hold for checks at once, in bytes. Without
// it, a thousand connections to a target that sends without end would take a gigabyte. Bodies are
// cut off at the limit.
const mostBodies = 256 << 20

// addBody keeps bytes of a body, if the script asks to see it.
func (x *exchange) addBody(data []byte) {
	if !x.request.Body {
		return
	}
	h := x.held
	take := x.c.w.roomForBody(len(data), len(h.body))
	h.body = append(h.body, data[:take]...)
	h.cut = h.cut || take < len(data)
}

// roomForBody returns how many of n more bytes may be kept of a body of which kept bytes are kept
// already, and counts them. HTTP/3 goroutines that ask at the same time may exceed mostBodies a
// little.
func (w *worker) roomForBody(n, kept int) int {
	take := max(min(n, BodyLimit-kept, mostBodies-int(w.bodyBytes.Load())), 0)
	w.bodyBytes.Add(int64(take))
	return take
}

func (w *worker) getHeld() *held {
	h := w.freeHeld
	if h == nil {
		return new(held)
	}
	w.freeHeld, h.next = h.next, nil
	w.heldBytes -= cap(h.head) + cap(h.body)
	return h
}

// putHeld frees what x holds, if anything.
func (w *worker) putHeld(x *exchange) {
	h := x.held
	if h == nil {
		return
	}
	x.held = nil
	if len(h.body) > 0 {
		w.bodyBytes.Add(-int64(len(h.body)))
	}
	size := cap(h.head) + cap(h.body)
	if w.heldBytes+size > keptHeld {
		return
	}
	w.heldBytes += size
	h.head, h.body, h.cut = h.head[:0], h.body[:0], false
	h.fields.Reset()
	h.next, w.freeHeld = w.freeHeld, h
}
