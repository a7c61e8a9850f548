package limit

import (
	"testing"
	"time"
)

// passes is how many requests pass at one moment.
func (s *subject) passes(now int64) (n int64) {
	for s.ask(now).pass {
		n++
	}
	return n
}

func TestAClockThatStepsBackLocksNobodyOut(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			s := newSubject(t, sample(a, 6))
			day := 24 * 3600 * second
			if n := s.passes(2 * day); n != 6 {
				t.Fatalf("%d pass at first, want 6", n)
			}
			if n := s.passes(day); n != 0 {
				t.Errorf("%d pass when the clock has gone back", n)
			}
			if n := s.passes(day + 121*second); n != 6 {
				t.Errorf("%d pass two minutes later, want 6", n)
			}
		})
	}
}

func TestAClockThatStepsForwardOpensNoMoreThanOneBurst(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			s := newSubject(t, sample(a, 6))
			total := s.passes(0)
			total += s.passes(1000 * 24 * 3600 * second)
			total += s.passes(1000*24*3600*second + 1)
			if total != 12 {
				t.Errorf("%d pass before and after the step, want 12", total)
			}
		})
	}
}

// Loops read the clock at the beginning of a turn, so one may be behind another.
func TestLoopsWhoseClocksDifferALittle(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			s := newSubject(t, sample(a, 6))
			now := 60 * second // at a window's edge
			if n := s.passes(now); n != 6 {
				t.Fatalf("%d pass, want 6", n)
			}
			if n := s.passes(now - 1e6); n != 0 {
				t.Errorf("%d more pass on a loop that is a millisecond behind", n)
			}
		})
	}
}

// change gives the subject new numbers, as a reload does.
func (s *subject) change(t *testing.T, n numbers, now int64) {
	p, err := newParams(n)
	if err != nil {
		t.Fatal(err)
	}
	s.p = p.after(s.own.params.Load(), now)
	s.own.params.Store(s.p)
}

func TestARateThatChangesKeepsWhatWasCounted(t *testing.T) {
	at := func(a Algorithm, count int64, per time.Duration) numbers {
		n := sample(a, count)
		n.rate.Per = per
		return n
	}
	for _, c := range []struct {
		a         Algorithm
		to        numbers
		used      int64 // before
		more      int64 // that pass at once after
		inAMinute int64 // that pass a minute later
	}{
		{TokenBucket, at(TokenBucket, 20, time.Minute), 10, 10, 20}, // ten tokens are owed
		{TokenBucket, at(TokenBucket, 20, time.Minute), 4, 16, 20},  // four tokens are owed
		{TokenBucket, at(TokenBucket, 5, time.Minute), 10, 0, 5},
		{TokenBucket, at(TokenBucket, 5, time.Minute), 4, 1, 5},
		{GCRA, at(GCRA, 2, time.Second), 10, 0, 2},
		{GCRA, at(GCRA, 10, time.Hour), 4, 6, 0},
		{FixedWindow, at(FixedWindow, 25, time.Minute), 10, 15, 25},
		{FixedWindow, at(FixedWindow, 5, time.Minute), 10, 0, 5},
		{FixedWindow, at(FixedWindow, 12, time.Hour), 10, 2, 0},
		{SlidingWindow, at(SlidingWindow, 25, time.Minute), 10, 15, 0},
		{SlidingWindow, at(SlidingWindow, 12, time.Hour), 10, 2, 0},
		{SlidingLog, at(SlidingLog, 10, time.Hour), 10, 0, 10}, // those that passed are over after a minute
		{LeakyBucket, at(LeakyBucket, 20, time.Minute), 10, 10, 20},
	} {
		s := newSubject(t, at(c.a, 10, time.Minute))
		now := 60 * second
		for range c.used {
			if !s.ask(now).pass {
				t.Fatalf("%s: the limit does not let %d pass", c.a, c.used)
			}
		}
		s.change(t, c.to, now)
		if n := s.passes(now); n != c.more {
			t.Errorf("%s, %d used, then %s: %d pass at once, want %d", c.a, c.used, c.to.rate, n, c.more)
		}
		if c.inAMinute == 0 {
			continue
		}
		if n := s.passes(now + 60*second); n != c.inAMinute {
			t.Errorf("%s, %d used, then %s: %d pass a minute later, want %d", c.a, c.used, c.to.rate, n, c.inAMinute)
		}
	}
}

func TestManyChangesInARow(t *testing.T) {
	for _, a := range allAlgorithms {
		s := newSubject(t, sample(a, 10))
		if n := s.passes(0); n != 10 {
			t.Fatalf("%s: %d pass, want 10", a, n)
		}
		for i := range int64(3) {
			n := sample(a, 10)
			n.rate.Per = time.Minute + time.Duration(i)*time.Second
			s.change(t, n, i+1)
		}
		if n := s.passes(4); n > 1 {
			t.Errorf("%s: after three changes %d more pass", a, n)
		}
		if n := s.passes(300 * second); n != 10 {
			t.Errorf("%s: five minutes later %d pass, want 10", a, n)
		}
	}
}

func TestNumbersThatMakeNoSenseAreRefused(t *testing.T) {
	bucket := func(count int64, per time.Duration, burst, cost int64) numbers {
		return numbers{algorithm: TokenBucket, rate: Rate{count, per}, burst: burst, cost: cost}
	}
	for _, n := range []numbers{
		bucket(0, time.Second, 1, 1),
		bucket(-1, time.Second, 1, 1),
		bucket(1, 0, 1, 1),
		bucket(1, -time.Second, 1, 1),
		bucket(1, 1<<62, 1, 1),
		bucket(1e18, time.Second, 1, 1),
		bucket(20_000_000, time.Second, 1, 1),
		bucket(1, time.Second, 4, 5),
		bucket(1, time.Second, -4, 1),
		bucket(1, time.Second, 1, 0),
		bucket(1, time.Second, 1<<62, 1),
		{algorithm: LeakyBucket, rate: Rate{1, time.Second}, cost: 1, queue: 5},
		{algorithm: LeakyBucket, rate: Rate{1, time.Second}, cost: 1, wait: time.Second},
		{algorithm: LeakyBucket, rate: Rate{1, time.Second}, cost: 1 << 62, queue: 1, wait: time.Second},
		{algorithm: FixedWindow, rate: Rate{1, time.Second}, cost: 2},
		{algorithm: SlidingWindow, rate: Rate{1_000_000, time.Second}, cost: 1},
		{algorithm: SlidingLog, rate: Rate{10_001, time.Second}, cost: 1},
	} {
		if _, err := newParams(n); err == nil {
			t.Errorf("%+v is accepted", n)
		}
	}
	for _, a := range allAlgorithms {
		for _, rate := range []Rate{{1, maxPeriod}, {1, minPeriod}, {10_000, minPeriod}, {60_000, time.Second}} {
			if a == SlidingLog && rate.Count > 1e4 || a == SlidingWindow && rate.Per == minPeriod {
				continue
			}
			n := sample(a, rate.Count)
			n.rate, n.queue = rate, max(n.queue, 1)
			p, err := newParams(n)
			if err != nil {
				t.Errorf("%s: %+v is refused: %v", a, rate, err)
				continue
			}
			// At the end of the nine years that words have room for.
			s := newSubject(t, n)
			for _, now := range []int64{maxTime - 5*int64(maxPeriod), maxTime - 2*int64(maxPeriod)} {
				if !s.ask(now).pass {
					t.Errorf("%s, %v: does not pass at %d", a, p.rate, now)
				}
			}
		}
	}
}
