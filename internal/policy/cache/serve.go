package cache

import (
	"io"
	"slices"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// maxSpare is how many sources of hits a loop keeps for reuse.
const maxSpare = 1024

var (
	ageName          = []byte("Age")
	cacheStatusName  = []byte("Cache-Status")
	contentRangeName = []byte("Content-Range")
)

// hit answers with the stored response that was found.
func (p *Policy) hit(
	x *exchange.Exchange, w *part, a *asked, d *rules.Decision, c *rules.Circumstances,
) exchange.PolicyVerdict {
	e := a.found
	early := d.Action == rules.Serve && d.Why == rules.NoReason && p.o.Early > 0 &&
		!p.o.Rules.Personal(&a.Request) && rules.EarlyRefresh(d.TTL, e.Cost, p.o.Early, 1-p.random())
	if (early || d.Action == rules.ServeAndRefresh) && e.Refresh() {
		if early {
			w.count(&w.early)
		}
		p.refresh(x, w, a, early)
	}
	if d.Why == rules.NoReason {
		w.count(&w.fresh)
	} else {
		w.count(&w.stale[d.Why])
	}
	report := rules.Report{Hit: true, Why: d.Why, TTL: d.TTL, HasTTL: true}
	return p.serve(x, w, &a.Request, e, &report, c.Now)
}

// serve answers with a stored response. The answer takes over the caller's reference.
func (p *Policy) serve(
	x *exchange.Exchange, w *part, r *rules.Request, e *store.Entry, report *rules.Report, now rules.Instant,
) exchange.PolicyVerdict {
	reply := r.Reply(&e.Meta, e.Block(), e.Length(), now.Wall)
	h := w.newHit()
	h.part, h.entry, h.at, h.end = w, e, reply.From, reply.To
	x.AnswerFrom(reply.Status, Stored, reply.Length, h)
	p.fill(x, w, e, &reply, e.Length(), report, now)
	return exchange.Answered
}

// fill makes the head of an answer from a response that is stored or being stored, with a body of
// length bytes.
func (p *Policy) fill(
	x *exchange.Exchange, w *part, e *store.Entry, reply *rules.Reply, length int64, report *rules.Report,
	now rules.Instant,
) {
	x.Relayed, x.CacheNote = true, noteServed
	fields := &x.Response.Fields
	switch block := e.Block(); reply.Status {
	case 416:
		fields.Add(contentRangeName, rules.AppendContentRange(x.Alloc(64)[:0], reply, length))
	case 304:
		rules.Fields(fields, block)
		tagged := e.Meta.ETag(block) != nil
		fields.RemoveFunc(func(f *head.Field) bool { return !rules.InNotModified(f.Name, tagged) })
	case 206:
		rules.Fields(fields, block)
		if e.Meta.Status != 206 {
			fields.RemoveFunc(isContentRange)
			fields.Add(contentRangeName, rules.AppendContentRange(x.Alloc(64)[:0], reply, length))
		}
	default:
		rules.Fields(fields, block)
	}
	age := e.Meta.Age(now.Mono)
	w.ages.add(ageBounds, age)
	fields.Add(ageName, rules.AppendAge(x.Alloc(20)[:0], age))
	p.addStatus(x, report)
}

func isContentRange(f *head.Field) bool { return head.EqualFold(f.Name, contentRangeName) }

// addStatus adds Cache-Status (RFC 9211) to the response.
func (p *Policy) addStatus(x *exchange.Exchange, report *rules.Report) {
	if p.o.Name == "" {
		return
	}
	text := x.Alloc(maxName + maxStatus)[:0]
	x.Response.Fields.Add(cacheStatusName, rules.AppendStatus(text, p.o.Name, report))
}

// maxStatus is more bytes than Cache-Status has after the name.
const maxStatus = 128

// hit is the Source of an answer from a stored response. It is reused.
type hit struct {
	part    *part
	entry   *store.Entry
	at, end int64
	slice   [1][]byte
	next    *hit // in the free list
}

var _ exchange.StoredSource = (*hit)(nil)

func (w *part) newHit() *hit {
	h := w.hits
	if h == nil {
		return &hit{}
	}
	w.hits, h.next = h.next, nil
	w.spare--
	return h
}

// Next implements exchange.Source: it returns the stored bytes themselves, one piece at a time, or
// a copy if the pieces are small.
func (h *hit) Next(most int) ([]byte, error) {
	if h.at >= h.end {
		return nil, io.EOF
	}
	to := min(h.end, h.at+int64(most))
	data := h.entry.Slices(h.slice[:0], h.at, to)[0]
	if len(data) < joinBytes && h.at+int64(len(data)) < to {
		data = h.join(data, min(to, h.at+joinBytes))
	}
	if h.at += int64(len(data)); h.at >= h.end {
		return data, io.EOF
	}
	return data, nil
}

// NextParts implements exchange.StoredSource, for bodies of at least joinBytes.
func (h *hit) NextParts(parts [][]byte, most int) [][]byte {
	if h.end-h.at < joinBytes {
		return parts
	}
	return h.entry.Slices(parts, h.at, min(h.end, h.at+int64(most)))
}

// Took implements exchange.StoredSource.
func (h *hit) Took(n int64) { h.at += n }

// joinBytes is up to how many bytes of a body are copied together to return them at once. The store
// splits a body of 1 KB, with its key and fields before it, into blocks of 1,024 and 256 bytes.
// Each piece returned separately takes a system call of 5 µs or more, while a copy of 16 KB takes 1
// µs.
const joinBytes = 16 << 10

// join returns the body from at to to, which begins with first, in the loop's memory.
func (h *hit) join(first []byte, to int64) []byte {
	w := h.part
	w.joined = append(slices.Grow(w.joined[:0], joinBytes), first...)
	for from := h.at + int64(len(first)); from < to; {
		next := h.entry.Slices(h.slice[:0], from, to)[0]
		w.joined = append(w.joined, next...)
		from += int64(len(next))
	}
	return w.joined
}

// Close implements exchange.Source.
func (h *hit) Close() {
	h.entry.Release()
	w := h.part
	*h = hit{}
	if w.spare < maxSpare {
		h.next, w.hits = w.hits, h
		w.spare++
	}
}
