package tier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"plimsoll/internal/redis"
	"plimsoll/internal/redis/redistest"
)

// heard is what a tier was told of other instances.
type heard struct {
	mu        sync.Mutex
	purges    []string
	forgotten int
}

func (h *heard) all() (purges []string, forgotten int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.purges...), h.forgotten
}

func newTier(t *testing.T, address string, changes ...func(*Options)) (*Tier, *heard) {
	t.Helper()
	h, began := &heard{}, time.Now()
	o := Options{
		Redis: redis.Options{Name: "test", Addresses: []string{address}, Timeout: 10 * time.Second,
			Prefix: "t:",
			Now:    func() int64 { return int64(time.Since(began)) + 1 }},
		MaxObject: 1 << 20, QueueBytes: 1 << 20, Channel: "t", Random: rand.Uint64,
		Wall: func() int64 { return time.Now().UnixNano() },
		Purged: func(p Purge) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.purges = append(h.purges, fmt.Sprintf("%c%c %s", p.Kind, p.way(), p.Name))
			return nil
		},
		Forget: func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.forgotten++
		},
	}
	for _, change := range changes {
		change(&o)
	}
	made, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made, h
}

// judged says what the history in Redis makes of a record.
func (t *Tier) judged(test *testing.T, r *Record, uri string) verdict {
	test.Helper()
	var v verdict
	client, err := t.writer.Connect(test.Context())
	if err != nil {
		test.Fatal(err)
	}
	do := func(ctx context.Context, client rueidis.Client) error {
		before, _ := t.purges.before()
		w, err := readWords(client.Do(ctx, t.wordsCommand(client, []byte(uri))))
		if err == nil {
			v, err = t.judge(ctx, client, r, []byte(uri), &w, before)
		}
		return err
	}
	if err := do(test.Context(), client); err != nil {
		test.Fatal(err)
	}
	return v
}

func TestOthersHearOfPurgesInTheirOrderAndAnInstanceNotOfItsOwn(t *testing.T) {
	server := redistest.Start(t)
	one, mine := newTier(t, server.Address())
	other, theirs := newTier(t, server.Address())
	one.Start()
	other.Start()
	redistest.Eventually(t, "both to be connected", func() bool {
		return one.Stats().Known && other.Stats().Known
	})
	var want []string
	for n := range 300 {
		name := fmt.Sprintf("a b\x00\n%d", n)
		one.Outdate([]Kind{URI, Tag, Prefix}[n%3], []byte(name), n%2 == 0)
		want = append(want, fmt.Sprintf("%c%c %s", []Kind{URI, Tag, Prefix}[n%3], "sh"[n%2], name))
	}
	if err := one.Purge(t.Context(), []Purge{{Kind: All}}); err != nil {
		t.Fatal(err)
	}
	want = append(want, "ah ")
	redistest.Eventually(t, "the other to hear of all", func() bool {
		got, _ := theirs.all()
		return len(got) >= len(want)
	})
	if got, _ := theirs.all(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it has heard of %q, want %q", got, want)
	}
	if got, forgotten := mine.all(); len(got) != 0 || forgotten != 1 { // at its beginning
		t.Errorf("the one has heard of %q, and forgotten %d times", got, forgotten)
	}
}

func TestTooManyPrefixesPurgeAllThatIsOlder(t *testing.T) {
	one, _ := newTier(t, redistest.Start(t).Address())
	one.Start()
	redistest.Eventually(t, "it to be connected", func() bool { return one.Stats().Known })
	old := Record{Key: []byte("mine"), Epoch: one.Mark().Epoch}
	purge := func(n int) {
		all := []Purge{{Kind: Prefix, Name: fmt.Append(nil, "other", n)}}
		if err := one.Purge(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	for n := range maxPrefixes {
		purge(n)
		if one.judged(t, &old, "mine") != good {
			t.Fatalf("after %d prefixes it is purged", n+1)
		}
	}
	if one.judged(t, &Record{Key: []byte("other0"), Epoch: old.Epoch}, "") != gone {
		t.Error("the first prefix is not purged")
	}
	purge(maxPrefixes)
	if one.judged(t, &old, "mine") != gone {
		t.Error("what is older than the list of prefixes is not purged")
	}
	// The last count is of no past.
	for count, want := range map[int64]verdict{1: good, maxPrefixes + 1: good, maxPrefixes + 2: gone} {
		r := Record{Key: []byte("mine"), Epoch: old.Epoch, Count: count}
		if got := one.judged(t, &r, "mine"); got != want {
			t.Errorf("a record of count %d is %d, want %d", count, got, want)
		}
	}
	if one.judged(t, &Record{Key: []byte("mine"), Epoch: "another", Count: maxPrefixes + 1}, "mine") != gone {
		t.Error("a record of another epoch is good")
	}
}

// What this instance wants purged holds for its own look-ups before Redis has it, however much that
// is.
func TestWhatWaitsToBePurgedHoldsHere(t *testing.T) {
	one, _ := newTier(t, redistest.Start(t).Address()) // which has not begun to send anything
	tagged := &Record{Key: []byte("http://a/b"), Tags: [][]byte{[]byte("x"), []byte("y")}}
	if got := one.judged(t, tagged, "u"); got != good {
		t.Fatalf("it is %d from the beginning", got)
	}
	for _, c := range []struct {
		purge Purge
		want  verdict
	}{
		{Purge{URI, false, []byte("v")}, good}, {Purge{Tag, false, []byte("z")}, good},
		{Purge{Prefix, false, []byte("http://a/c")}, good}, {Purge{URI, true, []byte("u")}, soft},
		{Purge{Prefix, false, []byte("http://a/")}, gone},
	} {
		one.Outdate(c.purge.Kind, c.purge.Name, c.purge.Soft)
		if got := one.judged(t, tagged, "u"); got != c.want {
			t.Errorf("after %+v it is %d, want %d", c.purge, got, c.want)
		}
	}
	other := &Record{Key: []byte("https://other")}
	for n := range maxWanted + 10 {
		one.Outdate(URI, fmt.Append(nil, n), false)
		if waiting := one.Stats().PurgesWaiting; waiting > maxWanted {
			t.Fatalf("%d purges wait", waiting)
		}
	}
	if one.judged(t, other, "w") != gone {
		t.Error("of too many purges some are forgotten")
	}
	one.Start()
	redistest.Eventually(t, "all to be sent", func() bool { return one.Stats().PurgesWaiting == 0 })
	if one.judged(t, &Record{Key: []byte("https://other"), Epoch: one.Mark().Epoch}, "w") != gone {
		t.Error("Redis was not told of what was forgotten here")
	}
}
