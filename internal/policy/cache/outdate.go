package cache

import (
	"sync/atomic"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
)

// Outdating determines what unsafe requests invalidate. All routes of a configuration share one,
// because a POST on one route may change what another has stored.
type Outdating struct {
	Memory *Memory
	// Caches reports whether a route stores responses for a host and a canonical path. Requests for
	// others need no purge, which would also go to Redis.
	Caches func(host, path []byte) bool
	// Keys are the keys of all routes that store responses: one for each different way in which the
	// query is part of the key.
	Keys []rules.Key
	// Canonical returns the canonical form, used for matching, of a path named by a response; nil
	// if there is none.
	Canonical func(path string) []byte
}

// Outdater is for a route without a cache if other routes have one: its unsafe requests invalidate
// what these have stored (RFC 9111, section 4.4).
type Outdater struct {
	o     *Outdating
	parts []outdaterPart
}

// outdaterPart is the state of one loop.
type outdaterPart struct {
	key         []byte // buffer for making keys; valid within a call
	invalidated atomic.Uint64
	_           [64]byte
}

var _ interface {
	exchange.ResponsePolicy
	exchange.Heir
	exchange.Metered
} = (*Outdater)(nil)

// NewOutdater makes an Outdater for the given number of loops.
func NewOutdater(o *Outdating, loops int) *Outdater {
	return &Outdater{o, make([]outdaterPart, max(1, loops))}
}

// Inherit takes over what was counted.
func (p *Outdater) Inherit(old any) {
	if q, ok := old.(*Outdater); ok && len(q.parts) == len(p.parts) {
		p.parts = q.parts
	}
}

// OnResponse invalidates what the request has changed.
func (p *Outdater) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	r := rules.Request{Head: x.Request} // only the method is needed
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

// Metrics implements exchange.Metered, with the cache's Series.
func (p *Outdater) Metrics(emit func(series int, value float64, labels ...string)) {
	n := uint64(0)
	for i := range p.parts {
		n += p.parts[i].invalidated.Load()
	}
	emit(seriesInvalidated, float64(n))
}

// OnResponse acts on responses to requests that passed. A response to an unsafe method invalidates
// what is stored, a response to HEAD may do so, and all get a Cache-Status that says why they were
// not answered here.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if x.CacheNote&notePassed == 0 || x.Reason != exchange.NoReason {
		return exchange.Continue // answered here, or refused earlier, or not from an upstream
	}
	r := rules.Request{Head: x.Request} // only the method is needed
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

// outdate removes what is stored for the request's URI, and for the URIs that the response names.
// It makes keys in buf and returns buf. any reports whether a route stores responses for one of
// them.
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

// noteHead records the key of what is stored for a HEAD that passes, so that its response can show
// whether that is still current. The response to a client with credentials says nothing about what
// others get.
func (p *Policy) noteHead(x *exchange.Exchange, a *asked) {
	if a.found != nil && string(x.Request.Method) == "HEAD" && !p.o.Rules.Personal(&a.Request) {
		key := a.found.Key()
		x.CacheKey = append(x.Alloc(len(key))[:0], key...)
	}
}

// headOutdates makes what is stored stale if the response to HEAD differs from it (RFC 9111,
// section 4.3.5). The next GET then revalidates it.
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
