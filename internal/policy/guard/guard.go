// Package guard refuses requests for keys that do not exist, before they cost anything: a flood of
// made-up product numbers misses every cache. The keys that exist are in a list (a file, a URL or a
// set in Redis), which the guard keeps as a Bloom filter. A key that is in the list always passes.
// One that is not is refused, except for the configured share of false positives.
//
//	guard.go   a request comes
//	filter.go  the filter, with what was added and removed since it was made
//	load.go    a list is read, and a new filter takes the old one's place
//	set.go     a list that is a set in Redis
//
// A guard that has no filter yet lets everything pass, and says so. It must not know upstreams or
// caches.
package guard

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/redis"
)

// UnknownKey is the reason of refusals.
var UnknownKey = exchange.DeclareReason(exchange.ReasonInfo{
	Label: "unknown_key", Fault: exchange.ClientFault, Text: "there is nothing of this name",
	GRPC: grpc.NotFound,
})

// The bounds and defaults of options.
const (
	MaxKeys               = 500_000_000
	DefaultMaxKeys        = 50_000_000
	DefaultFalsePositives = 0.01
	DefaultEvery          = 5 * time.Minute
	DefaultKeepAdded      = 24 * time.Hour
)

// Options of the policy. One of File, URL and Redis is given.
type Options struct {
	// Key is what to look up, in the form of exchange.ParseKey: a value of the route's pattern, a
	// query parameter or a header. Requests without it pass.
	Key string
	// File and URL are where a list of the existing keys is, one per line.
	File, URL string
	// Redis has such a list as a set whose name is Set. The guard keeps it open.
	Redis *redis.Client
	Set   string
	// Every is the interval at which the list is checked again; 0 for DefaultEvery.
	Every time.Duration
	// FalsePositives is the share of non-existent keys that pass nevertheless, 0.0001 to 0.5; 0 for
	// DefaultFalsePositives.
	FalsePositives float64
	// MaxKeys is the longest list that is read; 0 for DefaultMaxKeys. Reading takes 8 bytes per
	// key.
	MaxKeys int
	// KeepAdded is for how long a key that was added by hand passes although the list does not have it;
	// 0 for DefaultKeepAdded.
	KeepAdded time.Duration
	Env       exchange.Env
}

// Policy is the guard of one route.
type Policy struct {
	o     Options
	key   exchange.Key
	state *state
}

var _ interface {
	exchange.RequestPolicy
	exchange.Heir
	exchange.Closer
	exchange.Metered
	exchange.Shown
} = (*Policy)(nil)

// New checks the options and begins to read the list.
func New(o Options) (*Policy, error) {
	p := &Policy{o: o.withDefaults()}
	var err error
	if p.key, err = exchange.ParseKey(o.Key, exchange.PathKey, exchange.QueryKey,
		exchange.HeaderKey); err != nil {
		return nil, err
	}
	switch {
	case o.Key == "":
		return nil, errors.New("there is no key to look up: give one, as path:id")
	case o.sources() != 1:
		return nil, errors.New("the list of keys is in a file, at a URL or in a Redis: give one of them")
	case o.Redis != nil && o.Set == "":
		return nil, errors.New("the set in Redis has no name: give one")
	case p.o.FalsePositives < 0.0001 || p.o.FalsePositives > 0.5:
		return nil, fmt.Errorf("a share of false positives of %g is not between 0.0001 and 0.5",
			p.o.FalsePositives)
	case p.o.MaxKeys < 1 || p.o.MaxKeys > MaxKeys:
		return nil, fmt.Errorf("a list of %d keys is not between 1 and %d", p.o.MaxKeys, MaxKeys)
	}
	p.state = newState(&p.o)
	return p, nil
}

// sources is how many sources of the list are given.
func (o *Options) sources() (n int) {
	for _, is := range []bool{o.File != "", o.URL != "", o.Redis != nil} {
		if is {
			n++
		}
	}
	return n
}

