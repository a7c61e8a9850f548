// Package limit bounds how many requests a route accepts in a given time: from one client, from one
// tenant, or from all together. A request over a limit gets a 429 with Retry-After, or waits for
// its turn. The policy runs after access, request_id, trace and cors. So a refusal has an id and
// CORS fields, and a preflight, which no service sees, is not counted.
//
// Every decision is exact over all loops, without a lock: the state of a value is one word, and a
// request passes by changing it with a compare-and-swap. The package's parts, from the inside out:
//
//   - word.go, params.go, step.go, ring.go: the algorithms, pure functions of a word and a time;
//   - table.go, reserve.go: which word belongs to a value, in bounded memory;
//   - limiter.go: a limit's state, which reloads carry over;
//   - limit.go, fields.go, stats.go, status.go: the policy, which asks several limits at once;
//   - ledger.go: in a simulation, checks the limits' decisions;
//   - sharing.go, lease.go, decision.go: limits that several instances share through Redis, with
//     package shared.
//
// A client that exceeds its limit counts as the client's fault. Its refusals do not indicate
// overload and say nothing about the service.
//
// A route without shared limits does not run the last part's code.
package limit

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/hash"
	"plimsoll/internal/invariant"
)

// RateLimited is the reason of refusals.
var RateLimited = exchange.DeclareReason(exchange.ReasonInfo{
	Label: "rate_limited", Fault: exchange.ClientFault,
	Text: "too many requests; Retry-After says when to come again", GRPC: grpc.ResourceExhausted,
})

// Policy applies the limits of a route.
type Policy struct {
	limits []*limit // in the order of add
	shares bool     // one of them is shared
}

// limit is one limit of a route.
type limit struct {
	*setting
	*limiter
	position int     // in the options
	ledger   *ledger // with invariant.Sequential
}

var (
	_ exchange.RequestPolicy  = (*Policy)(nil)
	_ exchange.ResponsePolicy = (*Policy)(nil)
	_ exchange.Heir           = (*Policy)(nil)
	_ exchange.Closer         = (*Policy)(nil)
	_ exchange.Metered        = (*Policy)(nil)
	_ exchange.Shown          = (*Policy)(nil)
)

// New checks the limits and makes their state.
func New(o Options) (*Policy, error) {
	if len(o.Limits) == 0 || len(o.Limits) > MaxLimits {
		return nil, fmt.Errorf("%d limits; give 1 to %d", len(o.Limits), MaxLimits)
	}
	p, names := &Policy{}, map[string]bool{}
	random := o.Env.Random
	if random == nil {
		random = rand.Uint64
	}
	for i, asked := range o.Limits {
		if err := CheckName(asked.Name); err != nil {
			return nil, fmt.Errorf("name: %w", err)
		}
		if names[asked.Name] {
			return nil, fmt.Errorf("two limits are named %q; rename one", asked.Name)
		}
		names[asked.Name] = true
		s, err := asked.check()
		if err == nil {
			err = s.share(o.Route)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", asked.Name, err)
		}
		l := &limiter{secret: hash.NewSecret(random), now: o.Env.Now}
		l.stats = make([]loopStats, max(1, o.Env.Loops))
		if l.now == nil {
			began := time.Now()
			l.now = func() int64 { return int64(time.Since(began)) + 1 }
		}
		keyed := s.Key != ""
		if s.Shared != nil {
			p.shares = true
			keyed = keyed && s.Shared.Otherwise == ByShare
			if s.Shared.Leased {
				l.leases = newLeases(s.Values)
			}
		}
		l.store.Store(newStore(s.here, keyed, s.Values))
		l.override(s.hereOverrides)
		p.add(&limit{setting: s, limiter: l, position: i, ledger: new(ledger)})
	}
	for _, l := range p.limits {
		if l.Shared != nil {
			l.Shared.Store.Retain()
		}
	}
	return p, nil
}

// add keeps the limits in the order in which a request takes from them. Leaky buckets and logs come
// last: what they granted can be given back only in part after another request passed.
func (p *Policy) add(l *limit) {
	rank := map[Algorithm]int{SlidingLog: 1, LeakyBucket: 2}
	at := len(p.limits)
	for at > 0 && rank[p.limits[at-1].Algorithm] > rank[l.Algorithm] {
		at--
	}
	p.limits = append(p.limits[:at], append([]*limit{l}, p.limits[at:]...)...)
}

