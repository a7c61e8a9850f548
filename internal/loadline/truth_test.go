package loadline

import (
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/internal/lab/queue"
)

const ms = int64(1e6)

// place is a target in virtual time: a station behind a network.
type place struct {
	name    string
	workers int
	service func(*rand.Rand) int64
	network int64 // nanoseconds of each answer in which no worker is busy, with a little jitter
}

// mixed is a mix of requests of which a share takes longer.
func mixed(usual, long int64, share float64) func(*rand.Rand) int64 {
	usualTime, longTime := queue.Exponential(usual), queue.Exponential(long)
	return func(r *rand.Rand) int64 {
		if r.Float64() < share {
			return longTime(r)
		}
		return usual/2 + usualTime(r)/2
	}
}

// line is the true one.
func (s *place) line(o Objective) float64 {
	station := queue.Station{Workers: s.workers, Service: s.service, Room: -1}
	limit := o.Limit
	if limit > 0 {
		limit -= s.network
	}
	line := queue.Line(station, true, limit, o.Share, 200_000, 77)
	mean, r := 0.0, rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		mean += float64(s.service(r)) / 100_000
	}
	return min(line, used*float64(s.workers)*1e9/mean)
}

// traffic is what a gateway with two loops sends to targets of a kind for ten minutes, its rate
// swinging between two shares of the line.
type traffic struct {
	place
	targets   int
	low, high float64 // requests a second at each target
	seed      uint64
}

const loops = 2

// at is one target while requests go to it.
type at struct {
	*queue.Queue
	r       *rand.Rand
	network int64
	inside  [loops][]int64
	seen    *Seen
}

// send is one request.
func (a *at) send(now int64) {
	loop := a.r.IntN(loops)
	flying := a.inside[loop][:0]
	for _, done := range a.inside[loop] {
		if done > now {
			flying = append(flying, done)
		}
	}
	there := int64(float64(a.network) * (.45 + .1*a.r.Float64()))
	done, _ := a.Offer(now + there)
	done += int64(float64(a.network) * (.45 + .1*a.r.Float64()))
	for len(a.seen.Met) <= len(flying) {
		a.seen.Met = append(a.seen.Met, Met{})
	}
	m, took := &a.seen.Met[len(flying)], float64(done-now)
	m.Count, m.Sum, m.Squares = m.Count+1, m.Sum+took, m.Squares+took*took
	a.seen.Times.Record(done - now)
	a.inside[loop] = append(flying, done)
}

// watch feeds an estimator, which fits once a minute in the last minutes, and is its estimate.
func (t traffic) watch(o Objective, rounds int) Estimate {
	const window, end = 10 * second, 600 * second
	e := New(loops)
	u := Upstream{Name: "u", Objective: o}
	all := make([]*at, t.targets)
	station := queue.Station{Workers: t.workers, Service: t.service, Room: -1}
	for i := range all {
		seed := 100*t.seed + uint64(i)
		all[i] = &at{
			Queue: queue.New(station, seed), r: rand.New(rand.NewPCG(seed, 5)),
			network: t.network, seen: &Seen{},
		}
		u.Targets = append(u.Targets, string(rune('a'+i)))
	}
	e.Configure([]Upstream{u})
	r := rand.New(rand.NewPCG(t.seed, 6))
	now := 0.0
	for due := window; due <= end; due += window {
		w := &Window{End: due, Length: window, Seen: map[Target]*Seen{}}
		for int64(now) < due {
			all[r.IntN(len(all))].send(int64(now))
			swing := (1 - math.Cos(2*math.Pi*now/400e9)) / 2
			now += r.ExpFloat64() * 1e9 / float64(len(all)) / (t.low + (t.high-t.low)*swing)
		}
		for i, a := range all {
			w.Seen[Target{"u", u.Targets[i]}], a.seen = a.seen, &Seen{}
		}
		e.Feed(w)
		if due > end-int64(rounds)*part && due%part == 0 {
			e.Fit(len(all))
		}
	}
	return e.Status(end).Upstreams[0]
}

