package limit

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"plimsoll/internal/cidr"
	"plimsoll/internal/exchange"
)

// Options of the policy.
type Options struct {
	Limits []Limit // a request must pass all of them
	Route  string  // the limits' route; shared limits count for all instances of it
	Env    exchange.Env
}

// Limit has the options of one limit.
type Limit struct {
	Name      string // identifies it in reloads, responses and metrics: see CheckName
	Algorithm Algorithm
	Rate      Rate
	Burst     int64 // tokens in a bucket; 0 for the rate's count, or 1 with GCRA
	Cost      int64 // tokens of a request; 0 for 1
	// CostHeader is a field in which a trusted peer states the cost of its request, from 1 to
	// MaxCost. Empty for none.
	CostHeader string
	MaxCost    int64
	// Key says which values are counted separately, in the form of exchange.ParseKey. If empty, all
	// requests count together.
	Key              string
	Prefix4, Prefix6 int // bits of a client's address that count; 0 for 32 and 64
	// SkipMissing lets requests without the key pass. If false, they count together.
	SkipMissing bool
	Values      int           // values counted separately; 0 for the default
	Queue       int64         // requests of a value that may wait in a leaky bucket; 0 for 100
	MaxWait     time.Duration // the longest such wait
	Overrides   map[string]Override
	DryRun      bool    // count only
	Headers     Headers // which responses carry the RateLimit fields
	Shared      *Shared // with other instances; nil if the limit is not shared
}

// Override is the limit of one value.
type Override struct {
	Rate  Rate
	Burst int64 // 0 for the limit's own, in proportion to the rates
}

// Headers says which responses carry the fields RateLimit and RateLimit-Policy.
type Headers uint8

// The choices.
const (
	OnRefused Headers = iota
	Always
	Never
)

// MaxLimits is the largest number of limits of a route.
const MaxLimits = 8

const (
	defaultValues    = 1 << 16
	maxValues        = 1 << 24
	defaultQueue     = 100
	defaultLogMemory = 32 << 20
	// MaxOverrides is the largest number of overrides of a limit.
	MaxOverrides = 100_000
)

var keyKinds = []exchange.KeyKind{
	exchange.AddressKey, exchange.HeaderKey, exchange.CookieKey, exchange.PathKey, exchange.QueryKey,
}

// CheckName returns an error if a limit cannot have the name. The name is sent in a response field
// as a string (RFC 9651, section 3.3.3).
func CheckName(name string) error {
	if name == "" || len(name) > 64 {
		return fmt.Errorf("%q has %d characters; give 1 to 64", name, len(name))
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return fmt.Errorf("%q cannot name a limit; use ASCII letters, digits and signs "+
				"without quotes", name)
		}
	}
	return nil
}

// setting is a limit after its options were checked.
type setting struct {
	Limit
	key exchange.Key
	// costHeader is the name of the field that states a request's cost; nil for none.
	costHeader []byte
	params     *params
	overrides  map[string]*params // by value, in the form that is counted

	// The numbers by which this instance counts alone: all, or its part of a shared limit.
	here          *params
	hereOverrides map[string]*params
	*sharing      // nil unless the limit is shared
}

func (l Limit) numbers(rate Rate, burst int64) numbers {
	return numbers{algorithm: l.Algorithm, rate: rate, burst: burst, cost: l.Cost,
		most: l.MaxCost, queue: l.Queue, wait: l.MaxWait}
}

// complete fills in defaults.
func (l *Limit) complete() {
	if l.Cost == 0 {
		l.Cost = 1
	}
	switch {
	case l.Burst != 0 || !l.Algorithm.bucket():
	case l.Algorithm == GCRA:
		l.Burst = max(l.Cost, l.MaxCost)
	default:
		l.Burst = max(l.Rate.Count, l.Cost, l.MaxCost)
	}
	if l.Prefix4 == 0 {
		l.Prefix4 = 32
	}
	if l.Prefix6 == 0 {
		l.Prefix6 = 64
	}
	if l.Queue == 0 {
		l.Queue = defaultQueue
	}
}

