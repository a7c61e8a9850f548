package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
)

func TestWhatIsStoredIsFoundWhole(t *testing.T) {
	s := open(t, store.Options{Bytes: 32 << 20})
	for i, n := range []int{0, 1, 200, 255, 256, 257, 1000, 4095, 33_000, 65_536, 65_537, 100_000,
		1 << 20, 3<<20 + 17} {
		key := fmt.Sprint("key", i)
		if !put(t, s, key, uint64(i), n) || !has(t, s, key, uint64(i), n) {
			t.Errorf("a body of %d bytes is not there", n)
		}
	}
	if has(t, s, "key", 0, 0) {
		t.Error("a key is there that nobody has put")
	}
	if st := s.Stats(); st.Hits != 14 || st.Misses != 1 || st.Entries != 14 {
		t.Errorf("%+v", st)
	}
}

// A look that uses nothing finds what Lookup finds, and leaves no trace of itself.
func TestALookThatUsesNothingIsNotCounted(t *testing.T) {
	s := open(t, store.Options{Bytes: 8 << 20})
	put(t, s, "k", 1, 1000, "tag")
	before := s.Stats()
	e := s.Peek([]byte("k"))
	if e == nil || e.Meta.Date != 1 {
		t.Fatalf("what is stored is not found: %+v", e)
	}
	e.Release()
	if s.Peek([]byte("none")) != nil {
		t.Error("what is not stored is found")
	}
	s.PurgeTag([]byte("tag"), false)
	if s.Peek([]byte("k")) != nil {
		t.Error("what was purged is found")
	}
	if after := s.Stats(); after.Hits != before.Hits || after.Misses != before.Misses ||
		after.Purged != before.Purged {
		t.Errorf("%+v, and before it %+v", after, before)
	}
}

func TestSlicesGiveRangesInBoundedParts(t *testing.T) {
	s := open(t, store.Options{Bytes: 16 << 20})
	const n = 200_000
	put(t, s, "k", 7, n)
	e := s.Lookup([]byte("k"))
	defer e.Release()
	whole := body(7, n)
	for _, r := range [][2]int64{{0, n}, {0, 1}, {n - 1, n}, {65_000, 66_000}, {70_000, 70_000},
		{131_071, 131_073}, {100, n + 50}} {
		want := whole[r[0]:min(r[1], n)]
		if got := bytes.Join(e.Slices(nil, r[0], r[1]), nil); !bytes.Equal(got, want) {
			t.Errorf("%v gives %d bytes, want %d", r, len(got), len(want))
		}
	}
	var got []byte
	var room [2][]byte
	for at := int64(0); at < n; {
		for _, part := range e.Slices(room[:0], at, n) {
			got = append(got, part...)
			at += int64(len(part))
		}
	}
	if !bytes.Equal(got, whole) {
		t.Error("what is asked for two parts at a time is not the whole")
	}
}

