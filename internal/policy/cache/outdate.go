package cache

import (
	"sync/atomic"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
)

// Outdating is what unsafe requests outdate: it is one for all routes of a configuration, since a POST on
// one route changes what another one has stored.
type Outdating struct {
	Memory *Memory
	// Caches says whether a route stores responses for a host and a path, which is canonical. Requests
	// for all others cost no purge, which would be one of Redis, too.
	Caches func(host, path []byte) bool
	// Keys are of all the routes that store, one for each form in which a query is part of what a response
	// is stored under.
	Keys []rules.Key
	// Canonical is the path that is matched for one that a response names, nil for none.
	Canonical func(path string) []byte
}

// Outdater is what a route without a cache has where others have one: its unsafe requests outdate what
// these have stored (RFC 9111, section 4.4).
type Outdater struct {
	o     *Outdating
	parts []outdaterPart
}

// outdaterPart is what a loop has for itself.
type outdaterPart struct {
	key         []byte // where keys are put together; used within a call
	invalidated atomic.Uint64
	_           [64]byte
}

var _ interface {
	exchange.ResponsePolicy
	exchange.Heir
	exchange.Metered
} = (*Outdater)(nil)

// NewOutdater makes one.
func NewOutdater(o *Outdating, loops int) *Outdater {
	return &Outdater{o, make([]outdaterPart, max(1, loops))}
}

// Inherit takes over what was counted.
func (p *Outdater) Inherit(old any) {
	if q, ok := old.(*Outdater); ok && len(q.parts) == len(p.parts) {
		p.parts = q.parts
	}
}

// OnResponse outdates what the request has changed.
func (p *Outdater) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	r := rules.Request{Head: x.Request} // its method is enough
	if x.Reason != exchange.NoReason || !rules.Invalidates(&r, x.Response.Status) {
		return exchange.Continue
	}
	w := &p.parts[x.Loop()]
	var any bool
	if w.key, any = p.o.outdate(w.key, x); any {
		w.invalidated.Store(w.invalidated.Load() + 1)
	}
	return exchange.Continue
}

// Metrics implements exchange.Metered, by the cache's Series.
func (p *Outdater) Metrics(emit func(series int, value float64, labels ...string)) {
	n := uint64(0)
	for i := range p.parts {
		n += p.parts[i].invalidated.Load()
	}
	emit(seriesInvalidated, float64(n))
}

// OnResponse acts on responses to requests that passed: one to an unsafe method outdates what is
// stored, one to HEAD may, and all say why they were not answered here.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if x.CacheNote&notePassed == 0 || x.Reason != exchange.NoReason {
		return exchange.Continue // answered here, or refused before, or no upstream's
	}
	r := rules.Request{Head: x.Request} // its method is enough
	switch {
	case x.CacheKey != nil:
		p.headOutdates(x)
	case rules.Invalidates(&r, x.Response.Status):
		w := p.part(x)
		var any bool
		if w.key, any = p.o.Outdating.outdate(w.key, x); any {
			w.count(&w.invalidated)
		}
	}
	p.addStatus(x, &rules.Report{Why: rules.Reason(x.CacheNote & noteWhy), Collapsed: false})
	return exchange.Continue
}

// outdate forgets what is stored for the request's URI, and for those that the response names. It puts keys
// together in buf, and gives that back; any says whether a route stores one of them.
func (o *Outdating) outdate(buf []byte, x *exchange.Exchange) (_ []byte, any bool) {
	h := *x.Request
	h.Scheme = scheme(x)
	if o.Caches(h.Host, h.Path) {
		any = true
		for i := range o.Keys {
			buf = o.Keys[i].AppendURI(buf[:0], "", &h, h.Path)
			o.Memory.Outdate(buf)
		}
	}
	for _, other := range rules.Locations(&h, &x.Response.Fields) {
		path := o.Canonical(other.Path)
		if path == nil || !o.Caches(h.Host, path) {
			continue
		}
		any = true
		named := h
		named.Query = nil
		if other.HasQuery {
			named.Query = []byte(other.Query)
		}
		for i := range o.Keys {
			buf = o.Keys[i].AppendURI(buf[:0], "", &named, path)
			o.Memory.Outdate(buf)
		}
	}
	return buf, any
}

// noteHead keeps what is stored for a HEAD that passes, so that its response can say whether that is still
// what there is. That of a client with credentials says nothing of what others get.
func (p *Policy) noteHead(x *exchange.Exchange, a *asked) {
	if a.found != nil && string(x.Request.Method) == "HEAD" && !p.o.Rules.Personal(&a.Request) {
		key := a.found.Key()
		x.CacheKey = append(x.Alloc(len(key))[:0], key...)
	}
}

// headOutdates makes what is stored stale where the response to HEAD differs from it (RFC 9111, section
// 4.3.5): the next GET asks whether it is still good.
func (p *Policy) headOutdates(x *exchange.Exchange) {
	e := p.o.Memory.Peek(x.CacheKey)
	if e == nil {
		return
	}
	defer e.Release()
	w := p.part(x)
	if e.Meta.Received <= x.Start && !e.Soft() &&
		rules.HeadOutdates(&e.Meta, e.Block(), x.Response, w.instant(x).Wall) {
		w.count(&w.invalidated)
		e.Outdate()
	}
}
