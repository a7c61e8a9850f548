package shared_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/limit"
	"plimsoll/internal/policy/limit/shared"
	"plimsoll/internal/redis"
	"plimsoll/internal/redis/redistest"
)

func newStore(t testing.TB, addresses ...string) *shared.Store {
	t.Helper()
	began := time.Now()
	s, err := shared.New(redis.Options{
		Name: "test", Addresses: addresses, Timeout: 10 * time.Second, Prefix: "test:",
		Now: func() int64 { return int64(time.Since(began)) + 1 },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

// engine is a loop in virtual time.
type engine struct{ now int64 }

func (e *engine) Resume(*exchange.Exchange, uint64, func(*exchange.Exchange) exchange.PolicyVerdict) {
	panic("nothing is resumed")
}
func (e *engine) Now() int64                                                { return e.now }
func (e *engine) LoopID() int                                               { return 0 }
func (e *engine) Backlog() int64                                            { return 0 }
func (*engine) Wake(*exchange.Exchange, uint64)                             {}
func (*engine) Fetch(*exchange.Exchange, *head.Request, exchange.Sink) bool { return false }

// alone asks a limit of one instance: whether a request passes, and what Retry-After says if not.
func alone(p *limit.Policy, e *engine) (pass bool, after string) {
	x := exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(e)
	if p.OnRequest(&x) == exchange.Continue {
		return true, ""
	}
	return false, string(x.Response.Fields.Find([]byte("Retry-After")).Value)
}

func TestTheScriptDecidesAsALimitOfOneInstance(t *testing.T) {
	s := newStore(t, redistest.Start(t).Address())
	const second = int64(time.Second)
	for name, c := range map[string]struct {
		limit limit.Limit
		rule  shared.Rule
	}{
		"bucket": {limit.Limit{Rate: limit.Rate{Count: 10, Per: time.Second}, Burst: 5, Cost: 2},
			shared.Bucket(second*8/10, 5, 2)},
		"gcra": {limit.Limit{Algorithm: limit.GCRA, Rate: limit.Rate{Count: 1000, Per: time.Second}},
			shared.Bucket(second*8/1000, 1, 1)},
		"fixed": {limit.Limit{Algorithm: limit.FixedWindow, Rate: limit.Rate{Count: 7, Per: time.Second}, Cost: 2},
			shared.FixedWindow(7, time.Second, 2)},
		"sliding": {limit.Limit{Algorithm: limit.SlidingWindow, Rate: limit.Rate{Count: 9, Per: time.Second}},
			shared.SlidingWindow(9, time.Second, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			e := &engine{now: 1000 * second}
			c.limit.Name = "x"
			p, err := limit.New(limit.Options{Limits: []limit.Limit{c.limit},
				Env: exchange.Env{Loops: 1, Now: func() int64 { return e.now }}})
			if err != nil {
				t.Fatal(err)
			}
			key := s.Key(name, nil)
			for n := range 2000 {
				e.now += random.Int64N([]int64{1, 100_000, 2_000_000}[n%3]) * 1000
				pass, after := alone(p, e)
				a, err := s.TakeAt(c.rule, key, 1, e.now/1000)
				if err != nil {
					t.Fatal(err)
				}
				wait := strconv.FormatInt(max(1, int64((a.Wait+time.Second-1)/time.Second)), 10)
				if pass != (a.Granted == 1) || !pass && wait != after {
					t.Fatalf("request %d at %d: alone %v (%s), by script %+v", n, e.now, pass, after, a)
				}
			}
		})
	}
}

func TestABatchIsWhatThereIs(t *testing.T) {
	s := newStore(t, redistest.Start(t).Address())
	for name, r := range map[string]shared.Rule{
		"bucket": shared.Bucket(8e9, 10, 3), "fixed": shared.FixedWindow(10, time.Hour, 3),
		"sliding": shared.SlidingWindow(10, time.Hour, 3),
	} {
		key := s.Key(name, nil)
		now := int64(1_800_000_000_000_000)
		for i, want := range []int64{2, 1, 0} {
			a, err := s.TakeAt(r, key, 2, now)
			if err != nil || a.Granted != want {
				t.Errorf("%s: request %d for 2 got %+v, %v; want %d", name, i, a, err, want)
			}
		}
	}
}

func TestWhatIsGivenBackMakesNoTokens(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, server.Address())
	const second = int64(1e6)
	now := 1_800_000_000 * second
	for name, r := range map[string]shared.Rule{
		"bucket": shared.Bucket(8e9, 3, 1), "fixed": shared.FixedWindow(3, 3*time.Second, 1),
		"sliding": shared.SlidingWindow(3, 3*time.Second, 1),
	} {
		take := func(key string, at int64) shared.Answer {
			a, err := s.TakeAt(r, key, 1, at)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		passes := func(key string, at int64) (n int) {
			for take(key, at).Granted == 1 {
				n++
			}
			return n
		}
		key := s.Key(name, []byte("at once"))
		first := take(key, now)
		take(key, now)
		if err := s.GiveBackAt(r, key, 1, first, now); err != nil {
			t.Fatal(err)
		}
		if n := passes(key, now); n != 2 {
			t.Errorf("%s: after one of two is given back %d pass, want 2", name, n)
		}
		// The token has come back by itself, and others have taken all.
		key = s.Key(name, []byte("late"))
		first = take(key, now)
		later := now + 9*second
		if n := passes(key, later); n != 3 {
			t.Errorf("%s: %d pass in a time of their own, want 3", name, n)
		}
		if err := s.GiveBackAt(r, key, 1, first, later); err != nil {
			t.Fatal(err)
		}
		if n := passes(key, later); n != 0 {
			t.Errorf("%s: a token was made: %d pass", name, n)
		}
	}
}

func TestAClockThatIsSetBackLocksNobodyOut(t *testing.T) {
	s := newStore(t, redistest.Start(t).Address())
	const hour = int64(3600e6)
	for name, r := range map[string]shared.Rule{
		"bucket": shared.Bucket(8e9, 3, 1), "fixed": shared.FixedWindow(3, 3*time.Second, 1),
		"sliding": shared.SlidingWindow(3, 3*time.Second, 1),
	} {
		key, now := s.Key(name, nil), int64(1_800_000_000_000_000)
		for _, step := range []struct{ at, want int64 }{{now, 3}, {now - hour, 0}, {now - hour + 9e6, 3}} {
			if a, err := s.TakeAt(r, key, 5, step.at); err != nil || a.Granted != step.want {
				t.Errorf("%s at %d: %+v, %v; want %d", name, step.at-now, a, err, step.want)
			}
		}
	}
}

func TestANewRateKeepsWhatWasTaken(t *testing.T) {
	s := newStore(t, redistest.Start(t).Address())
	now := int64(1_800_000_000_000_000)
	for name, c := range map[string]struct {
		old, new shared.Rule
		want     int64
	}{
		"bucket, twice as fast": {shared.Bucket(8e9, 10, 1), shared.Bucket(4e9, 10, 1), 3},
		"bucket, smaller":       {shared.Bucket(8e9, 10, 1), shared.Bucket(8e9, 7, 1), 0},
		"fixed, longer":         {shared.FixedWindow(10, time.Hour, 1), shared.FixedWindow(10, 2*time.Hour, 1), 3},
		"sliding, longer":       {shared.SlidingWindow(10, time.Hour, 1), shared.SlidingWindow(10, 2*time.Hour, 1), 3},
	} {
		key := s.Key(name, nil)
		if a, err := s.TakeAt(c.old, key, 7, now); err != nil || a.Granted != 7 {
			t.Fatalf("%s: %+v, %v", name, a, err)
		}
		if a, err := s.TakeAt(c.new, key, 10, now); err != nil || a.Granted != c.want {
			t.Errorf("%s: then %+v, %v; want %d", name, a, err, c.want)
		}
	}
}

func TestKeysAreBoundAndExpire(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, server.Address())
	seen := map[string]bool{}
	for i, value := range []string{"", "a", "b", "\x00\xff\r\n{}", string(make([]byte, 1<<20))} {
		for _, scope := range []string{"one", "two"} {
			key := s.Key(scope, []byte(value))
			if len(key) != len("test:limit:{}")+32 || seen[key] {
				t.Errorf("value %d has the key %q", i, key)
			}
			seen[key] = true
			for n, r := range []shared.Rule{
				shared.Bucket(8e9, 3, 1), shared.FixedWindow(3, time.Minute, 1), shared.SlidingWindow(3, time.Minute, 1),
			} {
				name := fmt.Sprint(key, n)
				answered := make(chan error, 1)
				if _, err := s.Take(&r, name, 1, func(_ shared.Answer, err error) { answered <- err }); err != nil {
					t.Fatal(err)
				}
				if err := <-answered; err != nil {
					t.Fatal(err)
				}
				if text, err := server.Do("PTTL", name); err != nil || text == "-1" || text == "-2" {
					t.Errorf("rule %d: the key lives for %s, %v", n, text, err)
				}
			}
		}
	}
}
