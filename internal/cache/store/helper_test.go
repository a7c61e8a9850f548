package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/head"
)

func open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	s, err := store.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("%v: %+v", err, s.Stats())
		}
	})
	return s
}

// pattern fills b, which stands at byte from of a body, with bytes that only the body of this seed
// has there.
func pattern(b []byte, seed uint64, from int64) []byte {
	const n = uint64(len(noise))
	for i := 0; i < len(b); {
		i += copy(b[i:], noise[(seed%n*7919+uint64(from)+uint64(i))%n:])
	}
	return b
}

// noise is what all bodies are cut from, each seed's from a place of its own: to make bytes anew is
// slow under the race detector. Its length is a prime, so it does not repeat where pieces begin.
var noise = func() (b [65_521]byte) {
	rand.NewChaCha8([32]byte{}).Read(b[:])
	return b
}()

func body(seed uint64, n int) []byte { return pattern(make([]byte, n), seed, 0) }

func fields(seed uint64) []byte { return fmt.Appendf(nil, "ETag: \"%d\"\r\nDate: x\r\n", seed) }

// headOf makes the head of a response. length may be head.Unknown.
func headOf(key string, seed uint64, length int64, tags ...string) *store.Head {
	h := &store.Head{Key: []byte(key), URI: []byte(key), Block: fields(seed),
		Meta: rules.Stored{Length: length, Date: int64(seed)}}
	for _, tag := range tags {
		h.Tags = append(h.Tags, []byte(tag))
	}
	return h
}

// put stores a response.
func put(t testing.TB, s *store.Store, key string, seed uint64, n int, tags ...string) bool {
	t.Helper()
	f, filler := s.Begin([]byte(key), []byte(key))
	if !filler {
		t.Fatalf("somebody else fetches %s", key)
	}
	switch err := f.Head(headOf(key, seed, int64(n), tags...)); {
	case errors.Is(err, store.ErrNoRoom):
		return false
	case err != nil:
		t.Fatal(err)
	}
	piece := make([]byte, min(n, 16<<10)) // as it comes from a network
	for from := 0; from < n; from += len(piece) {
		if _, err := f.Append(pattern(piece[:min(len(piece), n-from)], seed, int64(from))); err != nil {
			f.Fail(0)
			if errors.Is(err, store.ErrAbandoned) {
				return false
			}
			t.Fatal(err)
		}
	}
	if err := f.Finish(); err != nil {
		t.Fatal(err)
	}
	return true
}

// content reads an entry's body whole.
func content(e *store.Entry) []byte {
	var b []byte
	for _, part := range e.Slices(nil, 0, e.Length()) {
		b = append(b, part...)
	}
	return b
}

// has says whether the key is there, and fails when what is there is not what was put.
func has(t testing.TB, s *store.Store, key string, seed uint64, n int) bool {
	t.Helper()
	e := s.Lookup([]byte(key))
	if e == nil {
		return false
	}
	defer e.Release()
	if string(e.Block()) != string(fields(seed)) || string(content(e)) != string(body(seed, n)) ||
		e.Meta.Length != int64(n) {
		t.Errorf("%s has fields %q and %d bytes of body that are not its own", key, e.Block(), e.Length())
	}
	return true
}

// bell is a Waker that counts.
type bell struct{ rung int }

func (b *bell) Wake() { b.rung++ }

// drain reads what a reader is given now, and checks it.
func drain(t testing.TB, r *store.Reader, seed uint64, at *int64) store.Phase {
	t.Helper()
	var room [3][]byte
	for {
		got, phase := r.Peek(room[:0])
		if len(got) == 0 {
			return phase
		}
		for _, part := range got {
			if len(part) == 0 || len(part) > store.PieceBytes {
				t.Fatalf("a part of %d bytes", len(part))
			}
			if string(part) != string(pattern(make([]byte, len(part)), seed, *at)) {
				t.Fatalf("bytes from %d on are not those of the body", *at)
			}
			*at += int64(len(part))
			r.Advance(len(part))
		}
	}
}

const unknown = head.Unknown