// spot is a limit's part in one decision.
type spot struct {
	place
	outcome
	value   []byte
	skipped bool    // the request lacks the key, which SkipMissing allows
	spilled bool    // the value shares its place with others
	aside   bool    // Redis is asked in the background; the limit only counts
	remote  *remote // of a shared limit
}

// OnRequest counts the request, refuses it, or lets it wait.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	if p.shares {
		return p.decideShared(x)
	}
	if len(p.limits) == 1 {
		var one [1]spot
		return p.decide(x, one[:])
	}
	var all [MaxLimits]spot
	return p.decide(x, all[:len(p.limits)])
}

// decide checks all limits before any of them counts, so a refused request costs nothing with the
// other limits. Something must be given back only if another loop took from a limit in between.
func (p *Policy) decide(x *exchange.Exchange, spots []spot) exchange.PolicyVerdict {
	now := x.Now()
	refused := false
	for i, l := range p.limits {
		s := &spots[i]
		s.value = l.find(x)
		if s.skipped = l.SkipMissing && len(s.value) == 0; s.skipped {
			s.pass = true
			continue
		}
		s.place.cost = l.price(x)
		if len(spots) == 1 {
			break
		}
		for s.gone = true; s.gone; {
			l.locate(s, now)
			s.outcome = s.look(now)
		}
		s.refresh(&s.outcome)
		refused = refused || !s.pass && !l.DryRun
	}
	if refused || !p.takeAll(spots, now) {
		return p.refuse(x, spots, now)
	}
	return p.pass(x, spots, now)
}

func (l *limit) locate(s *spot, now int64) {
	s.spilled = l.store.Load().locate(&s.place, l.secret, s.value, now)
}

// takeAll counts the request with every limit, or with none. It reports whether the request passes.
func (p *Policy) takeAll(spots []spot, now int64) bool {
	for i, l := range p.limits {
		s := &spots[i]
		if s.skipped || s.elsewhere() {
			continue
		}
		if s.state != nil {
			s.outcome = s.take(now)
		} else {
			s.gone = true
		}
		for s.gone {
			l.locate(s, now)
			s.outcome = s.take(now)
		}
		if s.pass || l.DryRun {
			continue
		}
		// Another loop has taken from this limit since all limits were checked.
		for j := range i {
			if earlier := &spots[j]; earlier.pass && !earlier.skipped && !earlier.elsewhere() {
				earlier.giveBack(&earlier.outcome, max(now, l.now()))
			}
		}
		return false
	}
	return true
}

// pass lets the request go on, at once or when its turn comes.
func (p *Policy) pass(x *exchange.Exchange, spots []spot, now int64) exchange.PolicyVerdict {
	wait := int64(0)
	for i, l := range p.limits {
		s := &spots[i]
		if s.skipped || s.aside {
			continue
		}
		if invariant.Sequential {
			l.ledger.note(s, now)
		}
		stats := &l.stats[x.Loop()]
		stats.note(s)
		if !s.pass {
			stats.wouldRefuse.add()
			stats.top.note(s.value)
			continue
		}
		stats.allowed.add()
		if s.wait > 0 {
			stats.queued.add()
		}
		if !l.DryRun {
			wait = max(wait, s.wait)
		}
	}
	p.prepareFields(x, spots, now, Always)
	if wait > 0 {
		return x.PauseUntil(now+wait, goOn)
	}
	return exchange.Continue
}

func goOn(*exchange.Exchange) exchange.PolicyVerdict { return exchange.Continue }

// refuse answers with a 429. Retry-After is the longest wait of the limits that refuse.
func (p *Policy) refuse(x *exchange.Exchange, spots []spot, now int64) exchange.PolicyVerdict {
	wait := int64(0)
	for i, l := range p.limits {
		s := &spots[i]
		if s.aside || !s.decided() {
			continue
		}
		if invariant.Sequential && !s.pass {
			l.ledger.note(s, now)
		}
		stats := &l.stats[x.Loop()]
		stats.note(s)
		switch {
		case s.pass:
			continue
		case l.DryRun:
			stats.wouldRefuse.add()
		default:
			stats.refused.add()
			wait = max(wait, s.wait)
		}
		stats.top.note(s.value)
	}
	p.prepareFields(x, spots, now, OnRefused)
	verdict := x.Refuse(http.StatusTooManyRequests, RateLimited)
	x.RetryAfter(int(max(1, ceil(wait, int64(time.Second)))))
	return verdict
}