// tuned are the mixes that the estimate was made with, and kept those that were looked at
// afterwards only.
var (
	tuned = []place{
		{"exponential, 4 workers", 4, queue.Exponential(5 * ms), ms / 5},
		{"constant, 8 workers", 8, queue.Constant(10 * ms), ms / 2},
		{"mix, 12 workers", 12, mixed(4*ms, 40*ms, .1), ms},
	}
	untouched = []place{
		{"constant, 1 worker", 1, queue.Constant(3 * ms), ms / 3},
		{"exponential, 16 workers", 16, queue.Exponential(8 * ms), ms},
		{"mix, 6 workers", 6, mixed(2*ms, 15*ms, .2), ms / 4},
	}
)

// docs/load-line.md has figures of ten.
var seeds = flag.Int("seeds", 1, "how many times each mix is watched")

// share says how many of the estimates are within 15 % of the line, and how many intervals hold it.
func share(t *testing.T, places []place, targets, rounds int) {
	t.Helper()
	o := Objective{"P1", .0005, 500 * ms}
	var near, held, all atomic.Int64
	var running sync.WaitGroup
	for _, p := range places {
		line := p.line(o)
		for seed := range uint64(*seeds) {
			running.Go(func() {
				all.Add(1)
				est := traffic{p, targets, .2 * line, .6 * line, seed + 1}.watch(o, rounds)
				if est.Capacity == nil {
					t.Logf("%s, seed %d: unknown: %s", p.name, seed, est.Why)
					return
				}
				ratio := est.Capacity.times(1 / line / float64(targets))
				t.Logf("%s, seed %d: %.3f (%.3f to %.3f)", p.name, seed, ratio.Estimate, ratio.Low,
					ratio.High)
				if math.Abs(ratio.Estimate-1) <= .15 {
					near.Add(1)
				}
				if ratio.Low <= 1.01 && ratio.High >= .99 {
					held.Add(1)
				}
			})
		}
	}
	running.Wait()
	t.Logf("of %d lines %d were estimated within 15 %%, and %d lie in their intervals",
		all.Load(), near.Load(), held.Load())
	if near.Load() < all.Load()-int64(len(places)**seeds)/3 {
		t.Errorf("of %d lines %d were estimated within 15 %%", all.Load(), near.Load())
	}
}

func TestALineIsEstimatedFromTrafficBelowSixtyPercentOfIt(t *testing.T) {
	t.Parallel()
	share(t, tuned, 1, 3)
}

func TestALineOfAMixThatWasNotTunedForIsEstimated(t *testing.T) {
	t.Parallel()
	share(t, untouched, 1, 3)
}

func TestAServiceThatIsSlowerThanItsObjectiveStillHasACapacity(t *testing.T) {
	t.Parallel()
	p := tuned[0]
	line := p.line(Objective{Share: .01})
	for name, o := range map[string]Objective{
		"no objective": {Share: .01},
		"P0":           {"P0", .0001, 6 * ms},
	} {
		est := traffic{p, 1, .2 * line, .6 * line, 3}.watch(o, 1)
		if est.Capacity == nil || math.Abs(est.Capacity.Estimate/line-1) > .15 ||
			strings.Contains(est.How, "no rate keeps") != (o.Limit > 0) {
			t.Errorf("%s: %+v, %s %s; the workers have no time left at %.0f", name, est.Capacity,
				est.How, est.Why, line)
		}
	}
}

func TestAPoolInWhichHardlyAnyoneWaitsIsNotGuessed(t *testing.T) {
	t.Parallel()
	p := place{"64 workers", 64, queue.Exponential(10 * ms), ms}
	o := Objective{"P1", .0005, 500 * ms}
	est := traffic{p, 1, 1200, 3700, 3}.watch(o, 1)
	if est.Capacity != nil || est.Headroom != nil || !strings.Contains(est.Why, "or more") {
		t.Errorf("64 workers, at most 37 of them busy: %+v %s", est.Capacity, est.How+est.Why)
	}
}
