package cache

import (
	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
)

// OnResponse acts on responses to requests that passed: one to an unsafe method outdates what is
// stored, and all say why they were not answered here.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if x.CacheNote&notePassed == 0 || x.Reason != exchange.NoReason {
		return exchange.Continue // answered here, or refused before, or no upstream's
	}
	var r rules.Request
	r.Read(x.Request)
	if rules.Invalidates(&r, x.Response.Status) {
		p.invalidate(x)
	}
	p.addStatus(x, &rules.Report{Why: rules.Reason(x.CacheNote & noteWhy), Collapsed: false})
	return exchange.Continue
}

// invalidate forgets what is stored for the request's URI, and for those that the response names.
func (p *Policy) invalidate(x *exchange.Exchange) {
	w, k := p.part(x), &p.o.Rules.Key
	w.count(&w.invalidated)
	came := x.Request.Scheme
	x.Request.Scheme = scheme(x)
	defer func() { x.Request.Scheme = came }()
	w.key = k.AppendURI(w.key[:0], "", x.Request, x.Request.Path)
	p.o.Memory.Outdate(w.key)
	for _, other := range rules.Locations(x.Request, &x.Response.Fields) {
		path := p.o.Canonical(other.Path)
		if path == nil {
			continue
		}
		named := *x.Request
		named.Query = nil
		if other.HasQuery {
			named.Query = []byte(other.Query)
		}
		w.key = k.AppendURI(w.key[:0], "", &named, path)
		p.o.Memory.Outdate(w.key)
	}
}
