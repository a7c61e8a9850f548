package reference_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/reference"
	"plimsoll/internal/lab/slo"
)

const (
	ms     = int64(1e6)
	second = 1000 * ms
)

var compute = flag.Bool("lines", false, "compute the true lines again, over millions of requests")

func objectives(t *testing.T, k *reference.Kind) slo.SLO {
	t.Helper()
	s, err := slo.Parse(k.SLO)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The lines that are written down are those of -lines, which takes minutes. Here each is only found
// to be between a rate that a service carries for some minutes and one that it does not: what warms
// or tips over needs more than that, and has more room.
func TestLinesAreTrue(t *testing.T) {
	for i := range reference.Kinds {
		k := &reference.Kinds[i]
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			s := objectives(t, k)
			if *compute {
				for seed := range uint64(3) {
					t.Logf("%s: %.1f", k.Name, k.FindLine(s, 8000, 4_000_000, seed+1))
				}
				return
			}
			if k.Line == 0 {
				if k.Meets(s, 8000, 100_000, 1) {
					t.Error("8000 requests a second are carried by a service that is said to have no line")
				}
				return
			}
			const above = 1.25
			below := .92
			if len(k.Says) > 0 {
				below = .7
			}
			if !k.Meets(s, below*k.Line, 600_000, 1) {
				t.Errorf("%.0f requests a second are too much; the line is said to be %.0f",
					below*k.Line, k.Line)
			}
			if k.Meets(s, above*k.Line, 600_000, 1) {
				t.Errorf("%.0f requests a second are carried; the line is said to be %.0f",
					above*k.Line, k.Line)
			}
		})
	}
}

func TestTheSameSeedMakesTheSameService(t *testing.T) {
	for _, k := range reference.Kinds {
		a, b := k.New(7), k.New(7)
		for i := range int64(2000) {
			doneA, statusA := a.Offer(i*ms/2, int(i)%len(k.Routes))
			doneB, statusB := b.Offer(i*ms/2, int(i)%len(k.Routes))
			if doneA != doneB || statusA != statusB {
				t.Fatalf("%s: request %d ends at %d with %d and at %d with %d",
					k.Name, i, doneA, statusA, doneB, statusB)
			}
			if doneA < i*ms/2 {
				t.Fatalf("%s: request %d is answered before it came", k.Name, i)
			}
		}
	}
}

func TestRequestsAreDrawnAsTheMixSays(t *testing.T) {
	k := reference.Kind{Routes: []reference.Route{{Path: "/a", Weight: 3}, {Path: "/b", Weight: 1}}}
	r, second := rand.New(rand.NewPCG(1, 2)), 0
	const n = 40_000
	for range n {
		second += k.Draw(r)
	}
	if share := float64(second) / n; math.Abs(share-.25) > .01 {
		t.Errorf("%.3f of the requests are for a route that has a quarter of them", share)
	}
}

func constant(workers int, takes int64) queue.Station {
	return queue.Station{Workers: workers, Service: queue.Constant(takes), Room: -1}
}

func TestRoutesShareWorkers(t *testing.T) {
	s := reference.Routes{
		Workers: 1, Takes: []reference.Draw{queue.Constant(ms), queue.Constant(10 * ms)},
	}.New(1)
	for i, want := range []int64{10 * ms, 11 * ms, 21 * ms} {
		if done, _ := s.Offer(0, (i+1)%2); done != want {
			t.Errorf("number %d is done at %d, not %d", i+1, done, want)
		}
	}
}

func TestACacheMissesWhatItHasNotSeen(t *testing.T) {
	s := reference.Cache{
		Workers: 1, Keys: 2, Hit: queue.Constant(ms), Miss: queue.Constant(10 * ms),
	}.New(1)
	misses := 0
	for i := range int64(100) {
		if done, _ := s.Offer(i*second, 0); done-i*second == 10*ms {
			misses++
		}
	}
	if misses != 2 {
		t.Errorf("two keys were missed %d times", misses)
	}
}

