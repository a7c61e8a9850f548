package queue_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/stats"
)

const ms = int64(1e6)

// outcome is the result of a long simulation of a station.
type outcome struct {
	meanWait float64 // nanoseconds, of the served requests
	late     float64 // share of responses longer than the limit
	waited   float64 // share that had to wait
	refused  float64
}

// simulate offers Poisson arrivals. It draws the service times in parallel with the station, to
// compute the waits from the responses.
func simulate(s queue.Station, rate float64, limit int64, seed uint64) outcome {
	const n = 600_000
	service, last := s.Service, int64(0)
	s.Service = func(r *rand.Rand) int64 { last = service(r); return last }
	q, arrivals := queue.New(s, seed), queue.NewArrivals(rate, true, seed)
	var o outcome
	served := 0.0
	for i := range n {
		at := arrivals.Next()
		done, ok := q.Offer(at)
		if i < n/10 {
			continue
		}
		if !ok {
			o.refused++
			continue
		}
		served++
		wait := done - last - at
		o.meanWait += float64(wait)
		if wait > 0 {
			o.waited++
		}
		if done-at > limit {
			o.late++
		}
	}
	o.meanWait, o.late, o.waited = o.meanWait/served, o.late/served, o.waited/served
	o.refused /= served + o.refused
	return o
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s is %.6g; theory says %.6g", what, got, want)
	}
}

func TestExponentialWorkersWaitAsErlangComputed(t *testing.T) {
	for _, k := range []int{1, 2, 4, 8, 32} {
		mean, load := 5*ms, 0.8*float64(k)
		rate := load / (float64(mean) / 1e9)
		limit := 25 * ms
		got := simulate(queue.Station{Workers: k, Service: queue.Exponential(mean), Room: -1}, rate, limit, 7)
		c := stats.ErlangC(k, load)
		near(t, "share that waits", got.waited, c, .03)
		near(t, "mean wait", got.meanWait, c*float64(mean)/(float64(k)-load), .06)
		// The response's tail: an exponential service, behind a wait that is exponential with what
		// the workers have to spare.
		mu, spare := 1/float64(mean), (float64(k)-load)/float64(mean)
		x := float64(limit)
		tail := math.Exp(-mu * x)
		if k == 1 {
			tail = math.Exp(-spare * x)
		} else {
			tail = (1-c)*tail + c*(mu*math.Exp(-spare*x)-spare*math.Exp(-mu*x))/(mu-spare)
		}
		near(t, "tail beyond 25 ms", got.late, tail, .08)
	}
}

func TestOneConstantWorkerWaitsAsPollaczekAndKhinchineComputed(t *testing.T) {
	for _, rho := range []float64{.3, .6, .9} {
		rate := rho / .002
		got := simulate(queue.Station{Workers: 1, Service: queue.Constant(2 * ms), Room: -1}, rate, ms, 3)
		near(t, "mean wait", got.meanWait, rho*float64(2*ms)/(2*(1-rho)), .05)
		near(t, "share that waits", got.waited, rho, .02)
	}
}

func TestWorkersWithoutARoomRefuseAsErlangComputed(t *testing.T) {
	for _, k := range []int{1, 4, 16} {
		for _, load := range []float64{.5, 1, 1.5} {
			erlangs := load * float64(k)
			for name, service := range map[string]func(*rand.Rand) int64{"exponential": queue.Exponential(4 * ms), "constant": queue.Constant(4 * ms)} {
				got := simulate(queue.Station{Workers: k, Service: service}, erlangs/.004, ms, 11)
				// Erlang's B holds whatever the service times are like.
				near(t, name+" share refused", got.refused, stats.ErlangB(k, erlangs), .06)
				if got.meanWait != 0 {
					t.Errorf("%s: there is no room to wait in, and the mean wait is %v", name, got.meanWait)
				}
			}
		}
	}
}

