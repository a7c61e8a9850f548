package loadline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Use is what the instance itself consumed in a window.
type Use struct {
	Requests uint64
	Busy     int64 // nanoseconds in which the loops did not wait, summed over all loops
	// CPU is the processor time in nanoseconds that requests took, on the loops and outside them:
	// HTTP/3 packets and TLS handshakes are processed outside. Processors is how many processors
	// the process may use. Both are 0 where that is not known.
	CPU        int64
	Processors int
	// client connections at the window's end, and how many the descriptor limit allows
	Clients, ClientsAllowed int64
	// bytes in use at the window's end, and how many may be; 0 for no limit
	Memory, MemoryLimit uint64
	// Routes divides Requests by route. Requests that it does not count belong to no route.
	Routes []RouteCount
}

const (
	// uses is how many windows are kept.
	uses = 60
	// fewestUses is how many windows with requests an estimate needs. fewestCounted is how many
	// requests a window needs to count as one.
	fewestUses, fewestCounted = 3, 100
	// full is the share of its time for which a loop may be busy.
	full = .95
	// idle is the share of busy time below which the loops are too idle to say what a request
	// costs: in a turn for a single request, that request costs several times as much as on a busy
	// loop.
	idle = .01
	// usual is the exponent with which the busy time of the loops grows with the rate, for when the
	// windows do not show it: the more requests a turn serves, the less each costs. Measured on the
	// proxy from 500 to 12,000 requests a second: .64.
	usual, leastExponent = .65, .6
	// mostExponent is the largest exponent used for the upper end of the interval. However constant
	// the costs were so far, requests may cost less at higher rates.
	mostExponent = .9
	// spread is the least ratio of the rates of two windows from which they show how something
	// grows with the rate.
	spread = 1.3
)

// instance is what the instance consumed in recent windows.
type instance struct {
	loops   int
	windows []usage
}

// usage is one window.
type usage struct {
	Use
	end  int64
	rate float64 // requests a second
	busy float64 // busy share of the loops' time or, if larger, of the processors' time
	of   int     // the number of loops, or of processors, that busy refers to
	// beside says that busy is of the processors, which were busier because of work outside the
	// loops
	beside bool
}

func (in *instance) add(end, length int64, u *Use) {
	all := float64(max(length, 1)) * float64(max(in.loops, 1))
	w := usage{Use: *u, end: end, rate: float64(u.Requests) * 1e9 / float64(max(length, 1)),
		busy: float64(u.Busy) / all, of: in.loops}
	if u.Processors > 0 {
		if busy := float64(u.CPU) / float64(max(length, 1)) / float64(u.Processors); busy > w.busy {
			w.busy, w.of, w.beside = busy, u.Processors, true
		}
	}
	w.Routes = leading(u.Routes)
	in.windows = append(in.windows, w)
	in.windows = in.windows[max(0, len(in.windows)-uses):]
}

// rate is the rate of the last window.
func (in *instance) rate() float64 {
	if n := len(in.windows); n > 0 {
		return in.windows[n-1].rate
	}
	return 0
}

// recent is the recent windows that have enough requests.
func (in *instance) recent(now int64) (with []usage) {
	for _, w := range in.windows {
		if w.Requests >= fewestCounted && now-w.end <= kept*part {
			with = append(with, w)
		}
	}
	return with
}

// estimates returns the estimates of the instance's own resources, and what its routes cost.
func (in *instance) estimates(now int64) ([]Estimate, []RouteCost) {
	with := in.recent(now)
	var routes []RouteCost
	processor := func(with []usage, est *Estimate) { routes = in.processor(with, est) }
	resources := [...]struct {
		name  string
		judge func([]usage, *Estimate)
	}{{"gateway cpu", processor}, {"descriptors", descriptors}, {"memory", memory}}
	all := make([]Estimate, len(resources))
	for i, r := range resources {
		est := &all[i]
		est.Name, est.Rate = r.name, in.rate()
		if len(with) < fewestUses {
			est.Why = fmt.Sprintf("too few requests were seen: it takes %d windows of 10 s with %d",
				fewestUses, fewestCounted)
			continue
		}
		est.Age = seconds(now - with[len(with)-1].end)
		r.judge(with, est)
		est.setHeadroom()
	}
	return all, routes
}