func TestACollectorDelaysWhatItMeets(t *testing.T) {
	s := reference.Collector{Station: constant(1, 5*ms), Every: second, For: 20 * ms}.New(1)
	for _, c := range []struct{ at, done int64 }{
		{0, 25 * ms},               // waits for the whole pause
		{500 * ms, 505 * ms},       // meets none
		{998 * ms, 1023 * ms},      // is interrupted for the whole of one
		{1023 * ms, 1028 * ms},     // comes when its worker is free
		{2010 * ms, 2025 * ms},     // comes in the middle
		{2500 * ms, 2505 * ms},     // and one more
		{2500 * ms, 2510 * ms},     // waits for that
		{10_000 * ms, 10_025 * ms}, // at a beginning, later
	} {
		if done, _ := s.Offer(c.at, 0); done != c.done {
			t.Errorf("what came at %d ms is done at %.1f ms, not %d", c.at/ms, float64(done)/1e6, c.done/ms)
		}
	}
}

func TestAPoolGrowsAfterABusyPeriodAndNotBeyondItsMost(t *testing.T) {
	s := reference.Autoscaled{
		Workers: 1, Most: 2, Takes: queue.Constant(8 * ms), Period: second, Busy: .5,
	}.New(1)
	// 100 a second keep one worker busy for 80 % of its time. Three at once show how many there
	// are.
	at := int64(0)
	together := func() (last int64) {
		for range 3 {
			last, _ = s.Offer(at, 0)
		}
		return last - at
	}
	for at = 0; at < second; at += 10 * ms {
		if done, _ := s.Offer(at, 0); done != at+8*ms {
			t.Fatalf("the request at %d ms is done at %d", at/ms, done)
		}
	}
	if got := together(); got != 16*ms {
		t.Errorf("after a busy second two workers must do three requests in 16 ms, not in %d ns", got)
	}
	for at += 100 * ms; at < 4*second; at += 5 * ms {
		s.Offer(at, 0)
	}
	if got := together(); got < 16*ms {
		t.Errorf("two workers are the most, and three requests took %d ns", got)
	}
}

func TestALimiterLetsItsRateAndItsBurstThrough(t *testing.T) {
	s := reference.Limited{Station: constant(100, 0), Rate: 100, Burst: 10}.New(1)
	good, refused := 0, 0
	for i := range int64(10_000) {
		at := i * ms
		switch done, status := s.Offer(at, 0); {
		case status == reference.Good:
			good++
		case status == reference.TooMany && done == at:
			refused++
		default:
			t.Fatalf("answered %d after %d ns", status, done-at)
		}
	}
	if good < 1008 || good > 1010 || good+refused != 10_000 {
		t.Errorf("%d got through in 10 s, %d were refused; the burst and 100 a second are 1010",
			good, refused)
	}
}

func TestARequestThatWaitsSlowsTheOthersDown(t *testing.T) {
	s := reference.Slowing{
		Workers: 1, Room: 4, Takes: queue.Constant(10 * ms), Doubles: 2, Slowest: 1.8,
	}.New(1)
	ends := int64(0)
	// The factors are 1, 1, 1.5 and 1.8, which is the most; then the room is full.
	for i, takes := range []int64{10, 10, 15, 18, 18} {
		ends += takes * ms
		if done, status := s.Offer(0, 0); done != ends || status != reference.Good {
			t.Errorf("number %d is done at %d with %d, not at %d", i+1, done, status, ends)
		}
	}
	if done, status := s.Offer(0, 0); done != 0 || status != reference.Unavailable {
		t.Errorf("without room the answer is %d at %d", status, done)
	}
}

func TestADelayedAnswerKeepsNoWorker(t *testing.T) {
	s := reference.Delayed{Station: constant(1, ms), Share: 1, For: 300 * ms}.New(1)
	for i := range int64(3) {
		if done, _ := s.Offer(0, 0); done != (301+i)*ms {
			t.Errorf("number %d is answered after %d ns", i+1, done)
		}
	}
}
