package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/internal/cache/store"
)

// world is an origin whose answers have versions, and a store in front of it that many use at once.
// An answer's bytes, fields and length follow from its key and its version.
type world struct {
	*testing.T
	s        *store.Store
	versions [60]atomic.Uint64 // what the origin has
	purged   [60]atomic.Uint64 // below which nothing may be found any more
	served   atomic.Int64
	streamed atomic.Int64
}

func (w *world) key(k int) string { return fmt.Sprintf("/%d/key%d", k%4, k) }

func seedOf(k int, version uint64) uint64 { return version<<8 | uint64(k) }

func lengthOf(seed uint64) int {
	r := rand.New(rand.NewPCG(seed, 3))
	switch r.IntN(8) {
	case 0:
		return 0
	case 1, 2:
		return r.IntN(300_000) // some are longer than may be stored
	}
	return r.IntN(80_000)
}

// fetch plays the filler.
func (w *world) fetch(r *rand.Rand, f *store.Fill, k int) {
	version := w.versions[k].Load()
	seed := seedOf(k, version)
	n := lengthOf(seed)
	whole := body(seed, n)
	length := int64(n)
	if r.IntN(2) == 0 {
		length = unknown
	}
	switch r.IntN(12) {
	case 0:
		f.Refuse()
		return
	case 1:
		f.Fail(0)
		return
	}
	if old := w.s.Lookup([]byte(w.key(k))); old != nil {
		same := uint64(old.Meta.Date) == seed
		if same {
			if err := f.Renew(old, headOf(w.key(k), seed, length, "all", fmt.Sprint("tag",
				k%5))); err != nil && !errors.Is(err, store.ErrNoRoom) {
				w.Error(err)
			}
		}
		old.Release()
		if same {
			return
		}
	}
	if err := f.Head(headOf(w.key(k), seed, length, "all", fmt.Sprint("tag", k%5))); err != nil {
		if !errors.Is(err, store.ErrNoRoom) {
			w.Error(err)
		}
		return
	}
	room := make(chan struct{}, 1)
	f.Feeder(signal(room))
	cut := -1
	if r.IntN(6) == 0 {
		cut = r.IntN(n + 1)
	}
	for sent := 0; sent < n; {
		if sent >= cut && cut >= 0 {
			f.Fail(0)
			return
		}
		next := min(n, sent+1+r.IntN(100_000))
		full, err := f.Append(whole[sent:next])
		sent = next
		if errors.Is(err, store.ErrAbandoned) {
			f.Fail(0)
			return
		}
		if err != nil {
			w.Error(err)
			return
		}
		if full {
			<-room
		}
	}
	if err := f.Finish(); err != nil {
		w.Error(err)
	}
}

// signal is a Waker for a goroutine that waits.
type signal chan struct{}

func (s signal) Wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// wait plays a client that was coalesced.
func (w *world) wait(r *rand.Rand, f *store.Fill, k int) {
	woken := make(signal, 1)
	reader := new(store.Reader)
	if !f.Join(reader, woken) {
		return
	}
	defer reader.Close()
	e, phase := reader.Head()
	for ; phase == store.Waiting; e, phase = reader.Head() {
		<-woken
	}
	if e == nil {
		return
	}
	seed := uint64(e.Meta.Date)
	if int(seed&0xff) != k {
		w.Errorf("a client that waits for key %d gets key %d", k, seed&0xff)
	}
	n, at := int64(lengthOf(seed)), int64(0)
	var room [3][]byte
	for {
		got, phase := reader.Peek(room[:1+r.IntN(3)][:0])
		if len(got) == 0 {
			if phase == store.Filling {
				<-woken
				continue
			}
			if reader.Finished() != (phase == store.Whole) || phase == store.Whole && at != n {
				w.Errorf("a body of %d bytes ends after %d in phase %d", n, at, phase)
			}
			w.streamed.Add(1)
			return
		}
		for _, part := range got {
			if string(part) != string(pattern(make([]byte, len(part)), seed, at)) {
				w.Errorf("bytes of another entry in key %d from %d on", k, at)
				return
			}
			at += int64(len(part))
			reader.Advance(len(part))
		}
		if r.IntN(50) == 0 {
			return // a client that goes away
		}
	}
}

