package concurrency

import (
	"fmt"
	"math"
	"time"
)

const (
	growth  = 0.25  // the largest growth of the limit in one step; twice that when the knee is far
	descent = 0.125 // the largest fall in one step, but at least one request
	full    = 0.85  // the fraction of the limit in use from which it counts as binding all the time

	// Numbers of completions are multiples of the noise: what takes 100 completions with
	// exponential service times takes few when all requests cost the same.
	judged     = 12   // completions for one step of the law
	fewest     = 10   // its minimum, whatever the noise
	most       = 100  // its maximum
	recently   = 100  // completions compared with remembered levels, or half a second's if more
	remembered = 1500 // completions remembered of one level
	memoryOf   = 2000 // completions that the memory spans at least
	doubted    = 100  // completions kept of a level above the limit when it is probed again

	longestStep = 0.5  // seconds
	lookEvery   = 2.0  // seconds
	lookRests   = 20   // steps
	memory      = 12.0 // seconds until a level's weight falls to a third (1/e)
	longest     = 40.0 // where there is little traffic
	memoryAbove = 2.0  // for a level above the limit; up to four times that with little traffic

	priorMemory  = 60.0 // seconds until the weight of an earlier baseline falls to a third (1/e)
	priorLimited = 6.0  // while the limit binds, because then there are better observations
	priorFree    = 0.15 // deviation (logarithm) of a baseline seen while the limit did not bind
	priorChanged = 0.35 // of a baseline from before the service changed, or from a busy service
	priorSure    = 0.1  // the largest doubt of a baseline that is kept when the service changes
)

// gradient is the law of the mode Gradient.
type gradient struct {
	*Law
	noise noise
	now   float64 // seconds, the end of the last window
	quiet float64 // windows that begin earlier still show the previous limit

	gathered level   // windows not judged yet in which the limit bound
	span     float64 // seconds to gather
	idle     level   // windows in which the limit did not bind
	growing  int     // consecutive moves up
	looked   float64 // when the limit was last raised to look for a higher knee
	binds    bool    // the limit bound all the time when traffic was last judged

	levels levels
	recent level // since the last move, quickly forgotten
	last   estimate

	capacity   level
	capacityAt float64
	baselineAt float64
	decision   string
}

func newGradient(l *Law) *gradient {
	return &gradient{
		Law: l, noise: newNoise(), levels: newLevels(l.options.Max), decision: "nothing is known yet",
	}
}

func (g *gradient) observe(w Window) {
	start := float64(w.Start) / 1e9
	g.age(float64(w.End)/1e9 - g.now)
	g.now = float64(w.End) / 1e9
	if w.InflightMean > 1.03*g.limit+0.5 { // the number inside is still falling to a new limit
		g.wait()
	}
	if start < g.quiet-1e-9 || w.Failed > w.Completed {
		return
	}
	seen := level{time: g.now - start, done: float64(w.Completed)}
	seen.inflight = w.InflightMean * seen.time
	if !w.Limited {
		g.binds = false
		g.free(seen)
		return
	}
	g.gathered.add(seen)
	if !g.enough() {
		return
	}
	whole := g.gathered
	g.gathered = level{}
	if g.binds = whole.mean() >= full*float64(g.Limit()); g.binds {
		g.idle = level{}
		g.judge(whole)
	} else {
		g.partly(whole)
	}
}

// age reduces the weight of past observations.
func (g *gradient) age(seconds float64) {
	if seconds <= 0 {
		return
	}
	below, above, prior := memory, memoryAbove, priorMemory
	if g.recent.done > 0 {
		x := g.recent.throughput()
		below = min(max(below, memoryOf*g.noise.spread/x), longest)
		above = min(max(above, max(200, 500*g.noise.spread)/x), 4*memoryAbove)
	}
	if g.binds {
		prior = priorLimited
	}
	g.levels.age(g.limit, math.Exp(-seconds/below), math.Exp(-seconds/above), math.Exp(-seconds/prior))
}

// wait ignores windows until the requests that are inside now have passed through.
func (g *gradient) wait() {
	if g.last.known {
		g.quiet = max(g.quiet, g.now+min(g.last.baseline, 2))
	}
}

// enough reports whether the gathered windows can be judged. How long to gather is fixed in
// advance: stopping at a number of completions would favour windows in which many requests happened
// to end.
func (g *gradient) enough() bool {
	if g.gathered.time < g.span-1e-9 || g.gathered.done < fewest/2 {
		return false
	}
	g.span = min(max(judged*g.noise.spread, fewest), most) / g.gathered.throughput()
	if g.growing < 2 {
		g.span = max(g.span, g.last.baseline) // requests that all take equally long end in bursts
	}
	g.span = min(g.span, longestStep)
	return true
}

// reserve is how many requests above its knee may be inside the service.
func (g *gradient) reserve(knee float64) float64 {
	return max(0.5+0.6*math.Sqrt(knee), g.options.Tolerance*knee)
}

