package limit

import (
	"net/http"
	"sync/atomic"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/limit/shared"
	"plimsoll/internal/redis"
)

// decision decides for a route with shared limits, from the request until the last answer of Redis
// or until the wait for Redis ends:
//
//  1. It checks this instance's own limits without counting. A refusal ends the decision.
//  2. It takes from leases. A refusal ends the decision.
//  3. It asks Redis for all remaining limits at once, while the exchange is held.
//  4. It counts the request with this instance's own limits.
//
// If a later limit refuses, what was counted is given back. Until that reaches Redis, other
// requests may be refused that should pass. No request passes that should be refused.
type decision struct {
	p     *Policy
	spots []spot
	left  atomic.Int32 // answers still to come, plus one for the loop while it asks
	hold  exchange.Hold
}

// remote is the state of one shared limit in a decision.
type remote struct {
	limit  *limit
	params *params
	rule   *shared.Rule
	key    string
	value  []byte // a copy: the answer may come after the exchange ended

	asks  bool // Redis is asked
	batch bool // for a lease
	at    lease
	word  uint64
	place place
	call  *redis.Call

	answer shared.Answer
	err    error
	ready  atomic.Bool // answer and err are written

	by source
}

// source is what decided for a shared limit.
type source uint8

const (
	nobody  source = iota
	byLease        // requests taken from Redis earlier
	byRedis
	byRule // Redis has not answered: allow or deny
	byHere // Redis has not answered: this instance's own count
)

// decided reports whether the limit has decided about the request.
func (s *spot) decided() bool {
	return !s.skipped && (s.state != nil || s.remote != nil && s.remote.by != nobody)
}

// elsewhere reports whether the limit counts outside this instance's store.
func (s *spot) elsewhere() bool { return s.remote != nil && s.remote.by != byHere }

// decideShared decides for a route that has shared limits.
func (p *Policy) decideShared(x *exchange.Exchange) exchange.PolicyVerdict {
	d := &decision{p: p, spots: make([]spot, len(p.limits))}
	now := x.Now()
	if !d.look(x, now) || !d.lease(now) {
		d.undo(now)
		return p.refuse(x, d.spots, now)
	}
	patience := time.Duration(0)
	for i := range d.spots {
		if r := d.spots[i].remote; r != nil && r.asks {
			r.value = append([]byte(nil), d.spots[i].value...)
			if !r.limit.DryRun {
				patience = max(patience, r.limit.Shared.Store.Timeout())
				d.left.Add(1)
			}
		}
	}
	if patience > 0 {
		d.hold = x.HoldThen(now+int64(patience), d.finish)
	}
	d.left.Add(1)
	for i := range d.spots {
		if r := d.spots[i].remote; r != nil && r.asks {
			d.ask(r, &d.spots[i], x.Loop())
		}
	}
	if d.left.Add(-1) == 0 {
		return d.finish(x)
	}
	return exchange.Held
}

// look checks this instance's own limits and collects what the shared ones need.
func (d *decision) look(x *exchange.Exchange, now int64) bool {
	passes := true
	for i, l := range d.p.limits {
		s := &d.spots[i]
		s.value = l.find(x)
		if s.skipped = l.SkipMissing && len(s.value) == 0; s.skipped {
			s.pass = true
			continue
		}
		if l.Shared != nil {
			s.remote = &remote{limit: l}
			s.remote.params, s.remote.rule = l.of(s.value)
			s.outcome.params = s.remote.params
			continue
		}
		s.place.cost = l.price(x)
		for s.gone = true; s.gone; {
			l.locate(s, now)
			s.outcome = s.look(now)
		}
		s.refresh(&s.outcome)
		passes = passes && (s.pass || l.DryRun)
	}
	return passes
}

// lease takes from the leases. It stops at the first refusal.
func (d *decision) lease(now int64) bool {
	for i := range d.spots {
		s := &d.spots[i]
		r := s.remote
		if r == nil {
			continue
		}
		if r.limit.batch == 0 {
			r.asks = true
			continue
		}
		h, g := r.limit.secret.Sum(s.value)
		asked := now + int64(r.limit.Shared.Store.Timeout())
		verdict, at, word := r.limit.leases.take(&r.place, h, g, s.value, now, asked, r.limit.batch)
		switch verdict {
		case leasePasses:
			r.by, s.pass = byLease, true
		case leaseRefills:
			r.by, s.pass = byLease, true
			r.refill(s.value, at.most(r.limit.batch)-at.count)
		case leaseRefuses:
			r.by, s.wait = byLease, at.until-now
			if !r.limit.DryRun {
				return false
			}
		case leaseAsks:
			r.asks, r.batch, r.at, r.word = true, true, at, word
		case leaseAlone:
			r.asks = true
		}
	}
	return true
}

