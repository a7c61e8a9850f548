package breaker

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// The control law of the adaptive mode.
//
// Every Window w with at least MinRequests calls gives three signals between 0 (healthy) and 1
// (unusable). A window with fewer calls is extended, for up to ten windows. Then it is dropped, and
// its signals are 0, because nothing is known.
//
//	latency     x₁ = max(0, 1 − LatencyOver / P99)
//	errors      x₂ = min(1, share of failures / ErrorsFull)
//	saturation  x₃ = clamp((mean saturation − SaturationFrom) / (1 − SaturationFrom))
//
// The P99 always ignores at least the slowest call: a single call never determines it, however few
// calls there are. Signals are bounded before they are smoothed, so one window moves a smoothed
// signal by Smoothing at most, however slow its slowest calls were:
//
//	s ← s + Smoothing · (x − s)
//
// The smoothed signals are combined into a score between 0 and 1, with the weights as exponents:
//
//	score = 1 − (1 − s₁)^w₁ · (1 − s₂)^w₂ · (1 − s₃)^w₃
//
// While all signals are small, this is about the weighted sum w₁s₁ + w₂s₂ + w₃s₃. But if every call
// fails at once, a sum never exceeds 0.2, and would rate that as healthier than a slow service.
// Here one signal at 1 makes the score 1, and moderate signals still add up: with the defaults,
// none of a P99 of 1 s, 20 % errors and 80 % saturation opens by itself, but all three together do.
//
// A score above the threshold T opens the breaker. T begins at T₀, and moves once for each opening
// by score:
//
//	right (a trial failed, or the ramp was broken off):  T ← T − Gain · (T − Tmin) · T/score
//	wrong (trials and ramp went well at the first try):  T ← T + Gain · (Tmax − T) · T/score
//	in every window that is served:                      T ← T + (T₀ − T) · (1 − exp(−elapsed/Forget))
//
// Why the threshold neither follows noise nor gets stuck:
//
//   - Steps shrink towards the bounds, so T stays within them whatever happens, and a series of
//     equal verdicts moves it geometrically, not in jumps. It rests where verdicts balance: where
//     Gain·(Tmax−T)·P(wrong) = Gain·(T−Tmin)·P(right).
//   - T/score says how much evidence about T an opening gives. An opening with a score just above T
//     shows where T belongs. One with a score of 1 would have happened with any T, and moves it
//     little.
//   - If T is so high that the breaker never opens, there are no more verdicts, and T would stay
//     there. Forgetting brings it back. Tmax is below 1, so a service that fails entirely opens the
//     breaker whatever T has become.
//   - A long outage is one opening with many half-open periods, and gives one verdict.
//
// What the law cannot know: an outage that ends within the open time looks like a wrong opening.
// Forgetting and T/score limit the damage.

// Adaptive is the options of the adaptive mode. A zero field means its default.
type Adaptive struct {
	// LatencyOver is the P99 above which the latency signal is above 0. 500 ms when 0.
	LatencyOver time.Duration
	// ErrorsFull is the share of failures at which the error signal is 1. 0.5 when 0.
	ErrorsFull float64
	// SaturationFrom is the share of connections in use above which saturation counts; below 1. 0.7
	// when 0.
	SaturationFrom float64

	// The weights of the signals, 0 to 1; 0.3, 0.2 and 0.5 when all are 0. Otherwise they must add
	// up to 1, and a signal of weight 0 does not count.
	LatencyWeight, ErrorWeight, SaturationWeight float64

	// Window is the time over which a signal is measured. 500 ms when 0.
	Window time.Duration
	// MinRequests is how many calls a window must have. 20 when 0.
	MinRequests int
	// Smoothing is the weight of a new window in the smoothed signals, at most 1, which means no
	// smoothing. 0.5 when 0.
	Smoothing float64

	// Threshold is T₀, the initial score above which the breaker opens. 0.3 when 0.
	Threshold float64
	// ThresholdMin and ThresholdMax bound the threshold. 0.2 and 0.6 when 0. They must be below 1.
	ThresholdMin, ThresholdMax float64
	// Gain is the share of the way to its bound that one verdict moves the threshold. 0.2 when 0.
	Gain float64
	// Forget is the time constant with which the threshold returns to T₀. 10 min when 0.
	Forget time.Duration
}