// check makes a setting of a limit.
func (l Limit) check() (*setting, error) {
	burst := l.Burst
	l.complete()
	s := &setting{Limit: l, overrides: map[string]*params{}}
	if l.CostHeader != "" {
		s.costHeader = []byte(l.CostHeader)
	}
	var err error
	if s.key, err = exchange.ParseKey(l.Key, keyKinds...); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if s.params, err = newParams(l.numbers(l.Rate, l.Burst)); err != nil {
		return nil, err
	}
	switch {
	case burst != 0 && !l.Algorithm.bucket():
		return nil, fmt.Errorf("a burst of %d has no meaning with %s; leave it out", burst, l.Algorithm)
	case l.MaxWait != 0 && l.Algorithm != LeakyBucket:
		return nil, fmt.Errorf("a wait of %s, and only leaky_bucket lets requests wait; leave it out",
			l.MaxWait)
	case l.Prefix4 < 1 || l.Prefix4 > 32 || l.Prefix6 < 1 || l.Prefix6 > 128:
		return nil, fmt.Errorf("prefixes of %d and %d bits; give 1 to 32 and 1 to 128", l.Prefix4, l.Prefix6)
	case l.CostHeader == "" && l.MaxCost != 0:
		return nil, fmt.Errorf("a highest cost of %d, and no header says a cost; name one", l.MaxCost)
	case l.CostHeader != "" && l.MaxCost < max(1, l.Cost):
		return nil, fmt.Errorf("a highest cost of %d and a cost of %d; give at least the cost",
			l.MaxCost, l.Cost)
	case l.CostHeader != "" && l.Algorithm == SlidingLog:
		return nil, errors.New("the header of the cost: sliding_log counts requests alike; " +
			"use sliding_window")
	case l.CostHeader != "" && l.Shared != nil:
		return nil, errors.New("the header of the cost: a shared limit counts requests alike; leave it out")
	case l.SkipMissing && l.Key == "":
		return nil, errors.New("requests without the key are let pass, and there is no key; name one")
	case len(l.Overrides) > 0 && l.Key == "":
		return nil, errors.New("overrides need a key whose values they name; give one")
	case len(l.Overrides) > MaxOverrides:
		return nil, fmt.Errorf("%d overrides; %d are the most", len(l.Overrides), MaxOverrides)
	}
	if err := s.makeRoom(); err != nil {
		return nil, err
	}
	return s, s.makeOverrides()
}

// makeRoom determines how many values are counted separately.
func (s *setting) makeRoom() error {
	each := int64(1)
	if s.Algorithm == SlidingLog {
		each = s.params.quota * 8
	}
	if s.Values == 0 {
		s.Values = defaultValues
		if s.Algorithm == SlidingLog {
			s.Values = int(max(2*ways, min(defaultValues, defaultLogMemory/each)))
		}
	}
	switch {
	case s.Values < 1 || s.Values > maxValues:
		return fmt.Errorf("%d values; give 1 to %d", s.Values, maxValues)
	case s.Algorithm == SlidingLog && int64(s.Values) > maxLogSize/each:
		return fmt.Errorf("%d logs of %d requests take more than %d MB; give at most %d values, "+
			"or use sliding_window",
			s.Values, s.params.quota, maxLogSize>>20, maxLogSize/each)
	}
	return nil
}

func (s *setting) makeOverrides() error {
	names := map[string]string{}
	for name, o := range s.Overrides {
		value, err := s.value(name)
		if err != nil {
			return fmt.Errorf("overrides: %w", err)
		}
		if other, again := names[value]; again {
			return fmt.Errorf("overrides: %q and %q are the same value; keep one", other, name)
		}
		names[value] = name
		burst := o.Burst
		if burst == 0 && s.Algorithm.bucket() {
			burst = s.overrideBurst(o.Rate)
		}
		p, err := newParams(s.numbers(o.Rate, burst))
		if err != nil {
			return fmt.Errorf("overrides: %q: %w", name, err)
		}
		s.overrides[value] = p
	}
	return s.checkLogs(s.overrides)
}

