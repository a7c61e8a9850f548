package proxy

import (
	"plimsoll/internal/head"
	"plimsoll/internal/http2"
)

// A client's streams get their priorities (RFC 9218) from the request's Priority field, from
// PRIORITY_UPDATE, which may come before the request, and from the response's Priority field. For
// their effect see turns.

// earlyKept is how many PRIORITY_UPDATE frames a connection keeps for streams that have not begun.
// A browser sends them together with the request. If there are more, the oldest is dropped.
const earlyKept = 8

// earlyPriorities holds, in a ring, the priorities that came before their requests. Stream 0 marks
// a free place.
type earlyPriorities struct {
	list [earlyKept]struct {
		stream   uint32
		priority http2.Priority
	}
	at uint8 // the place that is used next
	n  uint8 // how many are kept
}

// put keeps a priority for take. The last one for a stream counts.
func (e *earlyPriorities) put(stream uint32, p http2.Priority) {
	for i := range e.list {
		if e.list[i].stream == stream {
			e.list[i].priority = p
			return
		}
	}
	at := &e.list[e.at]
	if at.stream == 0 {
		e.n++
	}
	at.stream, at.priority = stream, p
	e.at = (e.at + 1) % earlyKept
}

// take returns the priority of a stream that begins. It also drops those of streams with lower
// identifiers, which can no longer begin.
func (e *earlyPriorities) take(stream uint32) (p http2.Priority, known bool) {
	if e.n == 0 {
		return p, false
	}
	for i := range e.list {
		at := &e.list[i]
		if at.stream == stream {
			p, known = at.priority, true
		}
		if at.stream != 0 && at.stream <= stream {
			at.stream = 0
			e.n--
		}
	}
	return p, known
}

// prioritise deals with a PRIORITY_UPDATE (RFC 9218, section 7.1).
func (h *http2Conn) prioritise(f *http2.Frame) {
	id, p := f.Prioritised()
	st := h.stream(id)
	switch {
	case id&1 == 0: // a push, and nothing was ever pushed
		h.fail(http2.EvenStream)
	case id > h.last:
		h.early.put(id, p)
	case st != nil && !st.decided:
		st.priority = p
	}
}

// setPriority gives a stream the priority that its request asks for. A PRIORITY_UPDATE overrides
// that, even if it came before the request.
func (st *http2Stream) setPriority(fields *head.List) {
	st.priority = http2.DefaultPriority()
	if p, known := st.h.early.take(st.id); known {
		st.priority = p
	} else if fields.Has(head.Priority) {
		st.priority = prioritisedBy(fields, st.priority)
	}
}

// decide gives a stream the priority that its response names (RFC 9218, section 8). The service
// knows best what it sends, so a later PRIORITY_UPDATE changes nothing.
func (st *http2Stream) decide(fields *head.List) {
	st.decided = true
	st.priority = prioritisedBy(fields, st.priority)
}

// prioritisedBy returns p, changed by all Priority fields of a message.
func prioritisedBy(fields *head.List, p http2.Priority) http2.Priority {
	for i := range fields.Len() {
		if field := fields.At(i); field.ID == head.Priority {
			p = p.With(field.Value)
		}
	}
	return p
}