func TestWaitersGetTheBodyAsItComes(t *testing.T) {
	s := open(t, store.Options{Bytes: 16 << 20})
	f, filler := s.Begin([]byte("k"), []byte("k"))
	if _, again := s.Begin([]byte("k"), []byte("k")); !filler || again {
		t.Fatal("a key has two fetches")
	}
	var bells [3]bell
	var readers [3]store.Reader
	var at [3]int64
	for i := range readers {
		if !f.Join(&readers[i], &bells[i]) {
			t.Fatal("cannot join")
		}
		if e, phase := readers[i].Head(); e != nil || phase != store.Waiting {
			t.Fatalf("head is %v in phase %d", e, phase)
		}
	}
	if err := f.Head(headOf("k", 3, unknown)); err != nil {
		t.Fatal(err)
	}
	for i := range readers {
		e, phase := readers[i].Head()
		if bells[i].rung != 1 || phase != store.Filling || string(e.Block()) != string(fields(3)) {
			t.Fatalf("reader %d was woken %d times", i, bells[i].rung)
		}
		drain(t, &readers[i], 3, &at[i])
	}
	whole := body(3, 300_000)
	for sent := 0; sent < len(whole); {
		next := min(sent+7001, len(whole))
		if _, err := f.Append(whole[sent:next]); err != nil {
			t.Fatal(err)
		}
		sent = next
		drain(t, &readers[0], 3, &at[0])
		if at[0] != int64(sent) {
			t.Fatalf("reader 0 has %d of %d bytes", at[0], sent)
		}
	}
	if bells[1].rung != 2 {
		t.Errorf("a reader that has not looked was woken %d times more", bells[1].rung-1)
	}
	if err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	for i := range readers {
		if drain(t, &readers[i], 3, &at[i]); at[i] != int64(len(whole)) || !readers[i].Finished() {
			t.Errorf("reader %d has %d bytes", i, at[i])
		}
		readers[i].Close()
	}
	if !has(t, s, "k", 3, len(whole)) {
		t.Error("it was not stored")
	}
}

func TestAShortOrLongBodyIsNeverStored(t *testing.T) {
	s := open(t, store.Options{Bytes: 4 << 20})
	f, _ := s.Begin([]byte("short"), []byte("short"))
	var r store.Reader
	var at int64
	f.Join(&r, &bell{})
	f.Head(headOf("short", 1, 1000))
	f.Append(body(1, 999))
	if err := f.Finish(); !errors.Is(err, store.ErrLength) {
		t.Errorf("a body one byte short: %v", err)
	}
	if phase := drain(t, &r, 1, &at); phase != store.Broken || r.Finished() {
		t.Errorf("its reader sees phase %d", phase)
	}
	r.Close()
	f, _ = s.Begin([]byte("long"), []byte("long"))
	f.Head(headOf("long", 1, 1000))
	if _, err := f.Append(body(1, 1001)); !errors.Is(err, store.ErrLength) {
		t.Errorf("a body one byte too long: %v", err)
	}
	f.Fail(0)
	f, _ = s.Begin([]byte("cut"), []byte("cut"))
	f.Head(headOf("cut", 1, unknown))
	f.Append(body(1, 1000))
	f.Fail(0)
	for _, key := range []string{"short", "long", "cut"} {
		if s.Lookup([]byte(key)) != nil {
			t.Errorf("%s is there", key)
		}
	}
	if st := s.Stats(); st.Live != 0 || st.Fills != 0 {
		t.Errorf("left behind: %+v", st)
	}
}

// A body that says it is too long to be stored is shared by all who wait, and by nobody after its head.
func TestABodyThatSaysItIsTooLongIsSharedAsItComes(t *testing.T) {
	s := open(t, store.Options{Bytes: 4 << 20, MaxObject: 1000})
	f, _ := s.Begin([]byte("k"), []byte("k"))
	var bells [2]bell
	var readers [2]store.Reader
	for i := range readers {
		if !f.Join(&readers[i], &bells[i]) {
			t.Fatal("cannot join")
		}
		readers[i].Head()
	}
	body := bytes.Repeat([]byte("0123456789"), 20_000)
	h := store.Head{Key: []byte("k"), URI: []byte("k"), Block: []byte("block")}
	h.Meta.Length = int64(len(body))
	if err := f.Head(&h); err != nil || !f.Passes() {
		t.Fatalf("%v, passes: %v", err, f.Passes())
	}
	next, filler := s.Begin([]byte("k"), []byte("k"))
	if !filler {
		t.Error("who comes after the head waits for what passes")
	}
	next.Fail(0)
	got := make([][]byte, len(readers))
	for rest := body; len(rest) > 0; rest = rest[min(len(rest), 30_000):] {
		if _, err := f.Append(rest[:min(len(rest), 30_000)]); err != nil {
			t.Fatal(err)
		}
		for i := range readers {
			for {
				parts, _ := readers[i].Peek(make([][]byte, 0, 1))
				if len(parts) == 0 {
					break
				}
				got[i] = append(got[i], parts[0]...)
				readers[i].Advance(len(parts[0]))
			}
		}
	}
	if err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	for i := range readers {
		if !bytes.Equal(got[i], body) || !readers[i].Passes() {
			t.Errorf("reader %d has %d bytes of %d", i, len(got[i]), len(body))
		}
		readers[i].Close()
	}
	if s.Lookup([]byte("k")) != nil {
		t.Error("it is stored")
	}
	if st := s.Stats(); st.Live != 0 || st.Fills != 0 || st.TooLarge != 1 {
		t.Errorf("left behind: %+v", st)
	}
}

