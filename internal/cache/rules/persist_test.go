package rules

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func kept(t *rapid.T) Stored {
	duration := rapid.Int64Range(0, 1e9*second)
	s := Stored{
		Received: rapid.Int64Range(0, 1e6*second).Draw(t, "received"), InitialAge: duration.Draw(t, "age"),
		Lifetime: duration.Draw(t, "lifetime"), StaleWhileRevalidate: duration.Draw(t, "while"),
		StaleIfError: duration.Draw(t, "error"), Date: rapid.Int64Range(-1e10, 1e10).Draw(t, "date"),
		LastModified: rapid.SampledFrom([]int64{none, 0, 1e9}).Draw(t, "modified"),
		Length:       rapid.Int64Range(-1, 1e12).Draw(t, "length"),
		Status:       rapid.IntRange(200, 599).Draw(t, "status"),
		set:          Directive(rapid.Uint32().Draw(t, "set")),
		sharedMaxAge: rapid.Bool().Draw(t, "s"), whileGiven: rapid.Bool().Draw(t, "w"),
		errorGiven: rapid.Bool().Draw(t, "e"),
	}
	s.etag.at = uint32(rapid.IntRange(0, 50).Draw(t, "at"))
	s.etag.end = s.etag.at + uint32(rapid.IntRange(0, 50).Draw(t, "end"))
	return s
}

func TestWhatIsStoredComesBackAsOldAsItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kept(t)
		held := rapid.Int64Range(0, 1e6*second).Draw(t, "held")
		there := Instant{Mono: s.Received + held, Wall: 1_800_000_000 * second}
		passed := rapid.Int64Range(-1e6*second, 1e6*second).Draw(t, "passed")
		here := Instant{Mono: rapid.Int64Range(0, 1e6*second).Draw(t, "mono"), Wall: there.Wall + passed}
		got, rest, ok := ReadStored(append(AppendStored(nil, &s, there), "rest"...), here, 100)
		if !ok || string(rest) != "rest" {
			t.Fatalf("%+v is not read: %v, rest %q", s, ok, rest)
		}
		if want := s.Age(there.Mono) + max(passed, 0); got.Age(here.Mono) != want {
			t.Fatalf("the age is %d, want %d", got.Age(here.Mono), want)
		}
		got.Received, got.InitialAge = s.Received, s.InitialAge
		if got != s {
			t.Fatalf("%+v, want %+v", got, s)
		}
	})
}

func TestNumbersThatNoResponseHasAreRefused(t *testing.T) {
	now := Instant{Mono: 5 * second, Wall: 1_800_000_000 * second}
	good := Stored{Status: 200, Lifetime: second, Length: 4, etag: span{2, 9}}
	if _, _, ok := ReadStored(AppendStored(nil, &good, now), now, 9); !ok {
		t.Fatal("a good one is refused")
	}
	for name, spoil := range map[string]func(*Stored){
		"a status":              func(s *Stored) { s.Status = 199 },
		"a length":              func(s *Stored) { s.Length = -2 },
		"a lifetime before 0":   func(s *Stored) { s.Lifetime = -1 },
		"a lifetime too long":   func(s *Stored) { s.Lifetime = math.MaxInt64 },
		"an age before 0":       func(s *Stored) { s.InitialAge, s.Received = -9*second, 5*second },
		"a tag behind the end":  func(s *Stored) { s.etag.end = 10 },
		"a tag the wrong way":   func(s *Stored) { s.etag = span{9, 2} },
		"a date behind the end": func(s *Stored) { s.modified = span{0, 1 << 31} },
	} {
		s := good
		spoil(&s)
		if _, _, ok := ReadStored(AppendStored(nil, &s, now), now, 9); ok {
			t.Errorf("%s is read", name)
		}
	}
	whole := AppendStored(nil, &good, now)
	for n := range whole {
		if _, _, ok := ReadStored(whole[:n], now, 9); ok {
			t.Errorf("the first %d of %d bytes are read", n, len(whole))
		}
	}
	ancient := AppendStored(nil, &good, Instant{Wall: math.MinInt64})
	if s, _, ok := ReadStored(ancient, now, 9); !ok || s.Age(now.Mono) != maxKept {
		t.Errorf("one from the beginning of time is of age %d", s.Age(now.Mono))
	}
}
