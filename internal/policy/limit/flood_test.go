//go:build !race

// One goroutine and a million values: the race detector finds nothing here, and takes twenty times
// as long.

package limit

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

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
			now, flooded := int64(time.Hour), 1_000_000
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

// A million values of an attacker, while a thousand clients go on.
func TestAMillionValuesDoNotTouchTheClientsThatAreThere(t *testing.T) {
	const clients, quota, attackers = 1000, 10, 1_000_000
	k := newKeyed(t, sample(TokenBucket, quota), 1<<14)
	now := int64(time.Second)
	for c := range clients {
		for range quota / 2 {
			if pass, spilled := k.ask(fmt.Sprint("client-", c), now); !pass || spilled {
				t.Fatalf("client %d: passes %v, shares %v", c, pass, spilled)
			}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	spilled := 0
	for i := range attackers {
		value := [4]byte{byte(i), byte(i >> 8), byte(i >> 16), 'x'}
		if _, shared := k.ask(string(value[:]), now); shared {
			spilled++
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if want := attackers - 1<<14; spilled < want {
		t.Errorf("%d of %d values share a bucket, want at least %d", spilled, attackers, want)
	}
	if n := k.table.held(k.rules, now); n > 1<<14 {
		t.Errorf("%d values are held", n)
	}
	for c := range clients {
		passed := 0
		for range quota {
			if pass, _ := k.ask(fmt.Sprint("client-", c), now); pass {
				passed++
			}
		}
		if passed != quota-quota/2 {
			t.Fatalf("of client %d %d more requests passed, want %d", c, passed, quota-quota/2)
		}
	}
	// When their buckets are full again the attacker's places are anybody's.
	if _, shared := k.ask("a new client", now+2*int64(time.Minute)); shared {
		t.Error("a new client shares a bucket although all places are idle")
	}
}