// free learns the baseline from windows in which the limit did not bind. It is raised only while
// the service is far from its knee.
func (g *gradient) free(seen level) {
	g.idle.add(seen)
	if g.idle.done < 50 || g.idle.inflight <= 0 {
		return
	}
	seen, g.idle = g.idle, level{}
	r := math.Log(seen.response())
	p := g.levels.prior
	doubt := math.Sqrt(g.noise.spread / seen.done)
	deviation := math.Hypot(priorFree, doubt)
	if seen.mean() > g.limit/4 {
		deviation = math.Hypot(priorChanged, doubt)
	}
	switch {
	case p.weight == 0, r < p.baseline-3*doubt:
		g.levels.expect(r, deviation)
	case r < p.baseline:
		g.levels.expect(p.baseline+(r-p.baseline)*seen.done/(seen.done+100*g.noise.spread), deviation)
	case !g.last.known || seen.mean() < g.last.knee/2:
		g.levels.expect(p.baseline+(r-p.baseline)*seen.done/(seen.done+1000), deviation)
	default:
		return
	}
	g.baselineAt = g.now
}

// partly moves the limit when it binds only at times. The clients then determine the throughput, so
// it says nothing about the service.
func (g *gradient) partly(seen level) {
	g.last = g.levels.fit(g.noise.spread, g.limit)
	if !g.last.known {
		return
	}
	queue := seen.mean() * (1 - g.last.baseline/seen.response())
	if queue < g.reserve(seen.mean())/2 {
		g.grow((1+growth)*g.limit, "the limit binds at times, and nothing waits inside")
	}
}

// judge decides from a level at which requests waited for a slot all the time.
func (g *gradient) judge(seen level) {
	if g.last.known {
		g.noise.learn(math.Log(seen.throughput())-g.last.predict(seen.mean()), seen.done)
	}
	g.recent.add(seen)
	g.recent.forget(max(recently*g.noise.spread, g.recent.throughput()/2))
	if g.levels.reconcile(g.recent, &g.noise) {
		g.recent = seen
		if g.last.known && g.last.doubt < priorSure {
			g.levels.expect(math.Log(min(g.last.baseline, seen.response())), priorChanged)
		}
	}
	g.levels.add(seen, remembered*g.noise.spread)
	g.last = g.levels.fit(g.noise.spread, g.limit)
	g.baselineAt = g.now
	g.steer()
}

// steer moves the limit toward the knee and its reserve.
func (g *gradient) steer() {
	target := g.last.knee + g.reserve(g.last.knee)
	if g.last.knee < g.recent.mean() {
		g.capacity, g.capacityAt = g.recent, g.now
	}
	switch {
	case g.look(target):
	case target > g.limit+max(0.4, 0.02*g.limit):
		g.grow(target, fmt.Sprintf("the knee is near %.0f", g.last.knee))
	case target < g.limit-max(0.4, 0.03*g.limit):
		g.growing = 0
		g.move(max(target, g.limit-max(1, descent*g.limit)), fmt.Sprintf("the knee is near %.0f",
			g.last.knee))
	default:
		g.growing = 0
	}
}

// look makes a step up that is large enough to show in the throughput, if there was none for a
// while. Small steps do not show: without look, the limit may stay at a false knee that slow
// requests have caused. The step costs a short queue inside the service.
//
// Earlier observations above the limit must not outweigh those of a look. Otherwise a service that
// has become twice as fast is taken for one with half the knee: five requests inside now give the
// throughput that ten gave, and no look is long enough to show that ten give more.
func (g *gradient) look(target float64) bool {
	if g.now-g.looked < max(lookEvery, lookRests*g.span) || target < 0.9*g.limit {
		return false
	}
	g.looked = g.now
	g.levels.doubt(g.limit, max(doubted*g.noise.spread, 2*fewest))
	g.grow((1+growth)*g.limit, fmt.Sprintf("see whether the knee is still near %.0f", g.last.knee))
	return true
}

func (g *gradient) grow(target float64, why string) {
	step := growth
	if g.growing > 1 && target > 2*g.limit {
		step = 2 * growth
	}
	g.growing++
	g.move(min(target, g.limit+max(1, step*g.limit)), why)
}

func (g *gradient) move(limit float64, why string) {
	before := g.Limit()
	g.set(limit)
	if g.Limit() == before {
		return
	}
	g.decision = fmt.Sprintf("%s: from %d to %d", why, before, g.Limit())
	g.gathered, g.recent = level{}, level{}
	g.wait()
}

func (g *gradient) state() State {
	s := State{Decision: g.decision}
	if g.last.known {
		s.Baseline = seconds(g.last.baseline)
		s.BaselineAge = seconds(g.now - g.baselineAt)
	}
	if g.capacity.done > 0 {
		half := 2 * math.Sqrt(g.noise.spread/g.capacity.done)
		s.Capacity = g.capacity.throughput()
		s.CapacityLow, s.CapacityHigh = s.Capacity*math.Exp(-half), s.Capacity*math.Exp(half)
		s.CapacityAge = seconds(g.now - g.capacityAt)
	}
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
