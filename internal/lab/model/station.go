package model

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/stats"
)

// Gentle steps show a hidden station by how long requests take, depending on how many others they
// found in flight. While workers are free, they take no longer than alone; from there on, each
// further request adds a service time ÷ workers. At half the line, the share that finds all workers
// busy is small and cannot be seen in the percentiles of all requests: with 8 exponential workers
// it moves the mean by 0.4 %. Without counts (Totals.ConcurrencyAtSend) the mean of all requests
// has to do, and it only reveals a few workers.

// bin is the requests of a step that found low to high others.
type bin struct {
	low, high int
	count     []float64 // requests by how many others they found, starting at low
	total     float64
	mean      float64 // nanoseconds
	variance  float64 // of the mean
}

// observed is what one gentle step shows.
type observed struct {
	rate    float64
	poisson bool
	alone   bool // a closed loop of one connection: each request is alone
	loops   int
	bins    []bin
	drawn   chances // for its simulations
}

// chances are the random parts of the simulations of a step. They are the same for every candidate,
// so they are drawn once: drawing takes longer than the simulation itself.
type chances struct {
	at    []int64 // time of each arrival, nanoseconds
	loop  []int   // which of the generator's loops sends it
	value []int   // index of its service in the profile, as far as drawn
	form  int     // the number of values of that profile
}

// draw makes new arrivals unless they already fit the profile and the number of arrivals.
func (c *chances) draw(o *observed, form, arrivals int, seed uint64) {
	if c.form == form && len(c.at) == arrivals {
		return
	}
	*c = chances{
		at:    make([]int64, arrivals),
		loop:  make([]int, arrivals),
		value: make([]int, 0, arrivals),
		form:  form,
	}
	stream := queue.NewArrivals(o.rate, o.poisson, seed)
	r := rand.New(rand.NewPCG(seed, 0x3c6ef372fe94f82b))
	for i := range arrivals {
		c.at[i], c.loop[i] = stream.Next(), i%o.loops
		if o.poisson && o.loops > 1 {
			c.loop[i] = r.IntN(o.loops)
		}
	}
}

const (
	// fewestInBin is how many requests a bin's mean needs.
	fewestInBin = 12
	// correlated is the factor by which the variance of a mean exceeds that of independent
	// requests: those in the same congestion are slow together.
	correlated = 1.25
	// modelError is the share of a mean by which a real service may differ from a station that
	// models it.
	modelError = .015
)

// observe reads a step.
func observe(s *measure.Step) observed {
	t := &s.Totals
	o := observed{
		rate:    t.Rate(),
		poisson: s.Plan.Arrivals != "constant",
		alone:   s.Plan.Rate == 0,
		loops:   max(t.Generator.Loops, 1),
	}
	if len(t.ConcurrencyAtSend) == 0 || o.alone {
		o.bins = []bin{wholeBin(s)}
		return o
	}
	var b bin
	var sum, squares float64
	begin := func(at int) { b, sum, squares = bin{low: at}, 0, 0 }
	begin(0)
	for _, c := range t.ConcurrencyAtSend {
		if c.Count == 0 || c.Found < b.low+len(b.count) || c.Found > measure.MostFound {
			continue
		}
		for len(b.count) < c.Found-b.low {
			b.count = append(b.count, 0)
		}
		b.count = append(b.count, float64(c.Count))
		b.total, sum, squares = b.total+float64(c.Count), sum+c.Sum, squares+c.Squares
		b.high = c.Found
		b.mean = sum / b.total
		b.variance = correlated * max(squares/b.total-b.mean*b.mean, 0) / b.total
		if b.total >= fewestInBin {
			o.bins = append(o.bins, b)
			begin(c.Found + 1)
		}
	}
	return o
}

// wholeBin returns one bin with all requests of a step. The means of the windows show how much the
// dependence between requests adds to the variance.
func wholeBin(s *measure.Step) bin {
	h := serviceOf(s)
	b := bin{high: measure.MostFound, total: float64(h.Count()), mean: h.Mean()}
	b.count = []float64{b.total}
	d := deviation(h)
	b.variance = correlated * d * d / max(b.total, 1)
	var means []float64
	var between float64
	for i := range s.Windows {
		w := &s.Windows[i]
		if n := float64(w.Service.Count()); n > 0 {
			means = append(means, w.Service.Mean())
			d := n * (w.Service.Mean() - b.mean)
			between += d * d
		}
	}
	if len(means) >= 8 {
		b.variance = max(b.variance, between/(b.total*b.total)*stats.CorrelationTime(means))
	}
	return b
}

