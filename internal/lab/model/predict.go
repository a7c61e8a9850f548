package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/slo"
)

// PredictOptions are what a prediction needs besides the steps.
type PredictOptions struct {
	Options
	// Poisson reports that the line is searched with Poisson arrivals, otherwise with evenly spaced
	// ones.
	Poisson bool
	// Sustained is the maximum share of the workers' time at which a rate counts as carried,
	// however patient the objectives are: the search for a line ends before the queue of a rate
	// above the capacity has grown as long as objectives of seconds would allow. 0 leaves the limit
	// to the objectives.
	Sustained float64
	// Arrivals is how many requests a step is simulated with, for each candidate station; 0 means
	// 12,000.
	Arrivals int
}

const (
	// mostWorkers is the largest station considered.
	mostWorkers = 256
	// unseen is the number of waiting requests, over all steps, below which a station cannot be
	// told from a larger one.
	unseen = 1
	// hopeless is how much worse than the best a candidate may be and still be considered.
	hopeless = 40
	// mostOpen is the maximum probability of more workers than the steps can determine. Above it
	// nothing is predicted.
	mostOpen = .1
	// farBeyond limits a processor's bound, as a multiple of the highest gentle rate, if no station
	// can be determined. The gentle rates go up to at least a third of the line. So if the bound is
	// further away, something else that they do not show sets the line.
	farBeyond = 4
	// mostSpread is the ratio of an interval's ends above which it predicts nothing.
	mostSpread = 2
	// lineArrivals is how many requests each rate of a simulated line is tried with.
	lineArrivals = 60_000
	// atMost is the share of a processor's bound up to which a service is assumed to meet its
	// objectives. Beyond it the kernel, the scheduler and other processes interfere.
	atMost = .95
)

// Predict estimates the load line from gentle steps, those below half of it. They may include a
// closed loop with one connection (Plan.Rate 0), which shows the service time without any waiting.
// Two things can set the line, and the lower one does: a resource that is used up, according to
// each request's demand; and a station with a number of workers, according to how requests are
// delayed that find others in flight. If the steps show neither, Predict returns nil and the
// reason. It takes a few tenths of a second.
func Predict(steps []measure.Step, s slo.SLO, o PredictOptions) (p *Prediction, why string) {
	gentle, top := gentleSteps(steps)
	if len(gentle) == 0 {
		return nil, "there is no step with an offered rate and without failures to " +
			"predict the line from"
	}
	last := 0
	for _, step := range gentle {
		last = max(last, step.Plan.Number)
	}
	station, pool, how, why := predictStation(gentle, s, o)
	cpu, name := predictCPU(gentle, s, o)
	switch {
	case station == nil && cpu == nil:
		return nil, why + "; and no processor time was measured that would set a bound"
	case station == nil && cpu.Estimate > farBeyond*top:
		return nil, fmt.Sprintf("%s; and %s would do for %.4g a second, which is too far beyond "+
			"the %.4g that were tried to say that nothing else is the bottleneck", why, name,
			cpu.Estimate, top)
	case station == nil:
		how = fmt.Sprintf("%s is used up at %.4g a second, and %s", name, cpu.Estimate/atMost, why)
		return &Prediction{Made: last, Upto: top, Line: *cpu, Limit: name, How: how}, ""
	case cpu == nil || station.Estimate <= cpu.Estimate:
		p = &Prediction{
			Made:    last,
			Upto:    top,
			Line:    *station,
			Limit:   "workers",
			How:     how,
			Station: pool,
		}
	default:
		p = &Prediction{
			Made:  last,
			Upto:  top,
			Line:  *cpu,
			Limit: name,
			How:   fmt.Sprintf("%s is used up before the workers are: %s", name, how),
		}
	}
	if cpu != nil {
		p.Line.Low, p.Line.High = min(station.Low, cpu.Low),
			max(min(station.High, cpu.High), p.Line.Estimate)
	}
	// The gentle steps met the objectives, so the line is above them, however uncertain the fits
	// are.
	p.Line.Low, p.Line.Estimate, p.Line.High = max(p.Line.Low, top), max(p.Line.Estimate, top),
		max(p.Line.High, top)
	return p, ""
}

