package cache

import (
	"bytes"
	"io"
	"sync/atomic"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/exchange"
)

// waiter is a request that waits for a fetch, and then the source of its answer. It is in
// Exchange.Source from the beginning of the wait, so that it is closed when the client goes. A
// waiter is never reused, because a wake may come late.
type waiter struct {
	p       *Policy
	part    *part
	reader  store.Reader
	hold    exchange.Hold
	waker   exchange.Waker
	reading atomic.Bool // the head has arrived, and the body is being read
	closed  bool

	since int64        // when the wait began
	why   rules.Reason // why the request was not answered from the cache
	mine  *fetch       // the fetch that this request began; nil if another did
	again int

	stale      *store.Entry // the stored response, held; nil for none
	ifError    bool         // the request may get stale if the fetch fails, for whatever reason
	skip, left int64        // bytes of the body to skip and to send; left is -1 for all
	slice      [1][]byte
	gave       int                                             // bytes of the piece that Next gave last
	resume     func(*exchange.Exchange) exchange.PolicyVerdict // goOn
}

// await begins a fetch, or joins the existing one, and holds the request until its head has
// arrived.
func (p *Policy) await(
	x *exchange.Exchange, part *part, a *asked, d *rules.Decision, again int,
) exchange.PolicyVerdict {
	fill, filler := p.o.Memory.Begin(p.fillKey(a), a.uri)
	w := &waiter{p: p, part: part, since: x.Now(), why: d.Why, again: again, waker: x.Waker(), left: -1}
	w.resume = w.goOn
	if !fill.Join(&w.reader, w) {
		if filler {
			fill.Fail(0)
		}
		a.release()
		if again > 0 && !filler { // the fetch has ended at this moment
			return p.look(x, part, again-1)
		}
		return p.pass(x, part, d.Why)
	}
	if filler {
		f := p.newFetch(x, part, a, fill)
		f.owner, w.mine = w, f
		if d.Why != rules.Miss && d.Why != rules.VaryMiss && d.Why != rules.Stale {
			f.second.silence()
		}
		if !x.Fetch(&f.request, f) {
			w.Close()
			f.abandon()
			a.release()
			part.count(&part.tooMany)
			return p.pass(x, part, d.Why)
		}
	} else {
		part.count(&part.coalesced)
	}
	w.stale, w.ifError = a.found, d.StaleIfError && p.mayStand(x, a.found)
	x.Source = w
	w.hold = x.HoldThen(x.Now()+p.o.Wait, w.late)
	if _, phase := w.reader.Head(); phase == store.Waiting {
		return exchange.Held
	}
	return w.goOn(x)
}

// Wake implements store.Waker. Any goroutine may call it.
func (w *waiter) Wake() {
	if w.reading.Load() {
		w.waker.Wake()
		return
	}
	w.hold.Resume(w.resume)
}

// goOn acts on the result of the fetch.
func (w *waiter) goOn(x *exchange.Exchange) exchange.PolicyVerdict {
	if w.closed {
		return exchange.Continue // it no longer waits
	}
	if w.mine != nil && w.mine.lone != nil {
		return w.alone(x)
	}
	e, phase := w.reader.Head()
	switch phase {
	case store.Waiting:
		return exchange.Held
	case store.Private:
		return w.leave(x, noteWaited)
	case store.Broken:
		return w.failed(x, failureOf(w.reader.Why()))
	}
	var a asked
	a.Read(x.Request)
	if !w.fits(x, e) {
		return w.lookAgain(x)
	}
	if (e.Second || e.Meta.Received < w.since) && !w.answers(x, &a.Request, e) {
		return w.leave(x, noteWaited)
	}
	return w.serve(x, &a.Request, e)
}

// answers reports whether an entry whose head had arrived before the request, but whose body is
// still arriving, may answer the request like a stored one.
func (w *waiter) answers(x *exchange.Exchange, r *rules.Request, e *store.Entry) bool {
	c := rules.Circumstances{Now: w.part.instant(x), Purged: e.Soft()}
	d := w.p.o.Rules.Decide(r, &e.Meta, e.Block(), &c)
	return d.Action == rules.Serve || d.Action == rules.ServeAndRefresh
}

// fits reports whether the entry is the one for this request: the answers may have turned out to
// vary, or to vary no longer.
func (w *waiter) fits(x *exchange.Exchange, e *store.Entry) bool {
	var a asked
	w.p.find(x, w.part, &a, (*store.Store).Peek)
	a.release()
	return bytes.Equal(e.Key(), a.key) || bytes.Equal(e.Key(), w.part.key)
}

// serve answers with the response of the fetch.
func (w *waiter) serve(x *exchange.Exchange, r *rules.Request, e *store.Entry) exchange.PolicyVerdict {
	p, now := w.p, w.part.instant(x)
	length := w.reader.Length()
	reply := r.Reply(&e.Meta, e.Block(), length, now.Wall)
	w.skip, w.left = reply.From, reply.To-reply.From
	if reply.To < 0 {
		w.left = -1
	}
	w.reading.Store(true)
	w.dropStale()
	x.AnswerFrom(reply.Status, Stored, reply.Length, w)
	report := rules.Report{Why: w.why, Stored: true, Collapsed: w.mine == nil,
		TTL: e.Meta.TTL(now.Mono), HasTTL: true}
	if w.reader.Passes() {
		report.Stored, report.NotStored = false, rules.NotKept
	}
	switch {
	case e.Second:
		report.Hit, report.Second, report.Why = true, true, rules.NoReason
		w.part.count(&w.part.second)
	case w.mine != nil:
		report.Status = w.mine.revalidated
		w.part.count(&w.part.missed[w.why])
	default:
		w.part.count(&w.part.shared)
		w.part.count(&w.part.missed[w.why])
	}
	p.fill(x, w.part, e, &reply, length, &report, now)
	return exchange.Answered
}