// law is the checked Adaptive.
type law struct {
	latencyOver, errorsFull, saturationFrom float64
	weights                                 [signals]float64
	window                                  int64
	minRequests                             uint64
	smoothing                               float64
	start, least, most                      float64 // T₀, Tmin, Tmax
	gain                                    float64
	forget                                  float64
}

const (
	latencySignal = iota
	errorSignal
	saturationSignal
	signals
)

// patience is for how many window lengths a window with too few calls is extended.
const patience = 10

func (a *Adaptive) compile(c *check) law {
	l := law{
		latencyOver: float64(c.between("Adaptive.LatencyOver", a.LatencyOver, 500*time.Millisecond,
			time.Millisecond, time.Minute)),
		errorsFull:     c.share("Adaptive.ErrorsFull", a.ErrorsFull, 0.5),
		saturationFrom: c.share("Adaptive.SaturationFrom", a.SaturationFrom, 0.7),
		weights:        [signals]float64{a.LatencyWeight, a.ErrorWeight, a.SaturationWeight},
		window:         c.between("Adaptive.Window", a.Window, time.Second/2, minWindow, time.Minute),
		minRequests:    uint64(c.count("Adaptive.MinRequests", a.MinRequests, 20, maxCount)),
		smoothing:      c.share("Adaptive.Smoothing", a.Smoothing, 0.5),
		start:          c.share("Adaptive.Threshold", a.Threshold, 0.3),
		least:          c.share("Adaptive.ThresholdMin", a.ThresholdMin, 0.2),
		most:           c.share("Adaptive.ThresholdMax", a.ThresholdMax, 0.6),
		gain:           c.share("Adaptive.Gain", a.Gain, 0.2),
		forget:         float64(c.wait("Adaptive.Forget", a.Forget, 10*time.Minute, time.Second)),
	}
	if l.weights == ([signals]float64{}) {
		l.weights = [signals]float64{0.3, 0.2, 0.5}
	}
	sum := 0.0
	for i, field := range []string{"LatencyWeight", "ErrorWeight", "SaturationWeight"} {
		if w := l.weights[i]; !(w >= 0 && w <= 1) {
			c.fail("Adaptive.%s is %v; it must be between 0 and 1", field, w)
		}
		sum += l.weights[i]
	}
	if !(math.Abs(sum-1) < 1e-9) {
		c.fail("Adaptive.LatencyWeight, ErrorWeight and SaturationWeight add up to %v; "+
			"they must add up to 1", sum)
	}
	if l.saturationFrom >= 1 {
		c.fail("Adaptive.SaturationFrom is %v; it must be below 1, or saturation would never count",
			l.saturationFrom)
	}
	if l.most >= 1 {
		c.fail("Adaptive.ThresholdMax is %v; it must be below 1, or nothing might open", l.most)
	}
	if !(l.least <= l.start && l.start <= l.most) {
		c.fail("Adaptive.Threshold is %v; it must lie between %s", l.start,
			fmt.Sprintf("ThresholdMin (%v) and ThresholdMax (%v)", l.least, l.most))
	}
	return l
}

// measure turns a window's figures into signals.
func (l *law) measure(p99, errors, saturation float64) [signals]float64 {
	var x [signals]float64
	if p99 > l.latencyOver {
		x[latencySignal] = 1 - l.latencyOver/p99
	}
	x[errorSignal] = min(1, errors/l.errorsFull)
	x[saturationSignal] = min(1, max(0, (saturation-l.saturationFrom)/(1-l.saturationFrom)))
	return x
}

func (l *law) fuse(s [signals]float64) float64 {
	health := 1.0
	for i, w := range l.weights {
		health *= math.Pow(1-s[i], w)
	}
	return 1 - health
}