// serviceOf returns the step's service times, or its response times if it has none.
func serviceOf(s *measure.Step) *measure.Sparse {
	if len(s.Totals.Service.Cells) > 0 {
		return &s.Totals.Service
	}
	return &s.Totals.Response
}

// uncrowded is how long requests take without waiting for others, as far as the steps show it.
type uncrowded struct {
	times           measure.Sparse // with the right form, perhaps including some waiting
	mean, deviation float64        // without waiting, nanoseconds
}

// newUncrowded takes the times of the closed loop with one connection, where requests never wait,
// or else of the lowest rates. If concurrency was counted, their mean and deviation are those of
// the requests that found no others: a little waiting in the rest would look like a varying service
// time.
func newUncrowded(steps []measure.Step) *uncrowded {
	const enough, enoughAlone, enoughFirst = 1500, 300, 100
	ordered := slices.Clone(steps)
	slices.SortStableFunc(ordered, func(a, b measure.Step) int {
		return cmp.Compare(a.Plan.Rate, b.Plan.Rate)
	})
	var all []*measure.Sparse
	var count uint64
	var first concurrencyAtSend
	for i := range ordered {
		s := &ordered[i]
		if count < enough &&
			!(count >= enoughAlone && s.Plan.Rate > 0 && ordered[0].Plan.Rate == 0) {
			h := serviceOf(s)
			all = append(all, h)
			count += h.Count()
		}
		if c := s.Totals.ConcurrencyAtSend; s.Plan.Rate > 0 && len(c) > 0 && c[0].Found == 0 {
			first.count, first.sum, first.squares = first.count+float64(c[0].Count),
				first.sum+c[0].Sum, first.squares+c[0].Squares
		}
	}
	u := &uncrowded{times: measure.Merged(all...)}
	u.mean = u.times.Mean()
	u.deviation = deviation(&u.times)
	if ordered[0].Plan.Rate > 0 && first.count >= enoughFirst {
		u.mean = first.sum / first.count
		u.deviation = math.Sqrt(max(first.squares/first.count-u.mean*u.mean, 0))
	}
	return u
}

// deviation returns the standard deviation of the durations in a histogram.
func deviation(h *measure.Sparse) float64 {
	mean, squares := h.Mean(), 0.0
	for _, c := range h.Cells {
		low, high := measure.Bounds(int(c.Bucket))
		d := float64(low+high)/2 - mean
		squares += float64(c.Count) * d * d
	}
	return math.Sqrt(squares / max(float64(h.Count()), 1))
}

// profile is a distribution of service times with mean 1, as a table of equally likely values.
type profile []float64

// tableSize limits the table: its last value, a quantile, stands for the rest of the tail.
const tableSize = 4096

// newProfile returns the distribution of the times, minus a constant overhead.
func newProfile(u *uncrowded, overhead float64) profile {
	h := &u.times
	n := int(min(h.Count(), tableSize))
	p := make(profile, 0, n)
	middle, stretch := h.Mean(), 1.0
	if d := deviation(h); d > 0 {
		stretch = u.deviation / d
	}
	cell, used, sum := 0, 0.0, 0.0
	for i := range n {
		rank := (float64(i) + .5) / float64(n) * float64(h.Count())
		for cell < len(h.Cells)-1 && used+float64(h.Cells[cell].Count) < rank {
			used += float64(h.Cells[cell].Count)
			cell++
		}
		low, high := measure.Bounds(int(h.Cells[cell].Bucket))
		v := float64(low) + (rank-used)/float64(h.Cells[cell].Count)*float64(high-low)
		v = max(u.mean+(v-middle)*stretch-overhead, 0)
		p, sum = append(p, v), sum+v
	}
	for i := range p {
		p[i] *= float64(n) / max(sum, 1)
	}
	return p
}

// again resamples the profile with n other requests: the tail that few requests show is uncertain.
func (p profile) again(n uint64, r *rand.Rand) profile {
	drawn, sum := make(profile, min(n, tableSize)), 0.0
	for i := range drawn {
		drawn[i] = p[r.IntN(len(p))]
		sum += drawn[i]
	}
	for i := range drawn {
		drawn[i] *= float64(len(drawn)) / max(sum, 1e-9)
	}
	return drawn
}

// service returns a function that draws from the profile, with a mean in nanoseconds.
func (p profile) service(mean float64) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 { return p.at(r.IntN(len(p)), mean) }
}

// at returns value i of the profile with that mean, in nanoseconds.
func (p profile) at(i int, mean float64) int64 { return int64(p[i]*mean + .5) }

// concurrencyAtSend sums up a simulation's requests that found the same number of others.
type concurrencyAtSend struct{ count, sum, squares float64 }

