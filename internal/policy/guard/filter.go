package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greatroar/blobloom"

	"plimsoll/internal/hash"
)

const (
	// maxRemoved is how many keys may be removed by hand until the list is read again. Requests
	// look them up in a separate map.
	maxRemoved = 10_000
	// maxAdded is how many may be added by hand within Options.KeepAdded.
	maxAdded = 1_000_000
	// spareCapacity is the share by which a filter's capacity exceeds the keys of its list, to
	// leave room for added keys.
	spareCapacity = 0.1
)

// filter is what requests look at. It is replaced as a whole, except that keys are added to the
// Bloom filter in place.
type filter struct {
	bloom   *blobloom.SyncFilter
	keys    int // of the list
	bits    uint64
	hashes  int             // of each key
	removed map[uint64]bool // nil for none; never changed
}

func newFilter(hashes []uint64, falsePositives float64) *filter {
	c := blobloom.Config{Capacity: uint64(float64(len(hashes))*(1+spareCapacity)) + 1000,
		FPRate: falsePositives}
	bits, n := blobloom.Optimize(c)
	f := &filter{bloom: blobloom.NewSync(bits, n), keys: len(hashes), bits: bits, hashes: n}
	for _, h := range hashes {
		f.bloom.Add(h)
	}
	return f
}

func (f *filter) has(h uint64) bool { return f.bloom.Has(h) && !f.removed[h] }

// state is a filter and what keeps it up to date. It survives reloads that do not change its list.
type state struct {
	o      Options
	secret *hash.Secret // so that clients cannot construct keys that pass
	filter atomic.Pointer[filter]
	users  atomic.Int32
	stop   context.CancelFunc

	known, unknown, without, unloaded atomic.Uint64
	loaded, unchanged, failed         atomic.Uint64

	mu    sync.Mutex
	added []addition // ordered by time
	// removed by hand since the list of the present filter was read, and since the reading under
	// way began
	removed, removedSince map[uint64]bool
	reading               bool
	err                   error
	right                 time.Time // when the list was last read or found unchanged
	seen                  seen
}

type addition struct {
	hash uint64
	at   time.Time
}

func newState(o *Options) *state {
	random := o.Env.Random
	if random == nil {
		random = rand.Uint64
	}
	s := &state{o: *o, secret: hash.NewSecret(random)}
	s.users.Store(1)
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	if o.Redis != nil {
		o.Redis.Retain()
	}
	go s.keep(ctx)
	return s
}

func (s *state) hash(key []byte) uint64 {
	h, _ := s.secret.Sum(key)
	return h
}

// hold adds a user. It returns false if the last one has gone.
func (s *state) hold() bool {
	for n := s.users.Load(); n > 0; n = s.users.Load() {
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (s *state) release() {
	if s.users.Add(-1) == 0 {
		s.stop()
	}
}

var (
	errManyRemoved = errors.New("10000 keys were removed already; take them out of the list, which " +
		"is read again soon")
	errManyAdded = errors.New("1000000 keys were added already; add them to the list")
)

// change adds or removes a key by hand.
func (s *state) change(key string, add bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.filter.Load() // nil before the first list: what is changed holds from that on
	h := s.hash([]byte(key))
	if add {
		s.forgetAdded()
		if len(s.added) >= maxAdded {
			return errManyAdded
		}
		s.added = append(s.added, addition{h, time.Now()})
		s.removed, s.removedSince = without(s.removed, h), without(s.removedSince, h)
		if f != nil {
			f.bloom.Add(h)
			s.put(f)
		}
		return nil
	}
	if !s.removed[h] && len(s.removed) >= maxRemoved {
		return errManyRemoved // before anything is changed, so that added keys stay added
	}
	s.added = slices.DeleteFunc(s.added, func(a addition) bool { return a.hash == h })
	s.removed = with(s.removed, h)
	if s.reading {
		s.removedSince = with(s.removedSince, h)
	}
	if f != nil {
		s.put(f)
	}
	return nil
}

// put makes f, with the keys that are removed now, the filter of requests. The caller holds the
// lock.
func (s *state) put(f *filter) {
	g := *f
	g.removed = s.removed
	s.filter.Store(&g)
}

// forgetAdded drops keys that were added too long ago. The caller holds the lock.
func (s *state) forgetAdded() {
	old := 0
	for old < len(s.added) && time.Since(s.added[old].at) > s.o.KeepAdded {
		old++
	}
	s.added = s.added[old:]
}

// swap replaces the filter by a new one, with the keys that were added by hand, and without those
// removed while its list was read.
func (s *state) swap(f *filter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetAdded()
	for _, a := range s.added {
		f.bloom.Add(a.hash)
	}
	s.removed, s.removedSince = s.removedSince, nil
	s.put(f)
}

// with and without return copies, because requests read the old map.
func with(m map[uint64]bool, h uint64) map[uint64]bool {
	n := make(map[uint64]bool, len(m)+1)
	for k := range m {
		n[k] = true
	}
	n[h] = true
	return n
}

func without(m map[uint64]bool, h uint64) map[uint64]bool {
	if !m[h] {
		return m
	}
	n := with(m, h)
	delete(n, h)
	return n
}

// Status is what the admin API shows of a guard.
type Status struct {
	Loaded bool `json:"loaded"` // otherwise all keys pass
	Keys   int  `json:"keys"`
	// FalsePositives is the share of unknown keys that pass, estimated from how full
	// the filter is.
	FalsePositives float64 `json:"false_positives"`
	MemoryBytes    int64   `json:"memory_bytes"`
	AgeSeconds     float64 `json:"age_seconds"` // since the list was last read or found unchanged
	Error          string  `json:"error,omitempty"`
}

func (s *state) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var st Status
	if s.err != nil {
		st.Error = s.err.Error()
	}
	if !s.right.IsZero() {
		st.AgeSeconds = time.Since(s.right).Seconds()
	}
	if f := s.filter.Load(); f != nil {
		st.Loaded, st.Keys, st.MemoryBytes = true, f.keys+len(s.added), int64(f.bits/8)
		st.FalsePositives = blobloom.FPRate(uint64(st.Keys), f.bits, f.hashes)
	}
	return st
}