// alone answers with a response that is only for this request.
func (w *waiter) alone(x *exchange.Exchange) exchange.PolicyVerdict {
	l := w.mine.lone
	w.part.count(&w.part.missed[w.why])
	x.Source, w.mine = nil, nil
	w.Close()
	l.answer(x)
	x.Relayed, x.CacheNote = true, noteServed
	w.p.addStatus(x, &rules.Report{Why: w.why, NotStored: l.why})
	return exchange.Answered
}

// leave lets the request go to the upstream on its own.
func (w *waiter) leave(x *exchange.Exchange, note uint32) exchange.PolicyVerdict {
	x.CloseSource()
	verdict := w.p.pass(x, w.part, w.why)
	x.CacheNote |= note
	return verdict
}

// lookAgain looks up the request again, which turned out to have waited for something else.
func (w *waiter) lookAgain(x *exchange.Exchange) exchange.PolicyVerdict {
	if w.again == 0 {
		return w.leave(x, noteWaited)
	}
	x.CloseSource()
	return w.p.look(x, w.part, w.again-1)
}

// late is called when the request has waited for its maximum time: it gets a stale response, if it
// may, or goes on its own.
func (w *waiter) late(x *exchange.Exchange) exchange.PolicyVerdict {
	w.part.count(&w.part.late)
	if w.stale != nil && w.ifError && w.p.mayStand(x, w.stale) {
		return w.serveStale(x, rules.Failed)
	}
	return w.leave(x, noteWaited)
}

// failed answers when the fetch has failed: with a stale response, or else with that failure. If
// all waiting requests went on their own, a failing service would get all of them at once.
func (w *waiter) failed(x *exchange.Exchange, why failure) exchange.PolicyVerdict {
	protects := why.reason.Fault() == exchange.ProtectionFault
	if w.stale == nil && w.p.o.Memory.Tier() != nil {
		w.findStale(x)
	}
	if w.stale != nil && w.p.mayStand(x, w.stale) {
		if w.ifError && rules.Failing(why.status) && why.reason != FetchLimited {
			return w.serveStale(x, rules.Failed)
		}
		if (protects || why.reason == FetchLimited) && w.spares(x) {
			return w.serveStale(x, rules.Pressure)
		}
	}
	if why.reason == exchange.NoReason {
		return w.lookAgain(x)
	}
	verdict := x.Refuse(why.status, why.reason)
	if protects || why.after > 0 {
		x.RetryAfter(max(1, why.after) + int(w.p.random()*3))
	}
	return verdict
}

// findStale takes the stale response that the second tier has provided meanwhile.
func (w *waiter) findStale(x *exchange.Exchange) {
	var a asked
	a.Read(x.Request)
	w.p.find(x, w.part, &a, (*store.Store).Lookup)
	if a.found == nil {
		return
	}
	d := w.p.decide(&a, &rules.Circumstances{Now: w.part.instant(x), Purged: a.found.Soft()})
	w.stale, w.ifError = a.found, d.StaleIfError && w.p.mayStand(x, a.found)
}

// spares reports whether the stale response may be served to relieve the service.
func (w *waiter) spares(x *exchange.Exchange) bool {
	var r rules.Request
	r.Read(x.Request)
	c := rules.Circumstances{Now: w.part.instant(x), Pressure: true, Purged: w.stale.Soft()}
	d := w.p.o.Rules.Decide(&r, &w.stale.Meta, w.stale.Block(), &c)
	return d.Action == rules.Serve
}

// serveStale answers with the stale response.
func (w *waiter) serveStale(x *exchange.Exchange, why rules.Reason) exchange.PolicyVerdict {
	var r rules.Request
	r.Read(x.Request)
	e, part, now := w.stale, w.part, w.part.instant(x)
	w.stale = nil
	part.count(&part.stale[why])
	report := rules.Report{Hit: true, Why: why, TTL: e.Meta.TTL(now.Mono), HasTTL: true}
	x.CloseSource()
	w.p.serve(x, part, &r, e, &report, now)
	x.Step = stepOf(e, now.Mono)
	return exchange.Answered
}

func (w *waiter) dropStale() {
	if w.stale != nil {
		w.stale.Release()
		w.stale = nil
	}
}

// Next implements exchange.Source.
func (w *waiter) Next(most int) ([]byte, error) {
	if w.gave > 0 {
		w.reader.Advance(w.gave)
		w.gave = 0
	}
	for {
		if w.left == 0 {
			return nil, io.EOF
		}
		there, phase := w.reader.Peek(w.slice[:0])
		if len(there) == 0 {
			switch phase {
			case store.Whole:
				return nil, io.EOF
			case store.Filling:
				return nil, exchange.ErrWait
			}
			return nil, errFetch
		}
		data := there[0]
		if w.skip > 0 {
			n := min(w.skip, int64(len(data)))
			w.skip -= n
			w.reader.Advance(int(n))
			continue
		}
		data = data[:min(most, len(data))]
		if w.left > 0 {
			data = data[:min(w.left, int64(len(data)))]
			w.left -= int64(len(data))
		}
		w.gave = len(data)
		return data, nil
	}
}

// Revoked implements exchange.Revocable.
func (w *waiter) Revoked() bool { return w.reader.Revoked() }

// Close implements exchange.Source.
func (w *waiter) Close() {
	if w.closed {
		return
	}
	w.closed = true
	w.reader.Close()
	w.dropStale()
	if w.mine != nil && w.mine.lone != nil {
		w.mine.lone.Close() // which has not been used
	}
}
