package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"plimsoll/internal/lab/measure"
)

// Options are facts that the steps do not contain.
type Options struct {
	// Cores of the target's machine; 0 takes the number from the samples, or leaves it unknown.
	Cores int
	// Local reports that the generator runs on the target's machine and shares its cores.
	Local bool
	// Seed makes resampling repeatable.
	Seed uint64
}

// confidence is that of all intervals computed here.
const confidence = .95

// replicates is how often the readings are resampled for an interval.
const replicates = 300

// blockOfReadings is how many consecutive readings are drawn together: a tick of the counter that
// one reading misses is in the next one.
const blockOfReadings = 4

// goodSteps returns the steps whose cost per request is that of served requests: a refusal has
// another cost.
func goodSteps(steps []measure.Step) []*measure.Step {
	var good, all []*measure.Step
	for i := range steps {
		s := &steps[i]
		all = append(all, s)
		if total := s.Totals.Ended.Total(); total > 0 &&
			float64(s.Totals.Ended.Failed()) <= .05*float64(total) {
			good = append(good, s)
		}
	}
	if len(good) == 0 {
		return all
	}
	return good
}

// reading is what a resource did between two samples.
type reading struct {
	seconds, requests float64
	busy              float64 // in the resource's unit
}

// readings returns the readings of a counter in a step, after its settling. idle is how much the
// counter grows per second for reasons other than the target.
func readings(s *measure.Step, counter string, idle float64) []reading {
	var all []reading
	var at int64
	var last float64
	have := false
	for _, sample := range s.Samples {
		v, ok := sample.Values[counter]
		if !ok || sample.At < s.Plan.Settle {
			continue
		}
		if have && sample.At > at && v >= last {
			seconds := float64(sample.At-at) / 1e9
			answered := s.Between(at, sample.At, (*measure.Tally).Answered)
			all = append(all, reading{seconds, answered, max(0, v-last-idle*seconds)})
		}
		at, last, have = sample.At, v, true
	}
	return all
}

// straight is a line through readings: busy seconds a second = idle + demand × requests a second.
type straight struct {
	idle, demand float64
	// the rates were too similar to separate idle cost from demand: idle is taken as 0
	origin bool
}

// alike is the ratio of the highest to the lowest rate below which idle cost and demand cannot be
// separated.
const alike = 1.5

// fitStraight fits by least squares, weighting each reading by its length. Idle and demand are at
// least 0.
func fitStraight(steps [][]reading) straight {
	var w, x, y, xx, xy float64
	low, high := math.Inf(1), 0.0
	for _, step := range steps {
		seconds, requests := 0.0, 0.0
		for _, r := range step {
			rx, ry := r.requests/r.seconds, r.busy/r.seconds
			w, x, y = w+r.seconds, x+r.requests, y+r.busy
			xx, xy = xx+r.seconds*rx*rx, xy+r.seconds*rx*ry
			seconds, requests = seconds+r.seconds, requests+r.requests
		}
		if seconds > 0 {
			low, high = min(low, requests/seconds), max(high, requests/seconds)
		}
	}
	if xx == 0 {
		return straight{origin: true}
	}
	spread := w*xx - x*x
	if high < alike*low || spread <= 0 {
		return straight{demand: y / x, origin: true}
	}
	demand := (w*xy - x*y) / spread
	idle := (y - demand*x) / w
	if idle < 0 {
		return straight{demand: xy / xx}
	}
	return straight{idle: idle, demand: max(demand, 0)}
}

// redraw resamples each step's readings in blocks, keeping their number.
func redraw(steps [][]reading, r *rand.Rand) [][]reading {
	again := make([][]reading, len(steps))
	for i, step := range steps {
		for len(again[i]) < len(step) {
			from := r.IntN(len(step))
			for j := range min(blockOfReadings, len(step)-len(again[i])) {
				again[i] = append(again[i], step[(from+j)%len(step)])
			}
		}
	}
	return again
}

// resource is something a request uses.
type resource struct {
	name, how string
	capacity  float64
	steps     [][]reading
	fit       straight
}

