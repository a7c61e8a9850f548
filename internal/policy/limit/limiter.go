package limit

import (
	"sync"
	"sync/atomic"

	"plimsoll/internal/hash"
)

// limiter is the state of one limit. The policies before and after a reload share it.
type limiter struct {
	secret *hash.Secret
	now    func() int64 // for goroutines, and when a loop's time is too old
	store  atomic.Pointer[store]
	stats  []loopStats
	leases *leases // nil unless the limit is leased
	aside  aside

	mu      sync.Mutex         // serialises changes; decisions do not take it
	set     bool               // the numbers were changed at run time
	current map[string]*params // the active overrides
	// overridden are the overrides that were changed or added at run time.
	overridden map[string]bool
}

// aside counts for a shared limit that only counts. Redis may answer after the exchange ended, so
// these counters do not belong to a loop.
type aside struct{ allowed, wouldRefuse, unavailable atomic.Int64 }

// store holds a limit's counts. A change makes a new store that keeps the parts whose meaning is
// unchanged.
type store struct {
	rules     *atomic.Pointer[params]
	table     *table // nil if all requests share one place
	spill     []own  // for values without a place in the table
	rest      *own   // for requests without the key, or for all
	overrides map[[2]uint64]*own
}

// own is a place that always belongs to the same values. It is on separate cache lines.
type own struct {
	state  atomic.Uint64
	params *atomic.Pointer[params]
	ring   []atomic.Uint64
	_      [88]byte
}

func newOwn(rules *atomic.Pointer[params]) *own {
	o := new(own)
	o.init(rules)
	return o
}

func (o *own) init(rules *atomic.Pointer[params]) {
	o.params = rules
	o.state.Store(fresh)
	if p := rules.Load(); p.algorithm == SlidingLog {
		o.ring = make([]atomic.Uint64, p.quota)
		clearRing(o.ring, 0)
	}
}

// at fills p with the place.
func (o *own) at(p *place) {
	p.state, p.set, p.ring, p.params, p.shared = &o.state, nil, o.ring, o.params, nil
}

// spills is the number of buckets that values without a place share: few enough that an attacker
// gains little, and enough that other values rarely meet one.
const spills = 64

func newStore(p *params, keyed bool, values int) *store {
	s := &store{rules: new(atomic.Pointer[params])}
	s.rules.Store(p)
	s.rest = newOwn(s.rules)
	if !keyed {
		return s
	}
	ring := 0
	if p.algorithm == SlidingLog {
		ring = int(p.quota)
	}
	s.table = newTable(values, ring)
	s.table.withReserve()
	s.spill = make([]own, spills)
	for i := range s.spill {
		s.spill[i].init(s.rules)
	}
	return s
}

// locate fills p with the place of a value. overflowed says that others may share it.
func (s *store) locate(p *place, secret *hash.Secret, value []byte, now int64) (overflowed bool) {
	if len(value) == 0 || s.table == nil {
		s.rest.at(p)
		return false
	}
	h, g := secret.Sum(value)
	if len(s.overrides) > 0 {
		if o := s.overrides[[2]uint64{h, g}]; o != nil {
			o.at(p)
			return false
		}
	}
	p.params = s.rules
	if s.table.enter(p, h, g, s.rules, now, 0) {
		return false
	}
	came := s.table.cell(h, g).note(g)
	if came >= heavy && s.table.enter(p, h, g, s.rules, now, came) {
		return false
	}
	s.spill[bucket(g)].at(p)
	p.h, p.g, p.shared = h, g, s.table
	return true
}

// outcome is the decision of a limit about a request.
type outcome struct {
	pass bool
	gone bool  // the place has another owner, or the value has another place: look again
	wait int64 // until its turn, or until it would pass
	cost int64 // tokens

	before, after uint64 // the words, for giving back
	entry         logged
	params        *params
}

// look returns what take would return, without counting the request.
func (p *place) look(now int64) (o outcome) {
	o.before = p.state.Load()
	if !p.own(o.before) {
		o.gone = true
		return o
	}
	// Loaded after the word, so at least as new as the params that the word was written under.
	o.params = p.params.Load()
	if o.cost = p.cost; o.cost == 0 {
		o.cost = o.params.cost
	}
	if o.params.algorithm == SlidingLog {
		o.after, o.pass, o.wait, o.entry = o.params.stepLog(o.before, p.ring, now)
	} else {
		o.after, o.pass, o.wait = o.params.step(o.before, now, o.cost)
	}
	return o
}

// refresh stores the state that a refusing look has adjusted after the clock went back.
func (p *place) refresh(o *outcome) {
	if !o.pass && o.after != o.before {
		p.state.CompareAndSwap(o.before, o.after)
	}
}

// take counts a request, or returns how long until it would pass.
func (p *place) take(now int64) (o outcome) {
	for {
		if o = p.look(now); o.gone || o.after == o.before {
			return o
		}
		if p.state.CompareAndSwap(o.before, o.after) {
			if o.pass && o.entry.entry != nil {
				o.entry.write()
			}
			if o.pass && p.shared != nil {
				p.shared.cell(p.h, p.g).keep(o.after, p.params)
				o.gone = p.shared.moved(p.h, p.g)
			}
			return o
		}
	}
}

// giveBack undoes a take that passed. now must not be before the time of any other decision.
func (p *place) giveBack(o *outcome, now int64) {
	if o.params.algorithm == SlidingLog {
		o.entry.erase(p.state.CompareAndSwap(o.after, o.before), now)
		return
	}
	for {
		w := p.state.Load()
		if !p.own(w) {
			return
		}
		next := o.params.giveBack(o.before, o.after, w, now, o.cost)
		if next == w || p.state.CompareAndSwap(w, next) {
			return
		}
	}
}

// change activates new numbers.
func (l *limiter) change(p *params) {
	s := l.store.Load()
	old := s.rules.Load()
	if p.algorithm == SlidingLog && p.quota != old.quota {
		// The rings have a different length, so their contents cannot be kept.
		fresh := newStore(p.after(old, l.now()), s.table != nil, s.values())
		fresh.overrides = s.overrides
		l.store.Store(fresh)
		return
	}
	s.rules.Store(p.after(old, l.now()))
}

func (s *store) places() int {
	if s.table == nil {
		return 0
	}
	return s.table.places()
}

// values is how many values the store was made for: its places without the reserve.
func (s *store) values() int {
	if s.table == nil {
		return 0
	}
	return int(s.table.mask+1) * ways
}

// override activates overrides. Values that already had one keep their state.
func (l *limiter) override(of map[string]*params) {
	l.current = of
	s := *l.store.Load()
	old := s.overrides
	s.overrides = make(map[[2]uint64]*own, len(of))
	for value, p := range of {
		h, g := l.secret.Sum([]byte(value))
		key := [2]uint64{h, g}
		kept := old[key]
		if kept == nil || p.algorithm == SlidingLog && kept.params.Load().quota != p.quota {
			rules := new(atomic.Pointer[params])
			rules.Store(p)
			s.overrides[key] = newOwn(rules)
			continue
		}
		if was := kept.params.Load(); !p.same(was) {
			kept.params.Store(p.after(was, l.now()))
		}
		s.overrides[key] = kept
	}
	l.store.Store(&s)
}
