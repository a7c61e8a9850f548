package concurrency

import (
	"fmt"
	"math"
	"time"
)

const (
	growth      = 0.25  // the most that the limit grows by in one step
	deepest     = 0.125 // the most that it falls by in one step, where that is more than one request
	shallowest  = 0.05
	certain     = 2.0 // log likelihood ratio that decides a trial: one in eight is decided wrongly
	trialEvery  = 2.0 // seconds, at least
	trialRests  = 5.0 // between trials the limit rests this many times as long as a trial took
	trialAtMost = 1.0 // seconds, at most, at one depth
	full        = 0.85
)

// gradient is the law of the mode Gradient.
type gradient struct {
	*Law
	noise noise
	now   float64 // seconds, the end of the last window
	quiet float64 // windows that begin earlier still show the limit before

	gathered level // windows that are not judged yet

	baseline   float64 // S0 in seconds, 0 while unknown
	baselineAt float64

	high    level // at the limit
	trial   bool  // the limit is lower than it was, to see whether throughput falls
	low     level // during trials, since the last verdict
	from    float64
	routine bool    // the trial is a check, and not on the way to a lower limit
	begun   float64 // when the trial began, or the present step of it
	rested  float64 // when the next routine trial may begin

	capacity   level
	capacityAt float64
	decision   string
}

func newGradient(l *Law) *gradient {
	return &gradient{Law: l, noise: noise{spread: 1}, decision: "start"}
}

func (g *gradient) observe(w Window) {
	g.now = float64(w.End) / 1e9
	start := float64(w.Start) / 1e9
	if start < g.quiet-1e-9 || w.Failed > w.Completed {
		return
	}
	seen := level{time: g.now - start, done: float64(w.Completed), latency: float64(w.LatencySum) / 1e9}
	seen.inflight = w.InflightMean * seen.time
	if !w.Limited {
		g.free(seen)
		return
	}
	g.gathered.add(seen)
	if !g.enough() {
		return
	}
	level := g.gathered
	g.gathered = levelZero
	if level.done == 0 {
		return
	}
	g.judge(level)
}

var levelZero level

// enough says whether what is gathered can be judged.
func (g *gradient) enough() bool {
	need := min(max(50*g.noise.spread, 20), 200)
	return g.gathered.done >= need || g.gathered.time >= 1 && g.gathered.done > 0
}

// reserve is how many requests may stand inside the service above its knee.
func (g *gradient) reserve(knee float64) float64 {
	return max(1, math.Sqrt(knee), g.options.Tolerance*knee)
}

// free learns from a window in which the limit did not bind.
func (g *gradient) free(seen level) {
	if seen.done == 0 {
		return
	}
	r := seen.response()
	switch {
	case g.baseline == 0:
		g.believe(r)
	case r < g.baseline:
		g.lower(seen)
	case g.capacity.done == 0 || seen.mean() < g.capacity.throughput()*g.baseline/2:
		g.believe(g.baseline + (r-g.baseline)*seen.done/(seen.done+2000))
	}
}

func (g *gradient) believe(baseline float64) {
	g.baseline, g.baselineAt = baseline, g.now
}

// lower takes a latency below the baseline into account, as far as it is not noise.
func (g *gradient) lower(seen level) {
	r := seen.response()
	if g.baseline == 0 {
		g.believe(r)
		return
	}
	if r < g.baseline {
		w := seen.done / (seen.done + 100*g.noise.spread)
		if math.Log(g.baseline/r) > 3*math.Sqrt(g.noise.spread/seen.done) {
			w = 1
		}
		g.believe(g.baseline + w*(r-g.baseline))
	}
}

// judge decides by a level at which requests waited for a slot.
func (g *gradient) judge(seen level) {
	g.lower(seen)
	if seen.mean() < full*float64(g.Limit()) {
		g.partly(seen)
		return
	}
	if g.trial {
		g.try(seen)
		return
	}
	if g.high.done > 0 && g.differs(seen, g.high) {
		g.high, g.low = levelZero, levelZero
		g.noise.last = levelZero
	} else {
		g.noise.learn(seen)
	}
	g.high.add(seen)
	g.high.forget(4000 * g.noise.spread)
	g.steer()
}

// differs says whether throughput changed by more than noise, at the same limit.
func (g *gradient) differs(a, b level) bool {
	d := math.Log(a.throughput() / b.throughput())
	return math.Abs(d) > 3*math.Sqrt(g.noise.variance(a, b))+0.03
}

// partly moves the limit when it binds at times only.
func (g *gradient) partly(seen level) {
	if g.trial {
		g.trial = false
		g.move(g.from, "the traffic no longer fills the limit: end the trial")
	}
	queue := seen.mean() * (1 - g.baseline/seen.response())
	if reserve := g.reserve(seen.mean() - queue); queue < reserve/2 {
		g.grow(1-queue/(reserve/2), "at times")
	}
}