// undo returns what was taken outside this instance's stores.
func (d *decision) undo(now int64) {
	for i := range d.spots {
		s := &d.spots[i]
		r := s.remote
		switch {
		case r == nil:
		case r.by == byLease && s.pass:
			r.place.giveBackLease(now, r.limit.batch)
		case r.by == byRedis && s.pass:
			r.limit.Shared.Store.GiveBack(r.rule, r.key, 1, r.answer)
		case r.batch && r.call == nil: // no request will be sent for it
			r.at.kind, r.at.until = leaseStock, now
			r.place.state.CompareAndSwap(r.word, r.at.pack())
		}
	}
}

// ask calls Redis. If the limit only counts, the call runs in the background and the exchange does
// not wait.
func (d *decision) ask(r *remote, s *spot, loop int) {
	l, n := r.limit, int64(1)
	if r.batch {
		n = r.at.most(l.batch)
	}
	r.key = l.Shared.Store.Key(l.scope, r.value)
	s.aside = l.DryRun
	call, err := l.Shared.Store.Take(r.rule, r.key, n, func(a shared.Answer, err error) {
		r.answer, r.err = a, err
		r.fill()
		if l.DryRun {
			r.count(loop)
			return
		}
		r.ready.Store(true)
		if d.left.Add(-1) == 0 {
			d.hold.Resume(d.finish)
		}
	})
	r.call = call
	if err == nil {
		return
	}
	r.err = err
	r.fill()
	if l.DryRun {
		r.count(loop)
		return
	}
	r.ready.Store(true)
	d.left.Add(-1)
}

// fill adds the requests granted to a batch to the lease. They are lost if the lease has a new
// owner, or another request has asked since.
func (r *remote) fill() {
	if !r.batch {
		return
	}
	now := r.limit.now()
	if r.err != nil {
		r.at.kind, r.at.until, r.at.count = leaseStock, now, 0
	} else {
		r.at = r.at.answered(r.answer.Granted, int64(r.answer.Wait), now)
	}
	r.place.state.CompareAndSwap(r.word, r.at.pack())
}

// refill asks Redis for the given number of requests, in the background.
func (r *remote) refill(value []byte, n int64) {
	l, p := r.limit, r.place
	_, err := l.Shared.Store.Take(r.rule, l.Shared.Store.Key(l.scope, value), n,
		func(a shared.Answer, err error) {
			p.refillLease(a.Granted, err, l.now(), l.batch)
		})
	if err != nil {
		p.refillLease(0, err, l.now(), l.batch)
	}
}

// count records the answer for a limit that only counts.
func (r *remote) count(loop int) {
	l := r.limit
	switch {
	case r.err != nil:
		l.aside.unavailable.Add(1)
	case r.answer.Granted > 0:
		l.aside.allowed.Add(1)
	default:
		l.aside.wouldRefuse.Add(1)
		l.stats[loop].top.note(r.value)
	}
}

// finish decides after all answers have arrived or the wait for them has ended.
func (d *decision) finish(x *exchange.Exchange) exchange.PolicyVerdict {
	now, refused := x.Now(), false
	var denied *shared.Store
	for i := range d.spots {
		s := &d.spots[i]
		r := s.remote
		if r == nil || !r.asks || s.aside {
			refused = refused || r != nil && r.by == byLease && !s.pass && !r.limit.DryRun
			continue
		}
		if d.settle(s, x.Loop()) {
			denied = r.limit.Shared.Store
		}
		refused = refused || r.by == byRedis && !s.pass
	}
	switch {
	case refused:
	case denied != nil:
		d.undo(now)
		verdict := x.Refuse(http.StatusServiceUnavailable, Unavailable)
		x.RetryAfter(int(max(1, ceil(int64(denied.RetryAfter()), int64(time.Second)))))
		return verdict
	case d.p.takeAll(d.spots, now):
		return d.p.pass(x, d.spots, now)
	}
	d.undo(now)
	return d.p.refuse(x, d.spots, now)
}

// settle records the decision of a limit for which Redis was asked. It reports whether the request
// is denied because Redis has not answered.
func (d *decision) settle(s *spot, loop int) (denied bool) {
	r := s.remote
	if r.ready.Load() && r.err == nil {
		r.by, s.pass = byRedis, r.answer.Granted > 0
		if !s.pass {
			s.wait = int64(r.answer.Wait)
		}
		return false
	}
	if r.call != nil {
		r.call.Late()
	}
	r.limit.stats[loop].unavailable.add()
	switch r.limit.Shared.Otherwise {
	case Allow:
		r.by, s.pass = byRule, true
	case Deny:
		r.by = byRule
		return true
	default:
		r.by = byHere
	}
	return false
}
