// Package inflight limits how many requests of a route are in flight at once: in total, and for
// each value of a key. A request over the route's limit gets 503, and a request over its value's
// limit gets 429, both at once and with Retry-After. Nothing waits here, because requests that may
// wait do so for a target, by class.
//
// A request is in flight from its place in the chain until its exchange ends, in whatever way:
// while later policies hold it, while it waits for a connection, through all its retries, and as a
// tunnel or an event stream for as long as that lasts. The policy stands behind the rate limits, so
// a request that they refuse or delay takes no place meanwhile.
//
// Both limits are exact over all loops, and no lock is taken: the route's count is one word, and
// that of a value a part of one (table.go), changed by compare-and-swap. A request that one limit
// lets pass and the other refuses takes a place of the first for some nanoseconds. The counts that
// a request holds are noted in the exchange (Exchange.InFlight), because later policies may change
// the field with the key.
//
// It must not know what targets can carry: that is the concurrency limit of an upstream.
package inflight

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/hash"
	"plimsoll/internal/invariant"
)

// The reasons of refusals. If a value exceeds its bound, that is the client's fault.
var (
	RouteFull = exchange.DeclareReason(exchange.ReasonInfo{
		Label: "route_full", Fault: exchange.ProtectionFault,
		Text: "as many requests as this route takes are under way", GRPC: grpc.Unavailable,
	})
	ClientFull = exchange.DeclareReason(exchange.ReasonInfo{
		Label: "client_full", Fault: exchange.ClientFault,
		Text: "too many requests of yours are under way", GRPC: grpc.ResourceExhausted,
	})
)

// The bounds of the options.
const (
	MaxBound      = 1_000_000
	MaxPerValue   = 1<<countBits - 1
	MaxValues     = 1 << 24
	defaultValues = 1 << 16
)

// Options of the policy. At least one of Max and PerValue is given.
type Options struct {
	Max int // requests of the route, 0 for no bound
	// Key is what PerValue counts separately, in the form of exchange.ParseKey. Only the first 64
	// bits of a client's IPv6 address count.
	Key         string
	PerValue    int  // requests of each value of the key
	SkipMissing bool // requests without the key have no bound per value; else they are one value
	Values      int  // values counted separately, 0 for 65536; 4 bytes each
	Env         exchange.Env
}

// KeyKinds are the kinds of keys.
var KeyKinds = []exchange.KeyKind{
	exchange.AddressKey, exchange.HeaderKey, exchange.CookieKey, exchange.PathKey, exchange.QueryKey,
}

// Policy counts the requests of a route.
type Policy struct {
	options Options
	key     exchange.Key
	state   *state
	values  *table // nil without a key
}

// state is what a reload always carries over.
type state struct {
	underWay atomic.Int64
	_        [56]byte // every request writes the word before
	loops    []counts
}

// counts are the counters of one loop, on separate cache lines. Only that loop adds to them.
type counts struct {
	routeFull, clientFull, shared atomic.Uint64
	_                             [104]byte
}

var (
	_ exchange.SheddingPolicy = (*Policy)(nil)
	_ exchange.DonePolicy     = (*Policy)(nil)
	_ exchange.Heir           = (*Policy)(nil)
	_ exchange.Metered        = (*Policy)(nil)
	_ exchange.Shown          = (*Policy)(nil)
)

// New checks the options.
func New(o Options) (*Policy, error) {
	if o.Values == 0 {
		o.Values = defaultValues
	}
	switch {
	case o.Max < 0 || o.Max > MaxBound:
		return nil, fmt.Errorf("max: %d; give 1 to %d, or 0 for no bound", o.Max, MaxBound)
	case o.PerValue < 0 || o.PerValue > MaxPerValue:
		return nil, fmt.Errorf("max_per_value: %d; give 1 to %d", o.PerValue, MaxPerValue)
	case o.Max == 0 && o.PerValue == 0:
		return nil, errors.New("bounds nothing; give max, or key and max_per_value")
	case (o.Key == "") != (o.PerValue == 0):
		return nil, errors.New("key and max_per_value need each other; give both, or neither")
	case o.Max > 0 && o.PerValue > o.Max:
		return nil, fmt.Errorf("max_per_value: %d is over max, which is %d; make it at most that",
			o.PerValue, o.Max)
	case o.Values < 0 || o.Values > MaxValues:
		return nil, fmt.Errorf("values: %d; give 1 to %d", o.Values, MaxValues)
	}
	key, err := exchange.ParseKey(o.Key, KeyKinds...)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	p := &Policy{options: o, key: key, state: &state{loops: make([]counts, max(1, o.Env.Loops))}}
	if o.Key != "" {
		random := o.Env.Random
		if random == nil {
			random = rand.Uint64
		}
		p.values = newTable(o.Values, hash.NewSecret(random))
	}
	return p, nil
}

// Sheds implements exchange.SheddingPolicy: requests refused because of the route's bound may be
// answered from the cache.
func (p *Policy) Sheds() {}