func TestABoundedRoomRefusesAsTheChainOfItsStatesSays(t *testing.T) {
	// M/M/2/2+3 at a load of 2 erlangs: the states beyond two workers are equally likely, and the
	// sixth of them refuses.
	got := simulate(queue.Station{Workers: 2, Service: queue.Exponential(10 * ms), Room: 3}, 200, ms, 5)
	near(t, "share refused", got.refused, 2.0/(1+2+2*4), .03)
}

func TestConstantArrivalsAtConstantWorkersAreExact(t *testing.T) {
	const k = 3
	q := queue.New(queue.Station{Workers: k, Service: queue.Constant(3 * ms), Room: -1}, 1)
	arrivals := queue.NewArrivals(1000, false, 1) // as many as three workers of 3 ms can take
	for i := range int64(3000) {
		at := arrivals.Next()
		if at != i*ms {
			t.Fatalf("arrival %d at %d", i, at)
		}
		if done, ok := q.Offer(at); !ok || done != at+3*ms {
			t.Fatalf("arrival %d is done at %d %v, not 3 ms after it came", i, done, ok)
		}
	}
	// Ten at once: three are served at a time.
	for i := range int64(10) {
		if done, _ := q.Offer(1e12); done != 1e12+(i/k+1)*3*ms {
			t.Errorf("number %d of ten at once is done at %d", i, done-1e12)
		}
	}
}

func TestALineIsWhereTheoryPutsIt(t *testing.T) {
	// M/M/1: responses are exponential with what the worker has to spare, so the line is μ −
	// ln(100)/limit.
	s := queue.Station{Workers: 1, Service: queue.Exponential(5 * ms), Room: -1}
	near(t, "M/M/1 line", queue.Line(s, true, 50*ms, .01, 300_000, 1), 200-math.Log(100)/.05, .03)
	// M/M/k/k at a blocking of 1 %.
	s = queue.Station{Workers: 10, Service: queue.Exponential(10 * ms)}
	line := queue.Line(s, true, 0, .01, 400_000, 1)
	near(t, "blocking at the line", stats.ErlangB(10, line*.01), .01, .06)
	// D/D/k: the capacity itself.
	s = queue.Station{Workers: 4, Service: queue.Constant(2 * ms), Room: -1}
	near(t, "D/D/4 line", queue.Line(s, false, 50*ms, .01, 200_000, 1), 2000, .002)
}

func TestALineSaysWhatIsNeverOrAlwaysMet(t *testing.T) {
	slow := queue.Station{Workers: 4, Service: queue.Constant(60 * ms), Room: -1}
	if line := queue.Line(slow, true, 50*ms, .01, 10_000, 1); line != 0 {
		t.Errorf("a service of 60 ms is said to answer within 50 ms up to %v a second", line)
	}
	fast := queue.Station{Workers: 4, Service: queue.Constant(2 * ms), Room: -1}
	if line := queue.Line(fast, true, 0, .01, 10_000, 1); line != 2000 {
		t.Errorf("a queue that refuses nobody carries what its workers do, 2000, not %v", line)
	}
}

func TestTheSameSeedMakesTheSameQueue(t *testing.T) {
	s := queue.Station{Workers: 3, Service: queue.Exponential(ms), Room: 5}
	a, b, other := queue.New(s, 9), queue.New(s, 9), queue.New(s, 10)
	differs := false
	for i := range int64(1000) {
		x, okX := a.Offer(i * 300_000)
		y, okY := b.Offer(i * 300_000)
		z, okZ := other.Offer(i * 300_000)
		if x != y || okX != okY {
			t.Fatalf("request %d: %d %v and %d %v", i, x, okX, y, okY)
		}
		differs = differs || x != z || okX != okZ
	}
	if !differs {
		t.Error("another seed made the same queue")
	}
}

func TestOfferDoesNotAllocOnceTheQueueHasItsSize(t *testing.T) {
	q := queue.New(queue.Station{Workers: 4, Service: queue.Exponential(2 * ms), Room: 100}, 1)
	now := int64(0)
	step := func() {
		for range 100 {
			now += 450_000
			q.Offer(now)
		}
	}
	for range 100 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations for 100 requests", n)
	}
}