func TestARefusedAnswerSendsWaitersOnTheirOwn(t *testing.T) {
	s := open(t, store.Options{Bytes: 4 << 20})
	f, _ := s.Begin([]byte("k"), []byte("k"))
	var b bell
	var r store.Reader
	f.Join(&r, &b)
	r.Head()
	f.Refuse()
	if e, phase := r.Head(); e != nil || phase != store.Private || b.rung != 1 {
		t.Errorf("phase %d, woken %d times", phase, b.rung)
	}
	r.Close()
	if f.Join(&r, &b) {
		t.Error("a fill that is over can be joined")
	}
	if _, filler := s.Begin([]byte("k"), []byte("k")); !filler {
		t.Error("the key cannot be fetched again")
	}
}

func TestABodyThatGetsTooLongPassesThroughAWindow(t *testing.T) {
	s := open(t, store.Options{Bytes: 8 << 20, MaxObject: 1 << 20})
	f, _ := s.Begin([]byte("endless"), []byte("endless"))
	var r, slow store.Reader
	var at, slowAt int64
	var feeder bell
	f.Join(&r, &bell{})
	f.Join(&slow, &bell{})
	f.Feeder(&feeder)
	f.Head(headOf("endless", 5, unknown))
	const n = 10 << 20
	var buffer [50_000]byte
	for sent := int64(0); sent < n; {
		next := pattern(buffer[:min(n-sent, int64(len(buffer)))], 5, sent)
		full, err := f.Append(next)
		if err != nil {
			t.Fatal(err)
		}
		sent += int64(len(next))
		drain(t, &r, 5, &at)
		if full {
			before := feeder.rung
			drain(t, &slow, 5, &slowAt)
			if feeder.rung == before {
				t.Fatal("a feeder that waits is not woken when the slowest reader has gone on")
			}
		}
		if held := s.Stats().Bytes; held > 8<<20 {
			t.Fatalf("%d bytes are held", held)
		}
	}
	if f.Join(new(store.Reader), &bell{}) {
		t.Error("a body whose beginning is gone can be joined")
	}
	if err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	drain(t, &r, 5, &at)
	drain(t, &slow, 5, &slowAt)
	if at != n || slowAt != n || !r.Finished() || !slow.Finished() {
		t.Errorf("readers have %d and %d of %d bytes", at, slowAt, n)
	}
	r.Close()
	slow.Close()
	if s.Lookup([]byte("endless")) != nil {
		t.Error("it was stored")
	}
	if st := s.Stats(); st.TooLarge != 1 || st.Live != 0 {
		t.Errorf("%+v", st)
	}
}

func TestAnEndlessBodyThatNobodyReadsIsGivenUp(t *testing.T) {
	s := open(t, store.Options{Bytes: 8 << 20, MaxObject: 100_000})
	f, _ := s.Begin([]byte("k"), []byte("k"))
	f.Head(headOf("k", 5, unknown))
	if _, err := f.Append(body(5, 1<<20)); !errors.Is(err, store.ErrAbandoned) {
		t.Errorf("it is taken: %v", err)
	}
	f.Fail(0)
}