// OnRequest counts the request, or refuses it.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	stats := &p.state.loops[x.Loop()]
	taken := routeCounted
	if p.values != nil {
		value := p.find(x)
		if len(value) > 0 || !p.options.SkipMissing {
			place, sharing, ok := p.values.take(value, uint64(p.options.PerValue))
			if sharing {
				stats.shared.Add(1)
			}
			if !ok {
				stats.clientFull.Add(1)
				return refuse(x, http.StatusTooManyRequests, ClientFull)
			}
			taken |= valueCounted | place
		}
	}
	if !p.enter() {
		p.give(taken &^ routeCounted)
		stats.routeFull.Add(1)
		return refuse(x, http.StatusServiceUnavailable, RouteFull)
	}
	x.InFlight = taken
	return exchange.Continue
}

// find is the value that is counted.
func (p *Policy) find(x *exchange.Exchange) []byte {
	value := p.key.Find(x)
	if p.key.Kind() == exchange.AddressKey && len(value) == 16 && string(value[:12]) != mapped {
		return value[:8] // a client has at least a /64 of IPv6 addresses
	}
	return value
}

// mapped is the prefix of an IPv4 address in 16 bytes.
const mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"

// enter counts a request of the route, if there is room.
func (p *Policy) enter() bool {
	for most := int64(p.options.Max); most > 0; {
		n := p.state.underWay.Load()
		if n >= most {
			return false
		}
		if p.state.underWay.CompareAndSwap(n, n+1) {
			return true
		}
	}
	p.state.underWay.Add(1)
	return true
}

// Bits of Exchange.InFlight, in addition to the value's place.
const (
	routeCounted = uint64(1) << 63
	valueCounted = uint64(1) << 62
)

// OnDone ends the counting of the request.
func (p *Policy) OnDone(x *exchange.Exchange, _ exchange.End) {
	p.give(x.InFlight)
	x.InFlight = 0
}

func (p *Policy) give(taken uint64) {
	if taken&valueCounted != 0 {
		p.values.give(taken &^ (routeCounted | valueCounted))
	}
	if taken&routeCounted == 0 {
		return
	}
	if left := p.state.underWay.Add(-1); invariant.On && left < 0 {
		panic("inflight: more requests of a route were given back than counted")
	}
}

// refuse answers with the reason. Clients that all retried at the same time would be refused again,
// so Retry-After is spread over the next four seconds.
func refuse(x *exchange.Exchange, status int, reason exchange.Reason) exchange.PolicyVerdict {
	verdict := x.Refuse(status, reason)
	x.RetryAfter(1 + int(uint64(x.Start)*0x9e3779b97f4a7c15>>62))
	return verdict
}

// Inherit continues the previous policy's counts, so that requests under way still count. It
// continues the counts of values if Key and Values are unchanged; otherwise the new policy counts
// only requests from now on.
func (p *Policy) Inherit(old any) {
	o := old.(*Policy)
	p.state = o.state
	if o.values != nil && p.options.Key == o.options.Key && p.options.Values == o.options.Values {
		p.values = o.values
	}
}

// Indexes of the series.
const (
	seriesUnderWay = iota
	seriesRefused
	seriesValues
	seriesShared
)

// Series are the metrics of this kind of policy.
var Series = []exchange.Series{
	seriesUnderWay: {Name: "route_concurrency", Help: "Requests under way of a route that bounds them."},
	seriesRefused: {Name: "route_concurrency_refused_total", Labels: []string{"bound"},
		Help: "Requests refused because too many were under way, by whose bound: the route's, " +
			"or a value's of its key."},
	seriesValues: {Name: "route_concurrency_values",
		Help: "Values of the key that have requests under way."},
	seriesShared: {Name: "route_concurrency_shared_total",
		Help: "Requests whose value found no place of its own, and was counted together with another."},
}

// Status is what the admin API shows of the policy.
type Status struct {
	UnderWay    int64  `json:"under_way"`
	Max         int    `json:"max,omitempty"`
	Key         string `json:"key,omitempty"`
	MaxPerValue int    `json:"max_per_value,omitempty"`
	Values      int    `json:"values"` // values with requests under way
	RouteFull   uint64 `json:"route_full"`
	ClientFull  uint64 `json:"client_full"`
	Shared      uint64 `json:"shared"`
}

// Status implements exchange.Shown.
func (p *Policy) Status() any { return p.status() }

func (p *Policy) status() Status {
	o := &p.options
	s := Status{UnderWay: p.state.underWay.Load(), Max: o.Max, Key: o.Key, MaxPerValue: o.PerValue}
	for i := range p.state.loops {
		l := &p.state.loops[i]
		s.RouteFull += l.routeFull.Load()
		s.ClientFull += l.clientFull.Load()
		s.Shared += l.shared.Load()
	}
	if p.values != nil {
		s.Values = p.values.used()
	}
	return s
}

// Metrics emits the values of Series.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	s := p.status()
	emit(seriesUnderWay, float64(s.UnderWay))
	emit(seriesRefused, float64(s.RouteFull), "route")
	emit(seriesRefused, float64(s.ClientFull), "value")
	emit(seriesValues, float64(s.Values))
	emit(seriesShared, float64(s.Shared))
}
