package limit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Goroutines begin at the same moment with values that are not in the table yet.
func TestExactlyAsManyPassOverAllLoops(t *testing.T) {
	const goroutines, values, quota = 8, 40, 50
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			k := newKeyed(t, sample(a, quota), 4*values)
			var passed [values]atomic.Int64
			var all sync.WaitGroup
			begin := make(chan struct{})
			for range goroutines {
				all.Go(func() {
					<-begin
					for i := range values * quota {
						value := i % values
						// Time goes on: a place that changed its owner counts from a nanosecond
						// later.
						if pass, _ := k.ask(fmt.Sprint("value-", value), 1e9+int64(i)); pass {
							passed[value].Add(1)
						}
					}
				})
			}
			close(begin)
			all.Wait()
			for value := range passed {
				if n := passed[value].Load(); n != quota {
					t.Errorf("of value %d %d requests passed, want %d", value, n, quota)
				}
			}
		})
	}
}

// Values come and go so fast that places change their owners all the time. A bucket of one token
// that takes 3 ticks to come back: in each tick a value is asked several times at once.
func TestPlacesThatChangeOwnersStayExact(t *testing.T) {
	const goroutines, values, ticks = 4, 200, 300
	n := numbers{algorithm: TokenBucket, rate: Rate{1, 3 * time.Millisecond}, burst: 1, cost: 1}
	k := newKeyed(t, n, 32)
	for tick := range int64(ticks) {
		now := tick * int64(time.Millisecond)
		var passed, spilled [values]atomic.Int64
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(tick), uint64(g/2)))
				for range 60 {
					value := r.IntN(values)
					pass, shared := k.ask(fmt.Sprint(value), now)
					if shared {
						spilled[value].Add(1)
					} else if pass {
						passed[value].Add(1)
					}
				}
			})
		}
		all.Wait()
		for value := range passed {
			if n := passed[value].Load(); n > 1 {
				t.Fatalf("tick %d: of value %d %d requests passed with a burst of 1", tick, value, n)
			}
		}
	}
}

// A place that nobody has asked yet may be taken again when the table is full, even by the value it
// was given to. So what holds is what counts: places that goroutines were given and which are still
// the value's are one.
func TestAValueHasOnePlace(t *testing.T) {
	k := newKeyed(t, sample(TokenBucket, 5), 64)
	for round := range 200 {
		h, g := k.secret.Sum(fmt.Append(nil, round))
		var all sync.WaitGroup
		var found [4]bool
		for i := range found {
			all.Go(func() {
				var p place
				found[i] = k.table.enter(&p, h, g, k.rules, int64(round), 0)
			})
		}
		all.Wait()
		if found != [4]bool{true, true, true, true} {
			t.Fatalf("round %d: goroutines found a place: %v", round, found)
		}
		places := 0
		for n := range 2 * ways {
			var p place
			k.table.at(&p, h, g, n)
			if p.own(p.state.Load()) {
				places++
			}
		}
		if places != 1 {
			t.Fatalf("round %d: the value has %d places", round, places)
		}
	}
}

func TestValuesThatShareABucketGetAtLeastTheLimitTogether(t *testing.T) {
	const quota = 7
	k := newKeyed(t, sample(TokenBucket, quota), 16)
	for i := range 200 {
		k.ask(fmt.Sprint("first-", i), 1e9)
	}
	passed := 0
	for i := range 10_000 {
		if pass, shared := k.ask(fmt.Sprint("late-", i), 1e9); !shared {
			t.Fatal("a value found a place in a full table")
		} else if pass {
			passed++
		}
	}
	if passed > spills*quota || passed < spills*quota-200 {
		t.Errorf("%d requests of values without a place passed, want nearly %d", passed, spills*quota)
	}
}

func TestKeysOfAnyLengthAndBytesAreToldApart(t *testing.T) {
	k := newKeyed(t, sample(FixedWindow, 1), 1<<12)
	for n := 1; n < 300; n++ {
		value := make([]byte, n)
		if pass, _ := k.ask(string(value), 1e9); !pass {
			t.Errorf("%d zero bytes are taken for another value", n)
		}
		value[n-1] = 0xff
		if pass, _ := k.ask(string(value), 1e9); !pass {
			t.Errorf("%d bytes that end in 0xff are taken for another value", n)
		}
		if pass, _ := k.ask(string(value), 1e9); pass {
			t.Errorf("%d bytes that end in 0xff are not known again", n)
		}
	}
}