func (o Options) withDefaults() Options {
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.FalsePositives == 0 {
		o.FalsePositives = DefaultFalsePositives
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.KeepAdded == 0 {
		o.KeepAdded = DefaultKeepAdded
	}
	return o
}

// Inherit takes over the filter of the policy that this one replaces, if it is of the same list.
func (p *Policy) Inherit(old any) {
	if q, ok := old.(*Policy); ok && q.state.hold() {
		if q.o.comparable() != p.o.comparable() {
			q.state.release()
			return
		}
		p.state.release()
		p.state = q.state
	}
}

// comparable is what two policies must have in common to share a filter.
func (o *Options) comparable() string {
	return fmt.Sprintf("%q %q %q %p %q %v %v %v %v", o.Key, o.File, o.URL, o.Redis, o.Set, o.Every,
		o.FalsePositives, o.MaxKeys, o.KeepAdded)
}

// Close releases the filter.
func (p *Policy) Close() { p.state.release() }

// OnRequest refuses keys that the filter does not have.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	s := p.state
	f := s.filter.Load()
	if f == nil {
		s.unloaded.Add(1)
		return exchange.Continue
	}
	key := p.find(x)
	switch {
	case key == nil:
		s.without.Add(1)
		return exchange.Continue
	case f.has(s.hash(key)):
		s.known.Add(1)
		return exchange.Continue
	}
	s.unknown.Add(1)
	return x.Refuse(404, UnknownKey)
}

// find is the key as the list has it. A value of the pattern is percent-encoded.
func (p *Policy) find(x *exchange.Exchange) []byte {
	key := p.key.Find(x)
	if p.key.Kind() == exchange.PathKey && bytes.IndexByte(key, '%') >= 0 {
		if plain, err := url.PathUnescape(string(key)); err == nil {
			return []byte(plain)
		}
	}
	return key
}

// Add lets a key pass from now on, and Remove refuses a key that is in the list, until the list is
// read again. An added key then still passes for Options.KeepAdded. Any goroutine may call them.
func (p *Policy) Add(key string) error { return p.state.change(key, true) }

// Remove refuses a key: see Add.
func (p *Policy) Remove(key string) error { return p.state.change(key, false) }

// Indexes of Series.
const (
	seriesDecisions = iota
	seriesKeys
	seriesMemory
	seriesLoads
	seriesAge
)

// Series are the metrics of a route's guard.
var Series = []exchange.Series{
	seriesDecisions: {Name: "guard_decisions_total",
		Help: "Requests by what the guard decided: known, unknown (refused), without (they have no " +
			"key), or " +
			"unloaded (there was no filter yet).", Labels: []string{"result"}},
	seriesKeys:   {Name: "guard_keys", Help: "Keys in the filter."},
	seriesMemory: {Name: "guard_memory_bytes", Help: "Memory of the filter."},
	seriesLoads: {Name: "guard_loads_total",
		Help:   "Lists that were read, that had not changed, and that could not be read.",
		Labels: []string{"result"}},
	seriesAge: {Name: "guard_age_seconds", Help: "How long ago the list was last found to be " +
		"right; 0 before the first time."},
}

// Metrics implements exchange.Metered.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	s := p.state
	for _, d := range []struct {
		result string
		count  *atomic.Uint64
	}{{"known", &s.known}, {"unknown", &s.unknown}, {"without", &s.without}, {"unloaded", &s.unloaded}} {
		emit(seriesDecisions, float64(d.count.Load()), d.result)
	}
	status := s.status()
	emit(seriesKeys, float64(status.Keys))
	emit(seriesMemory, float64(status.MemoryBytes))
	emit(seriesLoads, float64(s.loaded.Load()), "loaded")
	emit(seriesLoads, float64(s.unchanged.Load()), "unchanged")
	emit(seriesLoads, float64(s.failed.Load()), "failed")
	emit(seriesAge, status.AgeSeconds)
}

// Status implements exchange.Shown.
func (p *Policy) Status() any { return p.state.status() }