// simulated is a candidate's result for one step's load, by concurrency at send.
type simulated struct {
	atSend [measure.MostFound + 1]concurrencyAtSend
	waited float64 // share of the requests that found all workers busy
}

// simulate offers a step's load to a station with a constant overhead, half of it before and half
// after the station. Calls for one step use the same seed.
func simulate(
	o *observed, workers int, form profile, mean, overhead float64, arrivals int, seed uint64,
) *simulated {
	var sim simulated
	c := &o.drawn
	c.draw(o, len(form), arrivals, seed)
	next, drawn := 0, int64(0)
	service := func(r *rand.Rand) int64 {
		if next == len(c.value) {
			c.value = append(c.value, r.IntN(len(form)))
		}
		drawn = form.at(c.value[next], mean)
		next++
		return drawn
	}
	q := queue.New(queue.Station{Workers: workers, Service: service, Room: -1}, seed)
	inside := make([]queue.Times, o.loops) // when they will be done
	half := int64(overhead / 2)
	for i, at := range c.at {
		mine := &inside[c.loop[i]]
		mine.DropUntil(at)
		done, _ := q.Offer(at + half)
		took := float64(done - at + half)
		met := &sim.atSend[min(mine.Len(), measure.MostFound)]
		met.count, met.sum, met.squares = met.count+1, met.sum+took, met.squares+took*took
		if done-drawn > at+half {
			sim.waited++
		}
		mine.Put(done + half)
	}
	sim.waited /= float64(arrivals)
	return &sim
}

// expect returns the mean that a simulation predicts for a bin, and the variance of that mean.
func (s *simulated) expect(b *bin, perWorker float64) (mean, variance float64) {
	if b.low == 0 && b.high == measure.MostFound {
		var all concurrencyAtSend
		for _, c := range s.atSend {
			all.count, all.sum, all.squares = all.count+c.count, all.sum+c.sum,
				all.squares+c.squares
		}
		mean = all.sum / all.count
		return mean, correlated * (all.squares/all.count - mean*mean) / all.count
	}
	const enough = 5
	var total, squares, count float64
	for i, weight := range b.count {
		n := b.low + i
		from := n
		for from > 0 && s.atSend[from].count < enough {
			from--
		}
		c := &s.atSend[from]
		if c.count == 0 {
			continue
		}
		// Beyond what the simulation saw, each further request adds one worker's share of a service
		// time.
		total += weight * (c.sum/c.count + float64(n-from)*perWorker)
		squares += weight * (c.squares/c.count - c.sum/c.count*(c.sum/c.count))
		count += c.count
	}
	if count == 0 || b.total == 0 {
		return 0, math.Inf(1)
	}
	return total / b.total, correlated * squares / b.total / count
}

// candidate is a station that may explain the measurements.
type candidate struct {
	workers  int
	overhead float64 // nanoseconds of a response with no worker busy
	service  float64 // mean, nanoseconds
	error    float64 // relative standard error of service
	misfit   float64 // sum of squared differences, in standard errors
	bins     int
	waits    float64 // requests of all steps that waited, if this is the station
	form     profile
}

const (
	simulatedArrivals = 12_000
	scalings          = 3 // rounds of fitting the service time
)

// fitService finds the service time with which a candidate explains the steps best.
func fitService(
	steps []observed, workers int, overhead float64, form profile, start float64,
	options PredictOptions,
) candidate {
	c := candidate{workers: workers, overhead: overhead, service: start, form: form}
	arrivals, seed := cmp.Or(options.Arrivals, simulatedArrivals), options.Seed
	for round := range scalings {
		var up, down float64
		c.misfit, c.bins, c.waits = 0, 0, 0
		for i := range steps {
			o := &steps[i]
			var sim *simulated
			if !o.alone {
				busiest := o.rate * c.service / 1e9 / float64(workers)
				if busiest >= .99 {
					c.misfit = math.Inf(1)
					return c
				}
				sim = simulate(o, workers, form, c.service, overhead, arrivals, seed+uint64(i))
			}
			for j := range o.bins {
				b := &o.bins[j]
				mean, variance := c.service+overhead, 0.0
				if sim != nil {
					mean, variance = sim.expect(b, c.service/float64(workers))
					c.waits += sim.waited * b.total
				}
				own := modelError * mean
				w := 1 / (b.variance + variance + own*own)
				d, slope := b.mean-mean, mean-overhead
				up, down = up+w*d*slope, down+w*slope*slope
				c.misfit += w * d * d
				c.bins++
			}
		}
		c.error = 1 / math.Sqrt(down)
		if round < scalings-1 {
			c.service *= 1 + min(max(up/down, -.3), .3)
		}
	}
	return c
}