// steer moves the limit toward the knee and its reserve.
func (g *gradient) steer() {
	knee := g.high.mean() * g.baseline / g.high.response()
	queue := g.high.mean() - knee
	reserve := g.reserve(knee)
	if queue < reserve/2 {
		g.grow(1-queue/(reserve/2), "all the time")
		return
	}
	g.capacity, g.capacityAt = g.high, g.now
	target := knee + reserve
	switch {
	case g.high.done < 100*g.noise.spread:
	case target < g.limit-max(0.6, 0.03*g.limit):
		g.begin(target, false)
	case g.now > g.rested && g.high.done > 200*g.noise.spread:
		g.begin(g.limit-max(1, shallowest*g.limit), true)
	}
}

func (g *gradient) grow(share float64, when string) {
	if g.limit >= float64(g.options.Max) {
		return
	}
	g.high, g.low = levelZero, levelZero
	g.move(g.limit+max(1, growth*min(share, 1)*g.limit), "no queue inside and the limit binds "+when+": grow")
}

// move sets the limit. What is seen until its effect has passed through the service is not judged.
func (g *gradient) move(limit float64, why string) {
	g.decision = why
	before := g.Limit()
	g.set(limit)
	if g.Limit() == before {
		return
	}
	g.gathered = levelZero
	g.noise.last = levelZero
	if g.high.done > 0 {
		g.quiet = g.now + g.high.response()
	} else {
		g.quiet = g.now + g.baseline
	}
}

// begin lowers the limit to see whether throughput falls with it.
func (g *gradient) begin(target float64, routine bool) {
	g.rested = g.now + trialEvery
	lower := max(target, g.limit-max(1, deepest*g.limit), float64(g.options.Min))
	if math.Round(lower) >= math.Round(g.limit) {
		return
	}
	g.trial, g.routine, g.from, g.begun = true, routine, g.limit, g.now
	if !routine {
		g.low = levelZero
	}
	g.move(lower, "try a lower limit")
}

// try judges a trial.
func (g *gradient) try(seen level) {
	g.low.add(seen)
	x := math.Log(g.low.throughput() / g.high.throughput())
	d := math.Log(g.low.mean() / g.high.mean())
	variance := g.noise.variance(g.low, g.high)
	slack := 3*math.Sqrt(g.noise.variance(seen, g.high)) + 0.03
	if now := math.Log(seen.throughput() / g.high.throughput()); now > slack || now < 2*d-slack {
		g.trial = false
		g.high, g.low = levelZero, levelZero
		g.move(g.from, "throughput changed by itself: end the trial")
		return
	}
	verdict := d * (x - d/2) / variance
	switch {
	case verdict > certain:
		g.fell()
	case verdict < -certain:
		g.held()
	case g.now-g.begun < trialAtMost+g.high.response():
	case g.routine:
		g.end(g.from, "the trial showed nothing yet: go back")
	case g.limit > 0.7*g.from && g.Limit() > g.options.Min:
		g.begun = g.now
		g.low = levelZero
		g.move(g.limit-max(1, deepest*g.limit), "the trial showed nothing yet: go lower")
	case verdict > 0:
		g.fell()
	default:
		g.held()
	}
}

func (g *gradient) end(limit float64, why string) {
	g.trial = false
	g.rested = g.now + max(trialEvery, trialRests*(g.now-g.begun))
	g.move(limit, why)
}

// fell ends a trial in which throughput fell with the limit: the service was at its knee.
func (g *gradient) fell() {
	g.believe(g.low.response())
	knee := g.high.mean() * g.baseline / g.high.response()
	limit := min(knee+g.reserve(knee), g.from*(1+growth))
	why := fmt.Sprintf("throughput fell with the limit: the baseline is %v", seconds(g.baseline))
	g.low = levelZero
	if math.Abs(limit-g.from) > 0.5 {
		g.high = levelZero
	}
	g.end(limit, why)
}

// held ends a trial in which throughput did not fall: what was taken away had been a queue.
func (g *gradient) held() {
	g.believe(min(g.baseline, g.low.response()))
	low := g.low
	g.low = levelZero
	knee := low.mean() * g.baseline / low.response()
	target := knee + g.reserve(knee)
	why := "throughput held: the limit stays lower"
	if target < g.limit-max(0.6, 0.03*g.limit) {
		g.from, g.begun, g.routine = g.limit, g.now, false
		g.move(max(target, g.limit-max(1, deepest*g.limit)), why)
		return
	}
	g.high = low
	g.end(min(target, g.from), why)
}

func (g *gradient) state() State {
	s := State{Decision: g.decision}
	if g.baseline > 0 {
		s.Baseline = seconds(g.baseline)
		s.BaselineAge = seconds(g.now - g.baselineAt)
	}
	if g.capacity.done > 0 {
		half := 2 * math.Sqrt(g.noise.spread/g.capacity.done)
		s.Capacity = g.capacity.throughput()
		s.CapacityLow, s.CapacityTop = s.Capacity*math.Exp(-half), s.Capacity*math.Exp(half)
		s.CapacityAge = seconds(g.now - g.capacityAt)
	}
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