// gentleSteps returns the steps that can be used, and the highest rate among them.
func gentleSteps(steps []measure.Step) (gentle []measure.Step, top float64) {
	for _, s := range steps {
		t := &s.Totals
		alone := s.Plan.Rate == 0 && s.Plan.Connections == 1
		good := t.Ended[measure.OK] >= fewestInBin &&
			float64(t.Ended.Failed()) <= .01*float64(t.Ended.Total())
		if !good || t.Generator.Limit() != "" || s.Plan.Rate == 0 && !alone {
			continue
		}
		gentle = append(gentle, s)
		if !alone {
			top = max(top, t.Rate())
		}
	}
	if top == 0 {
		return nil, 0
	}
	return gentle, top
}

// predictCPU returns the line that a processor sets; nil if none was measured. The processor time
// of requests is assumed to have the same distribution as their time when alone.
func predictCPU(steps []measure.Step, s slo.SLO, o PredictOptions) (line *Interval, name string) {
	form := newProfile(newUncrowded(steps), 0)
	for _, d := range Demands(steps, o.Options) {
		if d.Resource == "generator cpu" || d.Bound.Estimate <= 0 ||
			line != nil && d.Bound.Estimate*atMost >= line.Estimate {
			continue
		}
		cores := max(int(d.Capacity), 1)
		ideal := lineOf(queue.Station{
			Workers: cores,
			Service: form.service(d.Per.Estimate * 1e9),
			Room:    -1,
		}, s, 0, o, d.Per.Estimate*1e9)
		estimate := min(atMost*d.Bound.Estimate, ideal)
		share := estimate / d.Bound.Estimate
		line = &Interval{
			d.Bound.Low * share,
			estimate,
			d.Bound.High * max(share, min(1, ideal/d.Bound.Estimate)),
			confidence,
		}
		name = d.Resource
	}
	return line, name
}

// lineOf returns the highest rate at which a station with a mean service time meets every
// objective, if a constant overhead is added to its responses.
func lineOf(
	station queue.Station, s slo.SLO, overhead float64, o PredictOptions, mean float64,
) float64 {
	lowest := math.Inf(1)
	if o.Sustained > 0 {
		lowest = o.Sustained * float64(station.Workers) * 1e9 / mean
	}
	for _, objective := range s {
		limit := objective.Limit
		if limit > 0 {
			limit = max(limit-int64(overhead), 1)
		}
		lowest = min(lowest,
			queue.Line(station, o.Poisson, limit, objective.Share, lineArrivals, o.Seed))
	}
	return lowest
}

// fewestTimes is how many requests are needed to know the service time.
const fewestTimes = 100

// predictStation returns the line that a hidden station sets, and the station; nil if its size
// cannot be determined.
func predictStation(
	steps []measure.Step, s slo.SLO, o PredictOptions,
) (line *Interval, found *Station, how, why string) {
	all := make([]observed, len(steps))
	for i := range steps {
		all[i] = observe(&steps[i])
	}
	pure := newUncrowded(steps)
	if n := pure.times.Count(); n < fewestTimes {
		return nil, nil, "", fmt.Sprintf("the steps are too short: %d requests say too little of "+
			"the service time", n)
	}
	candidates, open := candidates(all, pure, o)
	if len(candidates) == 0 {
		return nil, nil, "", "no station explains how the response times grow with the rate"
	}
	weights, openWeight := weigh(candidates, open)
	if openWeight > mostOpen {
		return nil, nil, "", fmt.Sprintf("hardly a request waited for another up to the highest "+
			"of these rates: there are %d workers or more, and how many cannot be determined",
			fewestWorkers(candidates, weights))
	}
	interval, ok := mixture(candidates, weights, open, pure.times.Count(), s, o)
	if !ok {
		return nil, nil, "", "requests take so long that no rate keeps the objectives"
	}
	if interval.High > mostSpread*interval.Low {
		return nil, nil, "", fmt.Sprintf("the steps are too short: they put the line anywhere "+
			"from %.4g to %.4g a second", interval.Low, interval.High)
	}
	best, low, high := 0, mostWorkers, 0
	for i, c := range candidates {
		if weights[i] > weights[best] {
			best = i
		}
		if weights[i] > 1-confidence {
			low, high = min(low, c.workers), max(high, c.workers)
		}
	}
	b := candidates[best]
	size := fmt.Sprintf("%d workers", b.workers)
	if low < high {
		size += fmt.Sprintf(" (%d to %d)", low, high)
	}
	found = &Station{
		Workers:     b.workers,
		WorkersLow:  low,
		WorkersHigh: high,
		Service:     b.service / 1e9,
	}
	return &interval, found,
		fmt.Sprintf("a station of %s with a service time of %.3g ms, and %.2g ms beside it, "+
			"fitted to how requests delay each other",
			size, b.service/1e6, b.overhead/1e6), ""
}

