package limit

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/policy/limit/shared"
)

// Unavailable is the reason of refusals while Redis does not answer. They are not the client's
// fault.
var Unavailable = exchange.DeclareReason(exchange.ReasonInfo{
	Label: "limit_unavailable", Fault: exchange.ProtectionFault,
	Text: "the store of the rate limits does not answer", GRPC: grpc.Unavailable,
})

// Shared makes a limit count with other instances, in Redis.
type Shared struct {
	Store *shared.Store
	// Leased takes batches from Redis and decides locally, at the price of an overshoot. If false,
	// each decision is a call.
	Leased bool
	Batch  int64 // largest lease in requests; 0 for a tenth of the limit
	// Otherwise says what happens to a request for which Redis has not answered.
	Otherwise Otherwise
	Instances int64 // number of instances including this one, for ByShare; 0 for 1
}

// Otherwise says what decides when Redis does not answer.
type Otherwise uint8

// The choices.
const (
	ByShare Otherwise = iota // the instance's own limit: its part of the whole
	Allow
	Deny // with a 503
)

// sharing is a shared limit's part of its setting.
type sharing struct {
	rule      *shared.Rule
	overrides map[string]*shared.Rule
	scope     string // separates its keys from those of other limits
	batch     int64  // 0 if nothing is leased
}

// share makes the setting of a route's shared limit.
func (s *setting) share(route string) error {
	o := s.Shared
	switch {
	case o == nil:
		s.here, s.hereOverrides = s.params, s.overrides
		return nil
	case s.Algorithm == LeakyBucket || s.Algorithm == SlidingLog:
		return fmt.Errorf("%s cannot be shared; use token_bucket, gcra, fixed_window or sliding_window",
			s.Algorithm)
	case o.Store == nil:
		return errors.New("a shared limit needs a Redis; name one")
	case o.Batch != 0 && !o.Leased:
		return fmt.Errorf("a batch of %d, and only leased limits take batches; leave it out", o.Batch)
	case o.Instances > 1 && o.Otherwise != ByShare:
		return fmt.Errorf("%d instances, and only with the choice local does the number count; leave it out",
			o.Instances)
	case o.Instances < 0:
		return fmt.Errorf("%d instances; give at least 1", o.Instances)
	}
	s.sharing = &sharing{rule: s.params.rule(), overrides: make(map[string]*shared.Rule, len(s.overrides))}
	for value, p := range s.overrides {
		s.sharing.overrides[value] = p.rule()
	}
	s.scope = strings.Join([]string{
		route, s.Name, s.Algorithm.String(), s.Key, fmt.Sprint(s.Prefix4, s.Prefix6),
	}, "\x00")
	if err := s.makeBatch(); err != nil {
		return err
	}
	return s.makeHere(max(1, o.Instances))
}

// makeBatch determines the size of a lease.
func (s *setting) makeBatch() error {
	if !s.Shared.Leased {
		return nil
	}
	whole := s.Rate.Count
	if s.Algorithm.bucket() {
		whole = s.Burst
	}
	whole /= s.Cost
	s.batch = s.Shared.Batch
	if s.batch == 0 {
		s.batch = min(max(1, whole/10), maxBatch)
	}
	if most := min(whole, maxBatch); s.batch < 1 || s.batch > most {
		return fmt.Errorf("a batch of %d of a limit that lets %d requests pass at once; give 1 to %d",
			s.batch, whole, most)
	}
	return nil
}

// makeHere makes the numbers that this instance uses when it counts alone.
func (s *setting) makeHere(instances int64) (err error) {
	if s.here, err = s.params.part(instances); err != nil {
		return fmt.Errorf("the part of one of %d instances: %w", instances, err)
	}
	s.hereOverrides = make(map[string]*params, len(s.overrides))
	for value, p := range s.overrides {
		if s.hereOverrides[value], err = p.part(instances); err != nil {
			return fmt.Errorf("overrides: the part of one of %d instances: %w", instances, err)
		}
	}
	return nil
}

// part is an instance's part of a limit. It is always enough for one request.
func (p *params) part(instances int64) (*params, error) {
	n := numbers{algorithm: p.algorithm, rate: p.rate, burst: p.burst, cost: p.cost}
	if p.algorithm.bucket() {
		n.rate.Per = min(n.rate.Per*time.Duration(instances), maxPeriod)
		n.burst = max(p.cost, p.burst/instances)
	} else {
		n.rate.Count = max(p.cost, p.rate.Count/instances)
	}
	return newParams(n)
}

// rule converts a limit's numbers to a rule for Redis.
func (p *params) rule() *shared.Rule {
	var r shared.Rule
	switch p.algorithm {
	case FixedWindow:
		r = shared.FixedWindow(p.rate.Count, p.rate.Per, p.cost)
	case SlidingWindow:
		r = shared.SlidingWindow(p.rate.Count, p.rate.Per, p.cost)
	default:
		r = shared.Bucket(p.token, p.burst, p.cost)
	}
	return &r
}

// of returns the numbers and the rule for a value.
func (l *limit) of(value []byte) (*params, *shared.Rule) {
	if p := l.overrides[string(value)]; p != nil {
		return p, l.sharing.overrides[string(value)]
	}
	return l.params, l.rule
}

// Close releases the stores.
func (p *Policy) Close() {
	for _, l := range p.limits {
		if l.Shared != nil {
			l.Shared.Store.Release()
		}
	}
}

// sameState reports whether this instance's counts mean the same under both.
func (o *Shared) sameState(as *Shared) bool {
	if o == nil || as == nil {
		return o == as
	}
	return o.Leased == as.Leased && o.Otherwise == as.Otherwise && o.Store.Name() == as.Store.Name()
}