// ask plays a client.
func (w *world) ask(r *rand.Rand, held *[]*store.Entry) {
	k := int(float64(len(w.versions)) * r.Float64() * r.Float64())
	least := w.purged[k].Load()
	if e := w.s.Lookup([]byte(w.key(k))); e != nil {
		w.check(e, k, least)
		if *held = append(*held, e); len(*held) > 3 {
			w.check((*held)[0], -1, 0)
			(*held)[0].Release()
			*held = (*held)[1:]
		}
		if r.IntN(20) != 0 {
			return
		}
	}
	f, filler := w.s.Begin([]byte(w.key(k)), []byte(w.key(k)))
	if filler {
		w.fetch(r, f, k)
	} else {
		w.wait(r, f, k)
	}
}

// check reads an entry whole. k is -1 for whatever key.
func (w *world) check(e *store.Entry, k int, least uint64) {
	seed := uint64(e.Meta.Date)
	if k >= 0 && (int(seed&0xff) != k || seed>>8 < least) {
		w.Errorf("key %d, purged up to version %d, has version %d of key %d", k, least, seed>>8, seed&0xff)
	}
	if string(e.Block()) != string(fields(seed)) || string(content(e)) != string(body(seed, lengthOf(seed))) {
		w.Errorf("an entry of seed %d has fields %q and %d bytes of body", seed, e.Block(), e.Length())
	}
	w.served.Add(1)
}

// purge plays the operator: the origin changes, and then what is stored of it is purged.
func (w *world) purge(r *rand.Rand) {
	change := func(match func(k int) bool) (done func()) {
		var now [60]uint64
		for k := range w.versions {
			if match(k) {
				now[k] = w.versions[k].Add(1)
			}
		}
		return func() {
			for k, v := range now {
				for old := w.purged[k].Load(); v > old && !w.purged[k].CompareAndSwap(old,
					v); old = w.purged[k].Load() {
				}
			}
		}
	}
	k := r.IntN(len(w.versions))
	switch r.IntN(12) {
	case 0:
		done := change(func(i int) bool { return i%5 == k%5 })
		w.s.PurgeTag([]byte(fmt.Sprint("tag", k%5)), false)
		done()
	case 1:
		done := change(func(i int) bool { return i%4 == k%4 })
		if _, err := w.s.PurgePrefix(fmt.Appendf(nil, "/%d/", k%4), false); err == nil {
			done()
		}
	case 2:
		w.s.PurgeTag([]byte("all"), true)
	case 3:
		w.s.Sweep()
	default:
		done := change(func(i int) bool { return i == k })
		w.s.PurgeURI([]byte(w.key(k)), false)
		done()
	}
}

func TestManyAtOnceNeverSeeWhatIsNotTheirs(t *testing.T) {
	s := open(t, store.Options{Bytes: 2 << 20, MaxObject: 200_000})
	w := &world{T: t, s: s}
	const rounds = 600
	var all sync.WaitGroup
	for id := range uint64(6) {
		all.Add(1)
		go func() {
			defer all.Done()
			r := rand.New(rand.NewPCG(id, 4))
			var held []*store.Entry
			for range rounds {
				if r.IntN(12) == 0 {
					w.purge(r)
				} else {
					w.ask(r, &held)
				}
			}
			for _, e := range held {
				w.check(e, -1, 0)
				e.Release()
			}
		}()
	}
	all.Wait()
	st := s.Stats()
	t.Logf("%d served, %d streamed; %+v", w.served.Load(), w.streamed.Load(), st)
	if w.served.Load() == 0 || w.streamed.Load() == 0 || st.Evicted == 0 || st.Purged == 0 ||
		st.TooLarge == 0 {
		t.Error("the test has not played what it is to play")
	}
	if st.Fills != 0 {
		t.Errorf("%d fills are left", st.Fills)
	}
	s.PurgeTag([]byte("all"), false)
	s.Sweep()
	if live := s.Stats().Live; live != 0 {
		t.Errorf("%d bytes are left when everything was purged", live)
	}
}