// gauge is the state of the adaptive mode: the counts of the current window, in two banks of which
// one is being filled, and the results of earlier windows, which only the holder of the pen writes.
type gauge struct {
	bank    atomic.Uint32
	banks   [2]bank
	start   atomic.Int64 // when the window began
	checked atomic.Int64 // when the window was last checked
	smooth  [signals]atomicFloat
	score   atomicFloat
	limit   atomicFloat // T
	opening atomicFloat // the score of the opening that awaits its verdict, 0 when none does
}

// bank counts the calls of a window.
type bank struct {
	latency    [buckets]atomic.Uint32
	failures   atomic.Uint32
	saturation atomic.Uint64 // the sum, in units of 1/saturationUnit
}

const saturationUnit = 1 << 16

type atomicFloat struct{ bits atomic.Uint64 }

func (f *atomicFloat) load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *atomicFloat) store(x float64) { f.bits.Store(math.Float64bits(x)) }

func newGauge(l *law, now int64) *gauge {
	g := &gauge{}
	g.limit.store(l.start)
	g.start.Store(now)
	g.checked.Store(now)
	return g
}

func (g *gauge) count(failed bool, latency int64, saturation float64) {
	b := &g.banks[g.bank.Load()&1]
	b.latency[bucket(latency)].Add(1)
	if failed {
		b.failures.Add(1)
	}
	if saturation > 0 { // false for NaN
		b.saturation.Add(uint64(min(saturation, 1) * saturationUnit))
	}
}

func (g *gauge) over() bool         { return g.score.load() > g.limit.load() }
func (g *gauge) threshold() float64 { return g.limit.load() }

func (g *gauge) due(l *law, now int64) bool {
	return outside(now, g.checked.Load(), l.window)
}

// turn ends the window, unless it has fewer calls than least and may be extended.
func (g *gauge) turn(l *law, now int64, least uint64) {
	g.checked.Store(now)
	full := g.bank.Load() & 1
	b := &g.banks[full]
	n := b.requests()
	age := elapsed(now, g.start.Load())
	if n < least && age < patience*l.window {
		if age < 0 { // the clock was set back
			g.start.Store(now)
		}
		return
	}
	g.banks[1-full].clear()
	g.bank.Store(1 - full)
	g.start.Store(now)

	var x [signals]float64
	share := l.smoothing
	if n >= least {
		x = l.measure(b.p99(n), float64(b.failures.Load())/float64(n),
			float64(b.saturation.Load())/saturationUnit/float64(n))
	} else {
		share = 1 - math.Pow(1-share, patience)
	}
	for i := range x {
		x[i] = g.smooth[i].load() + share*(x[i]-g.smooth[i].load())
		g.smooth[i].store(x[i])
	}
	g.score.store(l.fuse(x))
	passed := float64(min(max(age, l.window), patience*l.window))
	t := g.limit.load()
	g.limit.store(t + (l.start-t)*(1-math.Exp(-passed/l.forget)))
}

// reset starts over as if the service were healthy, but keeps the learnt threshold.
func (g *gauge) reset(now int64) {
	for i := range g.banks {
		g.banks[i].clear()
	}
	for i := range g.smooth {
		g.smooth[i].store(0)
	}
	g.score.store(0)
	g.start.Store(now)
	g.checked.Store(now)
}

// learn moves the threshold if a transition is the verdict on an opening by score, and remembers
// the score of such an opening.
func (g *gauge) learn(l *law, from, to State, why Reason, score float64) {
	opening := g.opening.load()
	t := g.limit.load()
	switch {
	case why == Operator:
		g.opening.store(0)
	case opening > 0 && to == Open:
		g.limit.store(max(l.least, t-l.gain*(t-l.least)*min(1, t/opening)))
		g.opening.store(0)
	case opening > 0 && to == Closed:
		g.limit.store(min(l.most, t+l.gain*(l.most-t)*min(1, t/opening)))
		g.opening.store(0)
	case why == Score && from == Closed:
		g.opening.store(score)
	}
}

// tooSlow reports whether a P99 equal to a trial's latency would open the breaker by itself.
func (g *gauge) tooSlow(l *law, latency int64) bool {
	x := l.measure(float64(latency), 0, 0)
	return l.fuse(x) > g.limit.load()
}