// checkLogs refuses overrides whose logs together take too much memory. Each override has its own
// log, whether its value is used or not.
func (s *setting) checkLogs(overrides map[string]*params) error {
	if s.Algorithm != SlidingLog {
		return nil
	}
	size := int64(0)
	for _, p := range overrides {
		size += p.quota * 8
	}
	if size > maxLogSize {
		return fmt.Errorf("the logs of %d overrides take more than %d MB; give fewer, or use "+
			"sliding_window", len(overrides), maxLogSize>>20)
	}
	return nil
}

// overrideBurst is the limit's own burst in proportion to the rates.
func (s *setting) overrideBurst(r Rate) int64 {
	if r.Count < 1 || r.Per <= 0 {
		return s.Burst
	}
	own := float64(s.Rate.Count) / s.Rate.Per.Seconds()
	burst := float64(s.Burst) * float64(r.Count) / r.Per.Seconds() / own
	return max(s.Cost, s.MaxCost, int64(min(burst+0.5, maxCount)))
}

// value converts the value of an override to what a request's key would contain. The error says why
// none can.
func (s *setting) value(name string) (string, error) {
	if s.key.Kind() == exchange.AddressKey {
		return s.address(name)
	}
	wrong := name == ""
	switch s.key.Kind() {
	case exchange.HeaderKey:
		wrong = wrong || exchange.CheckFieldValue(name) != nil
	case exchange.CookieKey:
		wrong = wrong || bytes.ContainsFunc([]byte(name), func(r rune) bool {
			return r <= ' ' || r == ';' || r == '"' || r == ',' || r == '\\' || r == 0x7f
		})
	case exchange.PathKey:
		wrong = wrong || bytes.ContainsFunc([]byte(name), func(r rune) bool {
			return r <= ' ' || r >= 0x7f || r == '?' || r == '#'
		})
	}
	if wrong {
		return "", fmt.Errorf("%q cannot be a value of %s; correct it or remove it", name, s.Key)
	}
	return name, nil
}

// address is the network named by an address or a prefix.
func (s *setting) address(name string) (string, error) {
	network, err := cidr.Network(name, s.Prefix4, s.Prefix6)
	b := network.Addr().As16()
	return string(b[:]), err
}

// find is the value that is counted for a request; nil if it lacks the key.
func (s *setting) find(x *exchange.Exchange) []byte {
	value := s.key.Find(x)
	if s.key.Kind() == exchange.AddressKey && value != nil {
		maskAddress(value, s.Prefix4, s.Prefix6)
	}
	return value
}

// price is the cost that the request states, or 0 if it states none. Only trusted peers may state
// one. It is capped at the maximum, because a more expensive request would never pass.
func (s *setting) price(x *exchange.Exchange) int64 {
	if s.costHeader == nil || !x.PeerTrusted {
		return 0
	}
	f := x.Request.Fields.Find(s.costHeader)
	if f == nil || len(f.Value) == 0 {
		return 0
	}
	cost := int64(0)
	for _, c := range f.Value {
		if c < '0' || c > '9' {
			return 0
		}
		cost = min(cost*10+int64(c-'0'), s.MaxCost)
	}
	return cost
}

// maskAddress clears the bits of a 16-byte address that do not count.
func maskAddress(address []byte, prefix4, prefix6 int) {
	bits := prefix6
	if string(address[:12]) == mapped {
		bits = 96 + prefix4
	}
	for i := bits / 8; i < len(address); i++ {
		keep := byte(0)
		if i == bits/8 {
			keep = ^byte(0xff >> (bits % 8))
		}
		address[i] &= keep
	}
}

// mapped is the prefix of an IPv4 address in 16 bytes.
const mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"
