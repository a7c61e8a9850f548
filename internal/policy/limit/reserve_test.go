package limit

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/invariant"
)

// flood asks once for each of so many values that nobody else asks for.
func (k keyed) flood(from, values int, now int64) {
	for i := from; i < from+values; i++ {
		k.ask(string([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24), 'x'}), now)
	}
}

func million() int {
	if invariant.On { // the race detector makes it a hundred times slower
		return 50_000
	}
	return 1_000_000
}

// A client that comes after a million values of an attacker have taken all places, and while more
// of them come: soon its own limit holds for it, and nobody else's requests count against it.
func TestAClientThatComesInAFloodSoonHasAPlace(t *testing.T) {
	const quota = 60 // a minute
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			n := sample(a, quota)
			if a == GCRA {
				n.burst = 1
			}
			k := newKeyed(t, n, 1<<12)
			now, flooded := int64(time.Hour), million()
			k.flood(0, flooded, now)
			_, shares := k.ask("client", now)
			if !shares {
				t.Fatal("the table is not full after the flood")
			}
			came := 0
			for ; shares; came++ {
				if came == 60 {
					t.Fatal("the client shares a bucket after 60 requests")
				}
				now += int64(4 * time.Second)
				k.flood(flooded, 1<<12, now) // the places that have become idle are taken again
				flooded += 1 << 12
				_, shares = k.ask("client", now)
			}
			t.Logf("a place of its own after %d requests", came)
			now += int64(2 * time.Minute) // what the shared bucket owed is over
			for i := range 100 {
				now += int64(1500 * time.Millisecond)
				k.flood(flooded, 1<<10, now)
				flooded += 1 << 10
				if pass, shares := k.ask("client", now); !pass || shares {
					t.Fatalf("request %d under its own rate: passes %v, shares %v", i, pass, shares)
				}
			}
		})
	}
}

// An attacker who sends each of many values some times does not get the last places of the reserve.
func TestValuesThatComeAFewTimesLeaveRoomInTheReserve(t *testing.T) {
	k := newKeyed(t, sample(TokenBucket, 2), 1<<10)
	now := int64(time.Hour)
	k.flood(0, 1<<16, now)
	for i := range 5_000 {
		for range 4 * heavy {
			k.ask(fmt.Sprint("attacker-", i), now)
		}
	}
	for c := range 20 {
		shares := true
		for n := 0; shares && n < 2000; n++ {
			_, shares = k.ask(fmt.Sprint("client-", c), now)
		}
		if shares {
			t.Errorf("client %d finds no place however often it comes", c)
		}
	}
}

// Values share buckets, move to places and lose them when they are idle, at random: never do more
// requests of a value pass than its limit allows.
func TestMovingToAPlaceGrantsNothing(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := drawNumbers(t, a)
			p, err := newParams(n)
			if err != nil {
				t.Fatal(err)
			}
			k := keyed{newStore(p, true, 16), fixedSecret()}
			values := rapid.IntRange(20, 80).Draw(t, "values")
			hot := rapid.IntRange(1, 6).Draw(t, "hot values")
			passed := make([][]int64, values)
			now, period := rapid.Int64Range(0, 1e12).Draw(t, "begin"), int64(n.rate.Per)
			moved := 0
			shared := make([]bool, values)
			for range 1500 {
				switch r := rapid.IntRange(0, 99).Draw(t, "step"); {
				case r == 99:
					now += 3 * period
				case r > 80:
					now += period / n.rate.Count / 4
				case r > 50:
					now++
				}
				value := rapid.IntRange(0, hot-1).Draw(t, "value")
				if rapid.Bool().Draw(t, "anybody") {
					value = rapid.IntRange(0, values-1).Draw(t, "any value")
				}
				pass, wait, shares := k.askFor(fmt.Sprint(value), now)
				if pass {
					passed[value] = append(passed[value], now+wait)
				}
				if shared[value] && !shares {
					moved++
				}
				shared[value] = shares
			}
			for value, times := range passed {
				for i := range times {
					for j := i; j < len(times); j++ {
						if most := bound(n, p, times[j]-times[i]); int64(j-i+1) > most {
							t.Fatalf("%+v: of value %d %d pass in %d ns, want at most %d (%d moves)",
								n, value, j-i+1, times[j]-times[i], most, moved)
						}
					}
				}
			}
		}))
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