// resources returns the resources that the steps have readings of.
func resources(steps []measure.Step, o Options) []resource {
	var target, host, generator resource
	target.name, target.how = "target cpu", "processor time of the target's process"
	host.name = "host cpu"
	host.how = "busy time of the whole machine, with the generator's work, as it shares " +
		"the cores, but without its waiting for alarms"
	generator.name = "generator cpu"
	generator.how = "the generator's own busy time; it bounds what this generator can offer, " +
		"not the target"
	cores := float64(o.Cores)
	for _, s := range goodSteps(steps) {
		for _, sample := range s.Samples {
			if o.Cores == 0 {
				cores = max(cores, sample.Values[measure.HostCores])
			}
		}
		length := float64(s.Totals.Length+s.Totals.Drain) / 1e9
		if length <= 0 {
			continue
		}
		g := &s.Totals.Generator
		work := min(g.Busy*float64(g.Loops), float64(g.CPU)/1e9/length)
		target.add(readings(s, measure.TargetCPU, 0))
		if o.Local {
			host.add(readings(s, measure.HostCPU, max(0, float64(g.CPU)/1e9/length-work)))
		}
		if g.Loops > 0 && g.CPU > 0 {
			generator.capacity = float64(g.Loops)
			generator.add([]reading{{length, float64(s.Totals.Ended.Answered()), work * length}})
		}
	}
	target.capacity, host.capacity = cores, cores
	var all []resource
	for _, r := range []resource{target, host, generator} {
		if r.fit = fitStraight(r.steps); r.fit.demand > 0 {
			all = append(all, r)
		}
	}
	return all
}

func (r *resource) add(step []reading) {
	if len(step) > 0 {
		r.steps = append(r.steps, step)
	}
}

// Demands returns what one request takes of each measured resource, and the rate at which the
// resource would be used up. Resources without counters are left out. The probes' samples are read
// by name: target.cpu.seconds and host.cpu.busy_seconds, which only grow, and host.cores.
func Demands(steps []measure.Step, o Options) []Demand {
	var all []Demand
	r := rand.New(rand.NewPCG(o.Seed, 0x6a09e667f3bcc909))
	for _, res := range resources(steps, o) {
		per, bound := make([]float64, 0, replicates), make([]float64, 0, replicates)
		for range replicates {
			f := fitStraight(redraw(res.steps, r))
			per = append(per, f.demand)
			bound = append(bound, res.bound(f))
		}
		d := Demand{
			Resource: res.name,
			Unit:     "s",
			Capacity: res.capacity,
			How:      res.how + "; " + res.fit.words(len(res.steps)),
			Per:      percentiles(per, res.fit.demand),
			Bound:    percentiles(bound, res.bound(res.fit)),
		}
		if res.capacity == 0 {
			d.Bound = Interval{}
			d.How += "; how many cores there are is not known, so no bound follows"
		}
		all = append(all, d)
	}
	return all
}

// bound returns the rate at which a resource is used up.
func (r *resource) bound(f straight) float64 {
	if f.demand <= 0 {
		return 0
	}
	return max(0, r.capacity-f.idle) / f.demand
}

func (f *straight) words(steps int) string {
	if f.origin {
		if steps == 1 {
			return "busy time ÷ requests of its one step, so that what idling costs " +
				"is not taken off"
		}
		return fmt.Sprintf("busy time ÷ requests of %d steps, whose rates are too much alike to "+
			"take off what idling costs", steps)
	}
	return fmt.Sprintf("slope over %d steps, with %.3g s a second spent whatever the rate",
		steps, f.idle)
}

// percentiles returns the interval of repeated estimates. It reorders values.
func percentiles(values []float64, estimate float64) Interval {
	if len(values) == 0 {
		return Interval{estimate, estimate, estimate, confidence}
	}
	slices.Sort(values)
	at := func(q float64) float64 { return values[min(int(q*float64(len(values))), len(values)-1)] }
	low, high := at((1-confidence)/2), at((1+confidence)/2)
	return Interval{min(low, estimate), estimate, max(high, estimate), confidence}
}
