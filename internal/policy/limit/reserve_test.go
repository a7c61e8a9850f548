package limit

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// flood asks once for each of so many values that nobody else asks for.
func (k keyed) flood(from, values int, now int64) {
	for i := from; i < from+values; i++ {
		k.ask(string([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24), 'x'}), now)
	}
}

// Goroutines ask for the same values at the same moment while these move.
func TestMovingAtTheSameMomentGrantsNothing(t *testing.T) {
	const goroutines, values, quota = 4, 12, 9
	for round := range 40 {
		k := newKeyed(t, sample(TokenBucket, quota), 16)
		now := int64(time.Hour)
		k.flood(round*1000, 100, now)
		later := now + int64(time.Minute) + int64(round)
		k.flood(round*1000+500, 24, later-int64(30*time.Second))
		var passed [values]atomic.Int64
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for i := range values * 40 {
					if pass, _ := k.ask(fmt.Sprint(i%values), later); pass {
						passed[i%values].Add(1)
					}
				}
			})
		}
		all.Wait()
		for value := range passed {
			if n := passed[value].Load(); n > quota {
				t.Fatalf("round %d: of value %d %d requests pass at one moment, want at most %d", round, value, n, quota)
			}
		}
	}
}

func TestAMoveAllocatesNothing(t *testing.T) {
	k := newKeyed(t, sample(TokenBucket, 10), 1<<10)
	k.flood(0, 1<<14, 1e9)
	values := make([][]byte, 64)
	for i := range values {
		values[i] = fmt.Append(nil, "hot-", i)
	}
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		var p place
		for o := (outcome{gone: true}); o.gone; {
			k.locate(&p, k.secret, values[i%len(values)], 1e9)
			o = p.take(1e9)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}

// One loop has found the shared bucket, and before it takes from it another loop gives the value a
// place and lets as many pass there as may.
func TestARequestOfAValueThatHasJustMovedIsDecidedInItsPlace(t *testing.T) {
	const quota = 5
	k := newKeyed(t, sample(FixedWindow, quota), 16)
	now := int64(time.Hour)
	k.flood(0, 1000, now)
	var slow place
	later := now + 2*int64(time.Minute)
	if !k.locate(&slow, k.secret, []byte("client"), now) {
		t.Fatal("the table is not full")
	}
	for range quota {
		if pass, shares := k.ask("client", later); !pass || shares {
			t.Fatalf("passes %v, shares %v", pass, shares)
		}
	}
	if o := slow.take(later); !o.gone {
		t.Errorf("the shared bucket decides %+v for a value that has a place", o)
	}
	if pass, _ := k.ask("client", later); pass {
		t.Error("more requests pass than the limit allows")
	}
}

// A reload changes the numbers while a loop notes what has passed in a shared bucket: it reads no word
// by numbers that are older than the word.
func TestACellIsReadByNumbersAsNewAsItsWord(t *testing.T) {
	const rounds = 300_000
	now, at := int64(time.Hour), sample(FixedWindow, 9)
	before, err := newParams(at)
	if err != nil {
		t.Fatal(err)
	}
	at.rate.Per *= 3
	next, err := newParams(at)
	if err != nil {
		t.Fatal(err)
	}
	next = next.after(before, now)
	old, _, _ := before.step(fresh, now, 1)
	later, _, _ := next.step(old, now, 1)
	cells, rules := make([]cell, rounds), make([]atomic.Pointer[params], rounds)
	for i := range rules {
		rules[i].Store(before)
	}
	var come [2]atomic.Int64
	meet := func(me int, round int64) { // so that both are at the same round
		for come[me].Store(round); come[1-me].Load() < round; {
			runtime.Gosched()
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		for i := range cells {
			meet(0, int64(i))
			cells[i].keep(old, &rules[i])
		}
	})
	both.Go(func() {
		for i := range cells {
			meet(1, int64(i))
			rules[i].Store(next)
			cells[i].keep(later, &rules[i])
		}
	})
	both.Wait()
}