// mixture returns the line over all candidates by probability. For each it includes the uncertainty
// of its service time, that of the distribution of service times, which is known from shown
// requests, and 1.5 % for the simulation. ok is false if there is most likely no line.
func mixture(
	all []candidate, weights []float64, open int, shown uint64, s slo.SLO, o PredictOptions,
) (line Interval, ok bool) {
	const total, simulation, forms = 4000, .015, 8
	r := rand.New(rand.NewPCG(o.Seed, 0xa54ff53a5f1d36f1))
	likeliest := 0
	for i := range all {
		if weights[i] > weights[likeliest] && i != open {
			likeliest = i
		}
	}
	lineWith := func(c *candidate, form profile, stretch float64) float64 {
		return lineOf(queue.Station{
			Workers: c.workers,
			Service: form.service(c.service * stretch),
			Room:    -1,
		}, s, c.overhead, o, c.service*stretch)
	}
	var mean, squares float64
	b := &all[likeliest]
	for range forms {
		l := lineWith(b, b.form.again(shown, r), 1)
		mean, squares = mean+l/forms, squares+l*l/forms
	}
	if mean == 0 {
		return Interval{}, false
	}
	// If the limit is only a few service times, a slightly longer service time lowers the line a
	// lot.
	stretch := max(b.error, .02)
	leverage := (lineWith(b, b.form, 1-stretch) - lineWith(b, b.form, 1+stretch)) /
		(2 * stretch * mean)
	formSpread := math.Sqrt(max(squares/(mean*mean)-1, 0))
	draws := make([]float64, 0, total)
	for i := range all {
		n := int(weights[i]*total + .5)
		if n == 0 || i == open {
			continue
		}
		c := &all[i]
		l := lineWith(c, c.form, 1)
		spread := math.Sqrt(leverage*leverage*c.error*c.error + simulation*simulation +
			formSpread*formSpread)
		for range n {
			draws = append(draws, l*max(1+spread*r.NormFloat64(), .01))
		}
	}
	if len(draws) == 0 {
		return Interval{}, false
	}
	slices.Sort(draws)
	middle := draws[len(draws)/2]
	return percentiles(draws, middle), middle > 0
}

// overheads returns the candidates for the time of each response in which no worker is busy, in
// nanoseconds, and the squared distance of each from the usual value in standard deviations. On one
// machine, a request spends less than 0.1 ms in the kernel and in wakeups. Across a network, the
// overhead is unknown.
func overheads(pure *uncrowded, local bool) (values, squares []float64) {
	shortest := float64(pure.times.Quantile(.005))
	if !local {
		for _, share := range []float64{0, .25, .5, .75, .95} {
			values, squares = append(values, share*shortest), append(squares, 0)
		}
		return values, squares
	}
	const usual, deviation = 80e3, 80e3
	for _, v := range []float64{usual, 0, 40e3, 150e3, 250e3} {
		if v = min(v, .98*shortest); !slices.Contains(values, v) {
			d := (v - usual) / deviation
			values, squares = append(values, v), append(squares, d*d)
		}
	}
	return values, squares
}

