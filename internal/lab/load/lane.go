package load

import (
	"fmt"
	"net/http"

	"plimsoll/internal/head"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// lane carries one request at a time, from its sending to its end. A connection of HTTP/1.1 has one
// lane, one of HTTP/2 as many as it has requests under way.
type lane struct {
	c     *conn
	timer reactor.Timer

	session Session // of the request under way; nil when there is none
	request Request
	due     int64  // the intended start of the request
	written int64  // when its first byte was sent, where that is not sock.Sent
	held    *held  // what arrived of an answer that is not whole yet; nil when nothing
	found   int    // other requests of the loop that were in flight when it was sent
	interim int    // 1xx answers to the request
	stream  uint32 // its identifier in HTTP/2; 0 in HTTP/1.1
	onTime  bool   // a connection was free when the request was due: its lag is the generator's
	prompt  bool   // the intended start is the sending itself
}

// Expire implements reactor.Expirer: the request has no whole answer in time.
func (l *lane) Expire(*reactor.Timer, int64) {
	w := l.c.w
	w.now = reactor.Clock()
	l.c.protocol.expire(l)
	w.afterEvent()
}

// sentAt is when the first byte of the request went out.
func (l *lane) sentAt() int64 {
	switch {
	case l.written != 0:
		return l.written
	case l.c.sock.Batched():
		return l.c.w.now
	}
	return l.c.sock.Sent()
}

// over counts the request under way as ended and gives back its session.
func (l *lane) over(kind measure.Kind) Session {
	w := l.c.w
	w.turnPage()
	s := l.session
	l.session = nil
	l.c.under--
	w.inFlight--
	w.loop.StopTimer(&l.timer)
	sent := l.sentAt()
	if l.prompt {
		l.due = sent
	}
	if l.onTime {
		w.part.lag.Record(sent - l.due)
	}
	w.ended(kind, l.request.Name, w.now-l.due, w.now-sent)
	if kind == measure.OK {
		w.atSend[min(l.found, measure.MostFound)].add(w.now - sent)
	}
	return s
}

// judge asks the script what it thinks of an answer. One that came too late is not worth asking,
// though the timer, which is a few milliseconds late, has not fired yet.
func (l *lane) judge(status int, fields *head.List, body []byte, cut bool) AnswerVerdict {
	w := l.c.w
	start := l.due
	if l.prompt {
		start = l.sentAt()
	}
	if w.now-start > int64(w.run.Timeout) {
		w.example(measure.Timeout, "the answer came after the timeout", nil)
		return AnswerVerdict{Kind: measure.Timeout}
	}
	w.answer = Answer{Status: status, Fields: fields}
	if l.request.Body {
		w.answer.Body, w.answer.Cut = body, cut
	}
	verdict := l.session.Answer(&w.answer)
	if verdict.Kind != measure.OK && w.examples[verdict.Kind] == "" {
		text := fmt.Sprintf("status %d %s", status, http.StatusText(status))
		if verdict.Why != "" {
			text += ": " + verdict.Why
		}
		w.example(verdict.Kind, text, nil)
	}
	return verdict
}

// held is what is kept of an answer that is not whole. Held are used again, so that they cost no
// allocation.
type held struct {
	head   []byte    // of HTTP/1.1 as it came, without a beginning of the body
	fields head.List // of HTTP/2, whose bytes are in head
	body   []byte    // without its framing, where the script wants it
	cut    bool      // there was more than BodyLimit, or than the loop has room for
	next   *held
}

// keptHeld bounds the memory of held that wait on a loop for their next use, in bytes.
const keptHeld = 16 << 20

// mostBodies bounds the bodies that a loop's connections hold for checks at once, in bytes: a
// thousand connections to a target without end would else take a gigabyte. What comes beyond it is
// cut off.
const mostBodies = 256 << 20

// addBody keeps bytes of a body, where the script wants to see it.
func (l *lane) addBody(data []byte) {
	if !l.request.Body {
		return
	}
	h, w := l.held, l.c.w
	take := max(min(len(data), BodyLimit-len(h.body), mostBodies-w.bodyBytes), 0)
	h.body = append(h.body, data[:take]...)
	w.bodyBytes += take
	h.cut = h.cut || take < len(data)
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

// putHeld gives back what l holds, if anything.
func (w *worker) putHeld(l *lane) {
	h := l.held
	if h == nil {
		return
	}
	l.held = nil
	w.bodyBytes -= len(h.body)
	size := cap(h.head) + cap(h.body)
	if w.heldBytes+size > keptHeld {
		return
	}
	w.heldBytes += size
	h.head, h.body, h.cut = h.head[:0], h.body[:0], false
	h.fields.Reset()
	h.next, w.freeHeld = w.freeHeld, h
}