func TestAFeederThatGoesOnAllTheSameIsStopped(t *testing.T) {
	s := open(t, store.Options{Bytes: 8 << 20, MaxObject: 100_000})
	f, _ := s.Begin([]byte("k"), []byte("k"))
	var r store.Reader
	f.Join(&r, &bell{})
	f.Head(headOf("k", 5, unknown))
	full, err, given := false, error(nil), 0
	for chunk := body(5, 50_000); err == nil && given < 4<<20; given += len(chunk) {
		was := full
		if full, err = f.Append(chunk); err == nil && was && !full {
			t.Fatal("it is no longer full, and nobody has read")
		}
	}
	if !full && !errors.Is(err, store.ErrBehind) || given > 3<<19 {
		t.Errorf("%d bytes were taken: %v", given, err)
	}
	f.Fail(0)
	r.Close()
}

func TestLimits(t *testing.T) {
	for _, o := range []store.Options{{Bytes: 1000}, {Bytes: 8 << 20, MaxObject: 2 << 20},
		{Bytes: 8 << 20, MaxObject: -1}} {
		if _, err := store.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	s := open(t, store.Options{Bytes: 8 << 20, MaxObject: 1000, MaxWaiters: 1})
	if put(t, s, "k", 1, 1001) || !put(t, s, "k", 1, 1000) {
		t.Error("the limit of an object does not hold")
	}
	f, _ := s.Begin([]byte("w"), []byte("w"))
	var a, b store.Reader
	if !f.Join(&a, &bell{}) || f.Join(&b, &bell{}) {
		t.Error("the limit of waiters does not hold")
	}
	a.Close()
	if err := f.Head(headOf(strings.Repeat("k", 65_530), 1, 0)); !errors.Is(err, store.ErrHead) {
		t.Errorf("a key of 64 KB: %v", err)
	}
	many := make([]string, store.MaxTags+1)
	if put(t, s, "tags", 1, 10, many...) {
		t.Error("the limit of tags does not hold")
	}
}

func TestPurges(t *testing.T) {
	for _, soft := range []bool{false, true} {
		s := open(t, store.Options{Bytes: 8 << 20})
		for i := range 20 {
			put(t, s, fmt.Sprintf("/a/%d", i), uint64(i), 100, "all", fmt.Sprint("tag", i%4))
			put(t, s, fmt.Sprintf("/b/%d", i), uint64(i), 100, "b")
		}
		gone := func(key string) bool {
			e := s.Lookup([]byte(key))
			if e == nil {
				return !soft
			}
			defer e.Release()
			return soft && e.Soft()
		}
		count := func() (n int) {
			for i := range 20 {
				for _, dir := range "ab" {
					if gone(fmt.Sprintf("/%c/%d", dir, i)) {
						n++
					}
				}
			}
			return n
		}
		s.PurgeURI([]byte("/b/3"), soft)
		if !gone("/b/3") || count() != 1 {
			t.Errorf("soft %v: a URI's purge took %d", soft, count())
		}
		s.PurgeTag([]byte("tag2"), soft)
		if !gone("/a/2") || gone("/a/3") || count() != 6 {
			t.Errorf("soft %v: a tag's purge left %d", soft, count())
		}
		if n, err := s.PurgePrefix([]byte("/b/1"), soft); err != nil || n != 11 || count() != 17 {
			t.Errorf("soft %v: a prefix' purge took %d, then %d are gone: %v", soft, n, count(), err)
		}
		put(t, s, "/b/3", 3, 100, "b")
		if gone("/b/3") != false {
			t.Errorf("soft %v: what came after the purge is gone", soft)
		}
	}
}

func TestAFetchThatBeganBeforeAPurgeBringsNothing(t *testing.T) {
	s := open(t, store.Options{Bytes: 8 << 20})
	purges := map[string]func(){
		"uri":    func() { s.PurgeURI([]byte("/x/1"), false) },
		"tag":    func() { s.PurgeTag([]byte("t"), false) },
		"prefix": func() { s.PurgePrefix([]byte("/x"), false) },
	}
	for name, purge := range purges {
		for when := range 3 {
			f, _ := s.Begin([]byte("/x/1"), []byte("/x/1"))
			if when == 0 {
				purge()
			}
			f.Head(headOf("/x/1", 1, 10, "t"))
			if when == 1 {
				purge()
			}
			f.Append(body(1, 10))
			f.Finish()
			if when == 2 {
				purge()
			}
			if e := s.Lookup([]byte("/x/1")); e != nil {
				t.Errorf("%s, at %d: an answer from before the purge is there", name, when)
				e.Release()
			}
		}
	}
}

func TestSweepFreesWhatWasPurged(t *testing.T) {
	s := open(t, store.Options{Bytes: 8 << 20})
	for i := range 100 {
		put(t, s, fmt.Sprint(i), 1, 1000, "t")
	}
	s.PurgeTag([]byte("t"), false)
	if n := s.Sweep(); n != 100 || s.Stats().Live != 0 {
		t.Errorf("swept %d, %d bytes left", n, s.Stats().Live)
	}
}

func TestARenewedHeadKeepsTheBody(t *testing.T) {
	s := open(t, store.Options{Bytes: 8 << 20})
	put(t, s, "k", 4, 100_000)
	for round := range uint64(3) {
		old := s.Lookup([]byte("k"))
		f, _ := s.Begin([]byte("k"), []byte("k"))
		var r store.Reader
		var at int64
		f.Join(&r, &bell{})
		h := headOf("k", 100+round, 100_000)
		if err := f.Renew(old, h); err != nil {
			t.Fatal(err)
		}
		if drain(t, &r, 4, &at); at != 100_000 || !r.Finished() {
			t.Errorf("who waited has %d bytes", at)
		}
		r.Close()
		if string(content(old)) != string(body(4, 100_000)) {
			t.Error("who had the old one has other bytes")
		}
		old.Release()
		e := s.Lookup([]byte("k"))
		if string(e.Block()) != string(fields(100+round)) || string(content(e)) != string(body(4, 100_000)) {
			t.Errorf("round %d: the renewed one has fields %q", round, e.Block())
		}
		e.Release()
	}
	s.Remove([]byte("k"))
	if live := s.Stats().Live; live != 0 {
		t.Errorf("%d bytes are left", live)
	}
}

func TestMarkersAndRefreshes(t *testing.T) {
	s := open(t, store.Options{Bytes: 8 << 20})
	if err := s.SetVary([]byte("k"), []byte("k"), []byte("accept-encoding")); err != nil {
		t.Fatal(err)
	}
	e := s.Lookup([]byte("k"))
	if string(e.Vary()) != "accept-encoding" || e.Length() != 0 || e.Slices(nil, 0, 10) != nil {
		t.Errorf("a marker: %q", e.Vary())
	}
	e.Release()
	put(t, s, "v", 1, 10)
	e = s.Lookup([]byte("v"))
	defer e.Release()
	if e.Vary() != nil || !e.Refresh() || e.Refresh() {
		t.Error("two refresh at a time, or none")
	}
	e.RefreshOver()
	if !e.Refresh() {
		t.Error("nobody may try again")
	}
	var _ rules.Stored = e.Meta
}

func TestWhatIsHeldOutlivesItsEviction(t *testing.T) {
	s := open(t, store.Options{Bytes: 4 << 20})
	put(t, s, "held", 9, 300_000)
	e := s.Lookup([]byte("held"))
	for i := range 30 {
		put(t, s, fmt.Sprint(i), uint64(i), 300_000)
	}
	s.Remove([]byte("held"))
	for i := range 30 {
		put(t, s, fmt.Sprint(i), uint64(i), 300_000)
	}
	if string(content(e)) != string(body(9, 300_000)) {
		t.Error("its bytes are another's")
	}
	e.Release()
}
