package http2_test

import (
	"math/rand/v2"
	"testing"

	"plimsoll/internal/http2"
)

// link is a path in virtual time: so many bytes a second, and a delay both ways. Its peer sends
// as much as its window allows.
type link struct {
	rate, delay int64 // bytes a second; nanoseconds each way
	least, most int
}

// carry has a peer send for some seconds, and returns how large the window has become and the
// number of PINGs.
func (k link) carry(seconds int) (size, pings int) {
	var p http2.Path
	p.Init(k.least, k.most)
	const step = int64(100_000) // nanoseconds
	type event struct {
		at   int64
		size int // data of so many bytes arrives; or credit reaches the peer
	}
	window, budget := k.least, int64(0)
	var data, credit []event
	announced := k.least
	pongAt, mark := int64(0), [8]byte{}
	for now := int64(1e9); now < int64(seconds+1)*1e9; now += step {
		for len(credit) > 0 && credit[0].at <= now {
			window += credit[0].size
			credit = credit[1:]
		}
		budget = min(budget+k.rate*step/1e9, k.rate*step/1e9+1<<14)
		if n := min(int64(window), budget); n > 0 {
			budget, window = budget-n, window-int(n)
			data = append(data, event{now + k.delay, int(n)})
		}
		for len(data) > 0 && data[0].at <= now {
			n := data[0].size
			data = data[1:]
			if p.Passed(n, now) {
				pings++
				pongAt, mark = now+2*k.delay, p.Mark()
			}
			credit = append(credit, event{now + k.delay, n})
		}
		if pongAt != 0 && pongAt <= now {
			pongAt = 0
			if p.Answered(mark, now) {
				credit = append(credit, event{now + k.delay, p.Size() - announced})
				announced = p.Size()
			}
		}
	}
	return p.Size(), pings
}

func TestAWindowFollowsItsPath(t *testing.T) {
	const least, most = 64 << 10, 1 << 20
	for _, c := range []struct {
		name        string
		rate, delay int64
		from, to    int
	}{
		{"fast and long", 100e6, 50e6, most, most},
		{"fast and short", 1e9, 50e3, most / 16, most / 4},                 // it needs 100 KB
		{"slow and long", 100e3, 50e6, least, least},                       // 10 KB
		{"slow and longest", 1e6, 100e6, 200_000, 800_000},                 // 200 KB
		{"slow and short", 1e6, 1e6, least, least},                         // 2 KB
		{"what the window just carries", 320_000, 100e6, least, 128 << 10}, // 64 KB
	} {
		size, pings := link{c.rate, c.delay, least, most}.carry(30)
		if size < c.from || size > c.to {
			t.Errorf("%s: a window of %d bytes, want %d to %d", c.name, size, c.from, c.to)
		}
		if sent := 30 * c.rate; int64(pings) > 10+sent/(64<<10) {
			t.Errorf("%s: %d PINGs for %d bytes", c.name, pings, sent)
		}
	}
}

func TestAPathOfLittleIsNotAsked(t *testing.T) {
	var p http2.Path
	p.Init(64<<10, 1<<20)
	for now := range int64(63) {
		if p.Passed(1<<10, now) {
			t.Fatal("it is asked")
		}
	}
	if !p.Passed(1<<10, 64) || p.Passed(1<<20, 65) {
		t.Error("64 KB are asked about once")
	}
	if p.Answered([8]byte{}, 66) || !p.Answered(p.Mark(), 66) || p.Answered(p.Mark(), 67) {
		t.Error("only the PING's own answer counts, and once")
	}
}

func TestAPathThatWasIdleBeginsAgain(t *testing.T) {
	var p http2.Path
	p.Init(64<<10, 1<<20)
	now := int64(0)
	p.Passed(64<<10, now)
	p.Passed(1<<20, now)
	if !p.Answered(p.Mark(), now+1e6) || p.Size() != 1<<20 || p.Passed(1<<20, now+2e6) {
		t.Fatalf("%d bytes", p.Size())
	}
	p.Passed(1, now+9e9)
	if p.Size() != 1<<20 {
		t.Error("it was not idle")
	}
	late := p.Mark()
	if p.Passed(1, now+30e9); p.Size() != 64<<10 {
		t.Errorf("%d bytes", p.Size())
	}
	if p.Answered(late, now+30e9) {
		t.Error("an answer from before counts")
	}
}

// Whatever a peer sends and acknowledges, the window stays within its bounds and a PING is not
// asked for again before the last one is answered.
func TestAPathStaysWithinItsBounds(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 9))
		var p http2.Path
		least := 1 + random.IntN(1<<16)
		most := least + random.IntN(1<<22)
		p.Init(least, most)
		now, under := int64(0), false
		for range 300 {
			if random.IntN(50) == 0 {
				now += 11e9
			}
			now += random.Int64N(1 << random.IntN(30))
			if random.IntN(3) > 0 {
				idle := p.Size()
				ask := p.Passed(random.IntN(1+1<<random.IntN(24)), now)
				if ask && under && p.Size() == idle && idle != least {
					t.Fatalf("seed %d: asked twice", seed)
				}
				under = under || ask
			} else if mark := p.Mark(); random.IntN(4) > 0 {
				before := p.Size()
				if grew := p.Answered(mark, now); grew != (p.Size() > before) || p.Size() < before {
					t.Fatalf("seed %d: from %d to %d, %v", seed, before, p.Size(), grew)
				}
				under = false
			} else if p.Answered([8]byte{byte(random.Uint32())}, now) {
				t.Fatalf("seed %d: a PING that was not sent is answered", seed)
			}
			if p.Size() < least || p.Size() > most {
				t.Fatalf("seed %d: %d is not %d to %d", seed, p.Size(), least, most)
			}
		}
	}
}
