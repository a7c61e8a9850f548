package cache

import (
	"bytes"
	"errors"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

var (
	// errFetch cuts off responses whose fetch broke off.
	errFetch = errors.New("cache: the fetch broke off")
	// errNobody ends a fetch whose response is no longer needed.
	errNobody = errors.New("cache: nobody needs the response")
)

// maxIgnored is how many bytes of an unwanted body are read so that the connection can be reused. A
// longer body ends the fetch.
const maxIgnored = 64 << 10

// fetch is the Sink of a fetch. It stores the response, or passes it only to the request that began
// the fetch. It ends its fill in every case.
type fetch struct {
	p       *Policy
	part    *part
	fill    *store.Fill
	request head.Request // as passed to the policies after this one, and then to the upstream
	primary []byte       // the primary key, and the URI's part of it
	uri     []byte
	stale   *store.Entry // held: the entry to replace; nil for none
	asks    bool         // the validators of stale are sent
	refresh bool         // in the background, by Entry.Refresh of stale
	second  *second      // the look-up in the second tier; nil for none
	owner   *waiter      // the request that began it; nil for a refresh
	began   rules.Instant

	lone        *lone // the response, once it is known to be only for the owner
	revalidated int   // the status of the answer to a revalidation
	why         uint32
	ignored     int  // bytes read of an unwanted body; -1 if the body is wanted
	begun       bool // the response's head has arrived
	over        bool
}

// newFetch makes a fetch for a request that was looked up. It aliases the request's head until
// Exchange.Fetch has copied it.
func (p *Policy) newFetch(x *exchange.Exchange, w *part, a *asked, fill *store.Fill) *fetch {
	f := &fetch{p: p, part: w, fill: fill, began: w.instant(x), ignored: -1}
	primary, uri := p.appendKey(nil, x)
	f.primary, f.uri = primary, primary[:uri:uri]
	f.request = head.Request{Method: getMethod, Scheme: scheme(x), Host: x.Request.Host,
		Target: x.Request.Target, Path: x.Request.Path}
	if x.Request.Query != nil {
		f.request.Query = p.o.Rules.Key.AppendQuery(make([]byte, 0, len(x.Request.Query)), x.Request.Query)
		if len(f.request.Query) == 0 && len(x.Request.Query) > 0 {
			f.request.Query = nil
		}
	}
	var s *rules.Stored
	var block []byte
	if f.stale = a.found; f.stale != nil {
		f.stale.Hold()
		if f.asks = !f.stale.Makeshift; f.asks {
			s, block = &f.stale.Meta, f.stale.Block()
		}
	}
	p.o.Rules.Forward(&f.request.Fields, make([]byte, 0, 256), &a.Request, s, block)
	f.request.Fields = ownFields(&f.request.Fields)
	f.second = newSecond(f)
	return f
}

// ownFields is a copy of a list in its own memory.
func ownFields(list *head.List) (own head.List) {
	size := 0
	for i := range list.Len() {
		size += len(list.At(i).Name) + len(list.At(i).Value)
	}
	memory := make([]byte, 0, size)
	kept := func(b []byte) []byte {
		at := len(memory)
		memory = append(memory, b...)
		return memory[at:len(memory):len(memory)]
	}
	for i := range list.Len() {
		f := list.At(i)
		own.Append(head.Field{Name: kept(f.Name), Value: kept(f.Value), ID: f.ID})
	}
	return own
}

var getMethod = []byte("GET")

// refresh revalidates the found entry in the background. Entry.Refresh must have returned true to
// the caller.
func (p *Policy) refresh(x *exchange.Exchange, w *part, a *asked, early bool) {
	fill, filler := p.o.Memory.Begin(p.fillKey(a), a.uri)
	if !filler {
		a.found.RefreshOver()
		return
	}
	own := *a
	own.Own()
	f := p.newFetch(x, w, &own, fill)
	f.refresh = true
	if early {
		f.second.silence() // other instances have nothing that is much fresher
	}
	if !x.Fetch(&f.request, f) {
		w.count(&w.tooMany)
		f.abandon()
	}
}

// abandon ends a fetch that has not begun.
func (f *fetch) abandon() { f.end(false) }

// FetchHead implements exchange.Sink.
func (f *fetch) FetchHead(x *exchange.Exchange) {
	p, status := f.p, x.Response.Status
	f.begun = true
	f.part.count(&f.part.fetches)
	at := rules.Times{Sent: f.began, Received: f.part.instant(x)}
	f.part.fetched.add(fetchBounds, at.Received.Mono-at.Sent.Mono)
	if f.asks {
		f.revalidated = status
		if status == 304 {
			f.renew(x, at)
			return
		}
	}
	switch {
	case status == 304: // there was nothing to validate
		f.giveUp(failure{status: 502, reason: exchange.UpstreamBad})
		return
	case rules.Failing(status) && f.stale != nil && (f.owner == nil || f.owner.ifError):
		f.giveUp(failure{status: status})
		return
	}
	var r rules.Request
	r.Read(x.Request)
	stored, why := p.o.Rules.Judge(&r, x.Response, at)
	if why == rules.MayStore {
		why = f.store(x, &stored, at)
	}
	switch {
	case why == rules.MayStore:
	case shares(status) && !p.o.Rules.Personal(&r):
		f.failing(x, why)
	default:
		f.private(x, why)
	}
}

// failing passes a failure of the service to the request that began the fetch, and reports it to
// the others: if they fetched on their own, a failing service would get all of them at once. The
// failure is not remembered: the next request begins the next fetch, so that there is one at a time
// as long as the service fails.
func (f *fetch) failing(x *exchange.Exchange, why rules.Reason) {
	f.part.count(&f.part.notStored[why])
	f.takeLone(x, why)
	f.why = failureFrom(x).word()
	f.second.unlock()
	f.fill.Fail(f.why)
}

// takeLone keeps the response for the request that began the fetch, if that request still exists.
func (f *fetch) takeLone(x *exchange.Exchange, why rules.Reason) {
	if f.owner != nil && !f.owner.closed {
		f.lone = newLone(x, f.owner.waker, why)
	}
}

// renew handles a 304.
func (f *fetch) renew(x *exchange.Exchange, at rules.Times) {
	p, w := f.p, f.part
	var r rules.Request
	r.Read(x.Request)
	stored, block, why := p.o.Rules.Freshen(w.block[:0], &r, &f.stale.Meta, f.stale.Block(), x.Response, at)
	w.block = block
	if why == rules.MayStore {
		stored.Jitter(p.o.Jitter, p.random())
		h := store.Head{Key: f.stale.Key(), URI: f.uri, Block: block, Meta: stored,
			Tags: tagsOf(&x.Response.Fields),
			Cost: at.Received.Mono - at.Sent.Mono}
		if f.fill.Renew(f.stale, &h) == nil {
			f.second.renewed(&h, f.stale)
			w.count(&w.revalidated)
			return
		}
	}
	// The 304 refers to something else, or says that the stored response must no longer be stored.
	p.o.Memory.Remove(f.stale.Key())
	w.count(&w.notStored[why])
	f.giveUp(failure{})
}

// store begins storing the response.
func (f *fetch) store(x *exchange.Exchange, stored *rules.Stored, at rules.Times) rules.Reason {
	p, w, fields := f.p, f.part, &x.Response.Fields
	o := &p.o.Rules
	stored.Jitter(p.o.Jitter, p.random())
	if x.Makeshift {
		stored.Lifetime = min(stored.Lifetime, stored.InitialAge+makeshiftFor)
	}
	block, ok := o.AppendBlock(w.block[:0], stored, fields)
	w.block = block
	if !ok {
		return rules.TooManyFields
	}
	key := f.primary
	if names := o.Vary(nil, fields); len(names) > 0 {
		if f.second != nil && f.second.found.Names != nil {
			names, ok = rules.MergeVary(nil, f.second.found.Names, names)
		}
		if ok {
			names, ok = f.mergeVary(names)
		}
		if !ok || p.o.Memory.SetVary(f.primary, f.uri, names) != nil {
			return rules.VaryTooMuch
		}
		key = f.variant(names)
		f.second.varies(names)
	}
	h := store.Head{Key: key, URI: f.uri, Block: block, Meta: *stored, Tags: tagsOf(fields),
		Cost: at.Received.Mono - at.Sent.Mono, Makeshift: x.Makeshift}
	if f.fill.Head(&h) != nil {
		return rules.NotKept
	}
	f.fill.Feeder(x.Waker())
	switch {
	case f.fill.Passes():
		w.count(&w.notStored[rules.NotKept])
		f.second.unlock()
		if f.stale != nil {
			p.o.Memory.Remove(f.stale.Key()) // it is not what the origin answers any more
		}
		return rules.MayStore
	case !x.Makeshift:
		f.second.head(&h)
	}
	w.count(&w.stored)
	return rules.MayStore
}

// makeshiftFor is for how many nanoseconds a makeshift response (Exchange.Makeshift) is fresh at
// most. It is soon fetched again, when the loop may have time to compress it; uncompressed, it
// takes more network capacity for every client.
const makeshiftFor = 10e9

// mergeVary is the union of names and the names by which the stored responses vary.
func (f *fetch) mergeVary(names []byte) ([]byte, bool) {
	e := f.p.o.Memory.Peek(f.primary)
	if e == nil {
		return names, true
	}
	defer e.Release()
	if e.Vary() == nil {
		return names, true
	}
	return rules.MergeVary(nil, e.Vary(), names)
}

// variant is the key of the response to the fetch's request if responses vary by names. It uses the
// request as this policy saw it, as look-ups do, because later policies may have changed the
// exchange's request. Any goroutine may call it.
func (f *fetch) variant(names []byte) []byte {
	return f.p.o.Rules.Key.AppendVariant(bytes.Clone(f.primary), names, &f.request)
}

// tagsOf are the words of Surrogate-Key.
func tagsOf(fields *head.List) (tags [][]byte) {
	for i := range fields.Len() {
		if f := fields.At(i); head.EqualFold(f.Name, surrogateKey) {
			tags = append(tags, bytes.Fields(f.Value)...)
		}
	}
	return tags
}

var surrogateKey = []byte("Surrogate-Key")

// private passes the response to the request that began the fetch, and makes the others fetch on
// their own.
func (f *fetch) private(x *exchange.Exchange, why rules.Reason) {
	w := f.part
	w.count(&w.notStored[why])
	if why != rules.TooEarly { // which says nothing about the resource
		f.p.state.lately.refuse(f.fill.Key(), x.Now())
		if f.stale != nil && !rules.Failing(x.Response.Status) && !why.Personal() {
			f.p.o.Memory.Remove(f.stale.Key()) // it is not what the origin answers any more
		}
	}
	f.takeLone(x, why)
	f.second.unlock()
	f.fill.Refuse()
}

// giveUp ends the fill. The body, if there is one, is read and ignored.
func (f *fetch) giveUp(why failure) {
	f.why, f.ignored = why.word(), 0
	f.fill.Fail(f.why)
}

// FetchBody implements exchange.Sink.
func (f *fetch) FetchBody(content []byte) (full bool, err error) {
	switch {
	case f.lone != nil:
		return f.lone.append(content)
	case f.ignored >= 0 || f.why != 0:
		if f.ignored += len(content); f.ignored > maxIgnored {
			return false, errNobody
		}
		return false, nil
	}
	return f.fill.Append(content)
}

// FetchTrailers implements exchange.TrailingSink. Trailers of stored responses are not kept: a
// later request could not get them.
func (f *fetch) FetchTrailers(l *head.List) {
	if f.lone != nil {
		own := ownFields(l)
		f.lone.trailers = &own
	}
}

// FetchStalled implements exchange.Sink: it revokes readers that hold up others. A response for a
// single client holds up no others, and the data plane decides how slow that client may be.
func (f *fetch) FetchStalled() {
	if f.lone == nil {
		f.fill.Overtake()
	}
}

// FetchEnd implements exchange.Sink.
func (f *fetch) FetchEnd(x *exchange.Exchange, whole bool) {
	if f.why == 0 && !whole && !f.second.answered() {
		status := x.Response.Status
		if f.begun { // the status is that of the response, which is incomplete
			status = 502
		}
		f.why = failure{status: status, reason: x.Reason}.word()
		f.part.count(&f.part.failed)
	}
	f.end(whole)
}

// end ends the fill, if it has not ended, and releases everything.
func (f *fetch) end(whole bool) {
	if f.over {
		return
	}
	f.over = true
	if f.lone != nil {
		f.lone.end(whole)
	}
	stored := f.second.entry()
	if !whole || f.fill.Finish() != nil {
		f.fill.Fail(f.why)
		whole = false
	}
	f.second.end(stored, whole)
	if f.stale != nil {
		if f.refresh {
			f.stale.RefreshOver()
		}
		f.stale.Release()
		f.stale = nil
	}
}
