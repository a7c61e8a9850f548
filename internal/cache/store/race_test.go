package store_test

import (
	"errors"
	"testing"

	"plimsoll/internal/cache/store"
	"plimsoll/internal/head"
)

// waker is a Waker that does something.
type waker func()

func (w waker) Wake() { w() }

// What is joined between the end of a fill and the moment when it lets go of what it holds keeps
// that.
func TestWhoJoinsAsAFillEndsKeepsItsEntry(t *testing.T) {
	s := open(t, store.Options{Bytes: store.MinBytes})
	f, _ := s.Begin([]byte("k"), []byte("k"))
	var first, late store.Reader
	joined := false
	f.Join(&first, waker(func() { joined = f.Join(&late, waker(func() {})) }))
	if err := f.Head(headOf("k", 1, head.Unknown)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append(body(1, 10)); err != nil {
		t.Fatal(err)
	}
	first.Advance(10)
	if got, _ := first.Peek(make([][]byte, 0, 1)); len(got) > 0 {
		t.Fatalf("%d bytes are there", len(got[0]))
	}
	first.Close() // it is woken late, as the fill ends
	if err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	if !joined {
		return // that is right, too
	}
	s.Remove([]byte("k"))
	e, phase := late.Head()
	if e == nil || phase != store.Whole || late.Length() != 10 {
		t.Fatalf("a reader has joined and has the entry %v in phase %d", e, phase)
	}
	if got, _ := late.Peek(make([][]byte, 0, 1)); len(got) != 1 || string(got[0]) != string(body(1, 10)) {
		t.Errorf("it reads %q", got)
	}
	late.Close()
}

// A reader that looks for the head while a fill is renewed either has the whole answer, or is told of
// it. The moment between is short, so one looks all the time, for many renewals.
func TestARenewalIsSeenAtOnceOrAnnounced(t *testing.T) {
	s := open(t, store.Options{Bytes: store.MinBytes})
	for range 2000 {
		old := s.Lookup([]byte("k"))
		f, _ := s.Begin([]byte("k"), []byte("k"))
		if old == nil {
			if err := errors.Join(f.Head(headOf("k", 1, 0)), f.Finish()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var e *store.Entry
		var phase store.Phase
		begun, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			var r store.Reader
			f.Join(&r, waker(func() {}))
			defer r.Close()
			close(begun)
			for phase == store.Waiting && e == nil {
				e, phase = r.Head()
			}
		}()
		<-begun
		if err := f.Renew(old, headOf("k", 1, 0)); err != nil {
			t.Fatal(err)
		}
		<-over
		if e == nil || phase != store.Whole {
			t.Fatalf("a reader has the entry %v in phase %d, and would wait for more", e, phase)
		}
		old.Release()
	}
}

// From the end of a fill on its entry belongs to the last reader, who lets go of it whenever it likes:
// the filler looks at it no more, whatever it says after that. The race detector sees who does.
func TestAFillThatIsOverLeavesItsEntryAlone(t *testing.T) {
	for name, late := range map[string]func(f *store.Fill) error{
		"head":   func(f *store.Fill) error { return f.Head(headOf("k", 1, 10)) },
		"append": func(f *store.Fill) error { _, err := f.Append(body(1, 10)); return err },
		"finish": func(f *store.Fill) error { return f.Finish() },
		"renew":  func(f *store.Fill) error { return f.Renew(nil, headOf("k", 1, 10)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, store.Options{Bytes: store.MinBytes})
			f, _ := s.Begin([]byte("k"), []byte("k"))
			var r store.Reader
			f.Join(&r, waker(func() {}))
			if err := f.Head(headOf("k", 1, 10)); err != nil {
				t.Fatal(err)
			}
			f.Fail(1)
			closed := make(chan struct{})
			go func() { r.Close(); close(closed) }()
			if err := late(f); err != store.ErrOver {
				t.Errorf("a fill that has failed answers %v", err)
			}
			<-closed
		})
	}
}

// Who comes after a purge does not get what was fetched before it.
func TestNobodyJoinsAFetchThatBeganBeforeAPurge(t *testing.T) {
	for name, purge := range map[string]func(s *store.Store){
		"uri":    func(s *store.Store) { s.PurgeURI([]byte("/k"), false) },
		"soft":   func(s *store.Store) { s.PurgeURI([]byte("/k"), true) },
		"tag":    func(s *store.Store) { s.PurgeTag([]byte("t"), false) },
		"prefix": func(s *store.Store) { s.PurgePrefix([]byte("/"), false) },
	} {
		s := open(t, store.Options{Bytes: store.MinBytes})
		f, _ := s.Begin([]byte("/k"), []byte("/k"))
		if err := f.Head(headOf("/k", 1, 10, "t")); err != nil {
			t.Fatal(err)
		}
		s.PurgeURI([]byte("another"), false)
		if same, filler := s.Begin([]byte("/k"), []byte("/k")); filler || same != f {
			t.Errorf("%s: a purge of something else ends the coalescing", name)
		}
		purge(s)
		next, filler := s.Begin([]byte("/k"), []byte("/k"))
		if !filler {
			t.Fatalf("%s: who comes after the purge joins the fetch from before it", name)
		}
		if err := next.Head(headOf("/k", 2, 10)); err != nil {
			t.Fatal(err)
		}
		for i, one := range []*store.Fill{next, f} { // the older one ends last
			if _, err := one.Append(body(uint64(2-i), 10)); err != nil {
				t.Fatal(err)
			}
			if err := one.Finish(); err != nil {
				t.Fatal(err)
			}
		}
		e := s.Lookup([]byte("/k"))
		if e == nil || e.Meta.Date != 2 {
			t.Fatalf("%s: %+v is stored, want what was fetched after the purge", name, e)
		}
		e.Release()
	}
}

// A reader that is still in front of the window makes no room in it when it goes on.
func TestAReaderFarBehindStallsTheFetchUntilItIsInTheWindow(t *testing.T) {
	const stored, all = 1 << 20, 4 << 20
	s := open(t, store.Options{Bytes: 8 << 20, MaxObject: stored})
	f, _ := s.Begin([]byte("k"), []byte("k"))
	var fast, slow store.Reader
	f.Join(&fast, waker(func() {}))
	f.Join(&slow, waker(func() {}))
	if err := f.Head(headOf("k", 1, head.Unknown)); err != nil {
		t.Fatal(err)
	}
	room := true
	f.Feeder(waker(func() { room = true }))
	whole, sent, read := body(1, all), 0, [2]int{}
	step := func(i int, r *store.Reader) bool {
		got, _ := r.Peek(make([][]byte, 0, 1))
		if len(got) == 0 {
			return false
		}
		n := min(len(got[0]), 16<<10)
		if string(got[0][:n]) != string(whole[read[i]:read[i]+n]) {
			t.Fatalf("reader %d gets other bytes from %d on", i, read[i])
		}
		read[i] += n
		r.Advance(n)
		return true
	}
	for sent < all || read != [2]int{all, all} {
		for sent < all && room {
			full, err := f.Append(whole[sent : sent+32<<10])
			if err != nil {
				t.Fatalf("after %d bytes, with %v read: %v", sent, read, err)
			}
			sent, room = sent+32<<10, !full
		}
		for step(0, &fast) {
		}
		if !step(1, &slow) && sent < all && !room {
			t.Fatalf("all wait for each other after %d bytes, with %v read", sent, read)
		}
	}
	if err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	fast.Close()
	slow.Close()
}