// candidates returns the plausible stations. open is the index of the candidate that stands for all
// stations too large to be told from larger ones, or -1.
func candidates(steps []observed, pure *uncrowded, o PredictOptions) (all []candidate, open int) {
	values, squares := overheads(pure, o.Local)
	forms := make([]profile, len(values))
	for i, v := range values {
		forms[i] = newProfile(pure, v)
	}
	start := pure.mean
	least, openMisfit := math.Inf(1), math.Inf(1)
	for workers := 1; workers <= mostWorkers; workers++ {
		c := fitService(steps, workers, values[0], forms[0], start-values[0], o)
		if math.IsInf(c.misfit, 1) {
			continue
		}
		c.misfit += squares[0]
		all = append(all, c)
		least = min(least, c.misfit)
		if c.waits < unseen {
			openMisfit = c.misfit
			break
		}
	}
	open = -1
	plausible := all
	all = nil
	for _, c := range plausible {
		if c.misfit > least+hopeless {
			continue
		}
		all = append(all, c)
		if c.misfit == openMisfit && c.waits < unseen {
			open = len(all) - 1
			all[open].misfit = leastMisfit(steps, c, start, values, squares, forms, o)
			continue
		}
		for i := 1; i < len(values) && c.misfit < least+10; i++ {
			other := fitService(steps, c.workers, values[i], forms[i], start-values[i], o)
			if other.misfit += squares[i]; other.misfit < least+hopeless {
				all = append(all, other)
			}
		}
	}
	return all, open
}

// leastMisfit returns the misfit of a candidate with the overhead that explains the steps best. The
// candidate for all larger stations must not look worse only because it was tried with fewer
// overheads.
func leastMisfit(
	steps []observed, c candidate, start float64, values, squares []float64, forms []profile,
	o PredictOptions,
) float64 {
	least := c.misfit
	for i := 1; i < len(values); i++ {
		other := fitService(steps, c.workers, values[i], forms[i], start-values[i], o)
		least = min(least, other.misfit+squares[i])
	}
	return least
}

// weigh returns the probability of each candidate. Beforehand, a station of twice the size is 0.7
// times as likely, on a logarithmic scale. The open candidate gets the sum for all larger stations,
// because counting them as one would give them too little weight. If even the best model fits
// badly, all differences count less.
func weigh(all []candidate, open int) (weights []float64, openWeight float64) {
	least := all[0]
	for _, c := range all {
		if c.misfit < least.misfit {
			least = c
		}
	}
	scale := max(1, least.misfit/float64(max(least.bins-2, 1)))
	weights = make([]float64, len(all))
	total := 0.0
	for i, c := range all {
		k := float64(c.workers)
		prior := 1 / (k * math.Sqrt(k))
		if i == open {
			prior = 2/math.Sqrt(k) - 2/math.Sqrt(mostWorkers+1)
		}
		weights[i] = prior * math.Exp(-(c.misfit-least.misfit)/2/scale)
		total += weights[i]
	}
	for i := range weights {
		weights[i] /= total
	}
	if open >= 0 {
		openWeight = weights[open]
	}
	return weights, openWeight
}

// fewestWorkers returns the smallest station that is still plausible.
func fewestWorkers(all []candidate, weights []float64) int {
	fewest := mostWorkers
	for i, c := range all {
		if weights[i] > .02 {
			fewest = min(fewest, c.workers)
		}
	}
	return fewest
}

// Score compares a prediction with the line that was found.
func Score(p *Prediction, measured Interval) {
	p.Measured = measured
	p.Misses = ""
	if measured.Estimate <= 0 || p.Line.Estimate <= 0 {
		p.Error = 0
		return
	}
	p.Error = p.Line.Estimate/measured.Estimate - 1
	switch {
	case p.Error > mostOff:
		p.Misses = fmt.Sprintf("the line is %.0f %% lower than predicted by %s: "+
			"the bottleneck is something that does not show below %.4g a second, "+
			"such as a bounded queue, a lock, memory, garbage collection, or a dependency with a "+
			"limit of its own", 100*(1-1/(1+p.Error)), p.Limit, p.Upto)
	case p.Error < -mostOff:
		p.Misses = fmt.Sprintf("the line is %.0f %% higher than predicted by %s: "+
			"requests cost less at higher rates than below %.4g a second, as where work is done "+
			"in batches or caches become warm, or there are more workers than were seen at work",
			100*(1/(1+p.Error)-1), p.Limit, p.Upto)
	}
}
