package cache

import (
	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/exchange"
)

// Standing in is degraded service: a stored response is sent because the live answer is not
// available. The exchange's class must allow it (Options.Barred), and for a stale response the
// rules must allow it as well: stale-if-error, stale-while-revalidate, or the pressure under which
// a request was shed. A stored response that is served while nothing fails is ordinary caching, for
// all classes.

// stepOf is the step of the ladder that an entry counts as at a time.
func stepOf(e *store.Entry, mono int64) exchange.Step {
	if e.Soft() || e.Meta.TTL(mono) <= 0 {
		return exchange.StepStale
	}
	return exchange.StepCache
}

// mayStand reports whether the exchange's class allows the entry's step now; false for a nil entry.
func (p *Policy) mayStand(x *exchange.Exchange, e *store.Entry) bool {
	return e != nil && p.o.Barred.Allows(stepOf(e, x.Now()), x.Class)
}

// StandIn implements exchange.StandIn. It begins no fetch: the request was refused because of
// overload, or because the fetch would fail.
func (p *Policy) StandIn(x *exchange.Exchange) bool {
	var a asked
	a.Read(x.Request)
	if !a.Cacheable() || wantsEvents(x) {
		return false
	}
	w := p.part(x)
	p.find(x, w, &a, (*store.Store).Lookup)
	if a.found == nil {
		return false
	}
	c := rules.Circumstances{Now: w.instant(x), Purged: a.found.Soft(),
		Pressure: x.Reason.Fault() == exchange.ProtectionFault}
	d := p.decide(&a, &c)
	if d.Action == rules.Revalidate && d.StaleIfError {
		d.Action, d.Why = rules.Serve, rules.Failed
	}
	serves := d.Action == rules.Serve || d.Action == rules.ServeAndRefresh
	if !serves || !p.mayStand(x, a.found) {
		a.release()
		return false
	}
	if d.Why == rules.NoReason {
		w.count(&w.fresh)
	} else {
		w.count(&w.stale[d.Why])
	}
	step := stepOf(a.found, c.Now.Mono)
	report := rules.Report{Hit: true, Why: d.Why, TTL: d.TTL, HasTTL: true}
	p.serve(x, w, &a.Request, a.found, &report, c.Now)
	x.Step = step
	return true
}