// processor estimates the rate at which the loops are busy for all of the time that they may be.
// The cost of a request falls as the load grows, because a turn then serves more requests. So the
// cost in the busiest windows gives a lower bound of the capacity, extrapolating how the cost has
// fallen so far gives an upper bound, and the estimate is their geometric mean. Windows with
// another mix of routes are converted to the present mix.
func (in *instance) processor(with []usage, est *Estimate) []RouteCost {
	m := mixOf(with)
	if m != nil {
		with = m.alike(with)
	}
	top := busiest(with)
	if top.busy < idle {
		est.Why = fmt.Sprintf("the loops are busy for %.2g %% of the time, too little to say what "+
			"a request costs", 100*top.busy)
		return nil
	}
	exponent, shown := growth(with)
	if !shown {
		exponent = usual
	}
	times := max(full/top.busy, 1)
	low, high := top.rate*times, top.rate*math.Pow(times, 1/min(exponent, mostExponent))
	off := 0.0
	if m != nil {
		off = min(2*m.off, doubt)
	}
	est.Capacity = &Interval{low / (1 + off), math.Sqrt(low * high), high * (1 + off)}
	last := &with[len(with)-1]
	cost := 1e6 * top.busy * float64(last.of) / top.rate
	est.How = fmt.Sprintf("a request keeps a loop busy for %.3g µs at %.4g a second; with the rate "+
		"the time grows as its power of %.2f", cost, top.rate, exponent)
	if last.beside {
		est.How += "; it is the process's time, with what is done beside the loops"
	}
	if !shown {
		est.How += ", which is what is usual: the rates seen are too much alike to show it"
	}
	if m == nil {
		return nil
	}
	return m.costs(1e6 * last.busy * float64(last.of) / max(last.rate, 1e-9))
}

// peak is the rate and the busy share of the busiest windows.
type peak struct{ rate, busy float64 }

// busiest is the median over the quarter of windows with the highest rates.
func busiest(with []usage) peak {
	sorted := slices.Clone(with)
	slices.SortFunc(sorted, func(a, b usage) int { return cmp.Compare(a.rate, b.rate) })
	sorted = sorted[len(sorted)-max(1, len(sorted)/4):]
	rates, costs := make([]float64, len(sorted)), make([]float64, len(sorted))
	for i, w := range sorted {
		rates[i], costs[i] = w.rate, w.busy/w.rate
	}
	rate := median(rates)
	return peak{rate: rate, busy: rate * median(costs)}
}

// growth is the exponent with which the busy time grows with the rate: the median over all pairs of
// windows (the Theil–Sen estimator). ok is false if their rates are too similar.
func growth(with []usage) (exponent float64, ok bool) {
	var slopes []float64
	for i, a := range with {
		for _, b := range with[:i] {
			if ratio := a.rate / b.rate; (ratio > spread || ratio < 1/spread) &&
				a.busy > 0 && b.busy > 0 {
				slopes = append(slopes, math.Log(a.busy/b.busy)/math.Log(ratio))
			}
		}
	}
	if len(slopes) < fewestUses {
		return 0, false
	}
	return min(max(median(slopes), leastExponent), 1), true
}

// descriptors estimates the rate at which clients hold all the connections that are allowed, if
// each is held for as long as at present.
func descriptors(with []usage, est *Estimate) {
	var rates []float64
	for _, w := range with {
		if w.Clients > 0 && w.ClientsAllowed > 0 {
			rates = append(rates, w.rate*float64(w.ClientsAllowed)/float64(w.Clients))
		}
	}
	if len(rates) == 0 {
		est.Why = "no client was connected when it was looked"
		return
	}
	slices.Sort(rates)
	n := len(rates)
	est.Capacity = &Interval{rates[n/20], rates[n/2], rates[n-1-n/20]}
	last := &with[len(with)-1]
	est.How = fmt.Sprintf("clients hold %d of the %d connections that descriptors leave room for, "+
		"and as many for each request a second as now", last.Clients, last.ClientsAllowed)
}

// memory estimates the rate at which the memory is used up.
func memory(with []usage, est *Estimate) {
	last := &with[len(with)-1]
	if last.MemoryLimit == 0 {
		est.Why = "nothing limits the memory: neither GOMEMLIMIT nor a control group"
		return
	}
	var slopes []float64
	for i, a := range with {
		for _, b := range with[:i] {
			if ratio := a.rate / b.rate; ratio > spread || ratio < 1/spread {
				slopes = append(slopes, (float64(a.Memory)-float64(b.Memory))/(a.rate-b.rate))
			}
		}
	}
	slices.Sort(slopes)
	n := len(slopes)
	if n < fewestUses || slopes[n/4] <= 0 {
		est.Why = fmt.Sprintf("%.3g of %.3g MB are in use, and that does not grow with the rate as "+
			"far as was seen", float64(last.Memory)/1e6, float64(last.MemoryLimit)/1e6)
		return
	}
	left := max(0, float64(last.MemoryLimit)-float64(last.Memory))
	at := func(slope float64) float64 { return last.rate + left/slope }
	est.Capacity = &Interval{at(slopes[n*3/4]), at(slopes[n/2]), at(slopes[n/4])}
	est.How = fmt.Sprintf("%.3g of %.3g MB are in use, and each request a second takes %.3g kB",
		float64(last.Memory)/1e6, float64(last.MemoryLimit)/1e6, slopes[n/2]/1e3)
}

// median is the middle of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