// Inherit takes over the state of limits with the same name, key and algorithm. If the
// configuration changed their numbers, the new ones become active.
func (p *Policy) Inherit(old any) {
	for _, l := range p.limits {
		for _, o := range old.(*Policy).limits {
			if l.sameState(o) {
				l.inherit(o)
			}
		}
	}
}

func (l *limit) sameState(o *limit) bool {
	return l.Name == o.Name && l.Key == o.Key && l.Algorithm == o.Algorithm && l.Values == o.Values &&
		l.Prefix4 == o.Prefix4 && l.Prefix6 == o.Prefix6 && l.Shared.sameState(o.Shared)
}

func (l *limit) inherit(o *limit) {
	l.limiter, l.ledger = o.limiter, o.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.here.same(o.here) {
		l.change(l.here)
		l.set = false
	}
	if !maps.EqualFunc(l.hereOverrides, o.hereOverrides, (*params).same) {
		l.override(l.hereOverrides)
		l.overridden = nil
	}
}

// Has reports whether there is a limit with this name.
func (p *Policy) Has(name string) bool {
	return slices.ContainsFunc(p.limits, func(l *limit) bool { return l.Name == name })
}

// SetLimit changes the rate and the burst of a limit at run time; a burst of 0 keeps the burst. The
// change lasts until the limit's numbers change in the configuration. It does not affect overrides.
// Any goroutine may call it.
func (p *Policy) SetLimit(name string, rate Rate, burst int64) error {
	l, err := p.changeable(name, burst)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if burst == 0 {
		burst = l.store.Load().rules.Load().burst
	}
	next, err := newParams(l.numbers(rate, burst))
	if err != nil {
		return fmt.Errorf("limit %s: %w", name, err)
	}
	if l.Algorithm == SlidingLog && next.quota*8*int64(l.Values) > maxLogSize {
		return fmt.Errorf("limit %s: %d logs of %d requests take more than %d MB; ask for less",
			name, l.Values, next.quota, maxLogSize>>20)
	}
	l.change(next)
	l.set = !next.same(l.params)
	return nil
}

// SetOverride gives one value of a limit's key its own numbers at run time. A burst of 0 means the
// limit's burst in proportion to the rates, as in the configuration. The override lasts until the
// limit's overrides change in the configuration. Any goroutine may call it.
func (p *Policy) SetOverride(name, value string, rate Rate, burst int64) error {
	l, err := p.changeable(name, burst)
	if err != nil {
		return err
	}
	if l.Key == "" {
		return fmt.Errorf("limit %s has no key whose values could have numbers of their own", name)
	}
	counted, err := l.value(value)
	if err != nil {
		return fmt.Errorf("limit %s: %w", name, err)
	}
	if burst == 0 && l.Algorithm.bucket() {
		burst = l.overrideBurst(rate)
	}
	next, err := newParams(l.numbers(rate, burst))
	if err != nil {
		return fmt.Errorf("limit %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := make(map[string]*params, len(l.current)+1)
	maps.Copy(of, l.current)
	if of[counted] = next; len(of) > MaxOverrides {
		return fmt.Errorf("limit %s has %d overrides, which are the most; change one of them",
			name, MaxOverrides)
	}
	if err := l.checkLogs(of); err != nil {
		return fmt.Errorf("limit %s: %w", name, err)
	}
	l.override(of)
	if l.overridden == nil {
		l.overridden = map[string]bool{}
	}
	l.overridden[counted] = true
	return nil
}

// changeable returns a limit whose numbers can be changed at run time.
func (p *Policy) changeable(name string, burst int64) (*limit, error) {
	for _, l := range p.limits {
		switch {
		case l.Name != name:
		case l.Shared != nil:
			return nil, fmt.Errorf("limit %s is shared with other instances; change it in the "+
				"configuration of all",
				name)
		case burst != 0 && !l.Algorithm.bucket():
			return nil, fmt.Errorf("limit %s: a burst has no meaning with %s; leave it out",
				name, l.Algorithm)
		default:
			return l, nil
		}
	}
	return nil, errors.New("no limit of this route is named " + name + "; the route's status lists them")
}
