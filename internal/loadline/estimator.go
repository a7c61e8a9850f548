package loadline

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
)

// Upstream is what the estimator must know about a service.
type Upstream struct {
	Name string
	// Targets are the addresses that requests go to now.
	Targets []string
	// Objective is the objective for its answers.
	Objective Objective
	// Prior is what a survey found; nil for none.
	Prior *Line
}

// Window is what was counted over a past interval.
type Window struct {
	End    int64 // nanoseconds, of a clock that only moves forward
	Length int64 // nanoseconds
	// Instance is what the instance itself consumed.
	Instance Use
	// Seen is what was seen of each target.
	Seen map[Target]*Seen
	// Refused is how many requests waited without success at an upstream's concurrency limit.
	// Requests that merely wait are not a sign of its line: with one worker, the share that waits is
	// the share of time for which the worker is busy.
	Refused map[string]uint64
}

// Target names a target of an upstream.
type Target struct{ Upstream, Address string }

const (
	// mostTargets is how many targets of all upstreams together have a history. A history takes
	// some 30 KB, more if hundreds of requests are at a target at once.
	mostTargets = 512
	// fits is over how many of a target's last estimates the median is taken. Each estimate depends
	// on its own random numbers.
	fits = 5
	// enoughRefused is the inverse of the share of requests that must have waited without success
	// for a window to show the full capacity of an upstream.
	enoughRefused = 50
	// forgotten is the greatest age, in nanoseconds, of traffic that estimates are still made from.
	forgotten = int64(3600e9)
)

// target is what is known of one target.
type target struct {
	history
	estimates []Interval // of the last fits that found a line, oldest first
	how, why  string     // of the last fit
	fitted    int64      // end of the newest window that the last fit used
	known     int64      // the same for the last fit that found a line
}

// service is what is known of an upstream.
type service struct {
	Upstream
	rate  float64
	bound []bound // windows at its limit
	seen  int64   // end of the newest window with requests
}

// bound is what an upstream answered while it was at its limit.
type bound struct {
	at   int64
	rate float64
}

// Estimator keeps the recent observations and the estimates from them. Its methods may be called
// from any goroutine.
type Estimator struct {
	loops int

	mu       sync.Mutex // never held during a fit
	services map[string]*service
	targets  map[Target]*target
	instance instance
	rounds   uint64
	now      int64 // end of the newest window
}

// New makes an estimator for an instance with the given number of loops.
func New(loops int) *Estimator {
	return &Estimator{
		loops:    loops,
		services: map[string]*service{},
		targets:  map[Target]*target{},
		instance: instance{loops: loops},
	}
}

// Configure sets the upstreams. What is known of upstreams that remain is kept. So is, for ten
// minutes after its last request, what is known of targets no longer in use, because ejected
// targets come back.
func (e *Estimator) Configure(all []Upstream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	services := make(map[string]*service, len(all))
	for _, u := range all {
		s := e.services[u.Name]
		if s == nil {
			s = &service{}
		}
		s.Upstream = u
		services[u.Name] = s
	}
	e.services = services
	maps.DeleteFunc(e.targets, func(t Target, known *target) bool {
		s := services[t.Upstream]
		return s == nil || !slices.Contains(s.Targets, t.Address) && e.now-known.newest > kept*part
	})
}

// Feed adds a window.
func (e *Estimator) Feed(w *Window) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = w.End
	e.instance.add(w.End, w.Length, &w.Instance)
	answered := map[string]uint64{}
	for at, seen := range w.Seen {
		s := e.services[at.Upstream]
		if s == nil || !slices.Contains(s.Targets, at.Address) {
			continue
		}
		t := e.targets[at]
		if t == nil {
			if len(e.targets) >= mostTargets {
				continue
			}
			t = &target{}
			e.targets[at] = t
		}
		t.add(w.End, w.Length, seen)
		answered[at.Upstream] += seen.Requests()
	}
	for name, s := range e.services {
		s.rate = float64(answered[name]) * 1e9 / float64(max(w.Length, 1))
		if answered[name] > 0 {
			s.seen = w.End
		}
		s.bound = slices.DeleteFunc(s.bound, func(b bound) bool { return w.End-b.at > kept*part })
		if answered[name] > 0 && w.Refused[name]*enoughRefused > answered[name] {
			s.bound = append(s.bound, bound{w.End, s.rate})
		}
	}
}

// Fit updates the estimates of at most most targets: of those with traffic since their last fit,
// the ones fitted longest ago first. It takes about a second of processor time for each target, and
// holds no lock meanwhile.
func (e *Estimator) Fit(most int) {
	for _, at := range e.stale(most) {
		e.mu.Lock()
		t, s := e.targets[at], e.services[at.Upstream]
		if t == nil || s == nil {
			e.mu.Unlock()
			continue
		}
		e.rounds++
		parts, newest, objective, seed := t.copied(), t.newest, s.Objective, e.rounds
		e.mu.Unlock()

		found := fit(parts, objective, e.loops, seed)

		e.mu.Lock()
		t.fitted, t.why = newest, found.why
		if found.why == "" {
			if !agrees(t.estimates, found.line) {
				t.estimates = nil // the target has changed
			}
			t.estimates = append(t.estimates, found.line)
			t.estimates = t.estimates[max(0, len(t.estimates)-fits):]
			t.how, t.known = found.how, newest
		}
		e.mu.Unlock()
	}
}

// agrees reports whether a new estimate may be of the same, unchanged target as the earlier ones.
func agrees(before []Interval, line Interval) bool {
	const twice = 2
	if len(before) == 0 {
		return true
	}
	m := middle(before).Estimate
	return line.Estimate < twice*m && m < twice*line.Estimate
}

// stale is at most most targets to fit next.
func (e *Estimator) stale(most int) []Target {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Target
	for at, t := range e.targets {
		if t.newest > t.fitted && t.requests() >= fewest {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b Target) int {
		return cmp.Or(cmp.Compare(e.targets[a].fitted, e.targets[b].fitted),
			cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Address, b.Address))
	})
	return all[:min(len(all), most)]
}

// copied is a copy of the history's parts, for use without the lock.
func (h *history) copied() []span {
	parts := slices.Clone(h.parts)
	for i := range parts {
		parts[i].Met = slices.Clone(parts[i].Met)
	}
	return parts
}

// Status returns the estimates as of now.
func (e *Estimator) Status(now int64) Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{Rate: e.instance.rate(), Upstreams: []Estimate{}}
	s.Instance, s.Routes = e.instance.estimates(now)
	for _, name := range slices.Sorted(maps.Keys(e.services)) {
		s.Upstreams = append(s.Upstreams, e.service(name, now))
	}
	s.Rate = rounded(s.Rate)
	for _, all := range [][]Estimate{s.Instance, s.Upstreams} {
		for i := range all {
			all[i].round()
			h := all[i].Headroom
			if h != nil && (s.Headroom == nil || h.Estimate < s.Headroom.Estimate) {
				s.Limit, s.Headroom = all[i].Name, h
			}
		}
	}
	return s
}

// service is the estimate of an upstream: the sum over its targets or, if it has been at its
// concurrency limit, the rates that it then reached.
func (e *Estimator) service(name string, now int64) Estimate {
	s := e.services[name]
	est := Estimate{Name: name, Rate: s.rate, Age: seconds(now - s.seen)}
	if s.seen == 0 {
		est.Age, est.Why = 0, "no request has been sent to it yet"
	}
	if c, how := s.atLimit(); c != nil {
		est.Capacity, est.How = c, how
		est.Age = seconds(now - s.bound[len(s.bound)-1].at)
	} else {
		e.fitted(s, &est, now)
	}
	s.Prior.join(&est, s, e.alone(s), now)
	est.setHeadroom()
	return est
}

// atLimit is what an upstream answered while it was at its concurrency limit.
func (s *service) atLimit() (*Interval, string) {
	const enough = 2
	if len(s.bound) < enough {
		return nil, ""
	}
	rates := make([]float64, len(s.bound))
	for i, b := range s.bound {
		rates[i] = b.rate
	}
	// Only the newest windows count: capacities change, and then the limit follows.
	rates = rates[max(0, len(rates)-fits):]
	slices.Sort(rates)
	return &Interval{rates[0], rates[len(rates)/2], rates[len(rates)-1]},
		fmt.Sprintf("what it answered in the last %d windows of 10 s in which its "+
			"concurrency limit turned requests away", len(rates))
}

// fitted sums the estimates of the targets. Targets without an estimate count as the mean of the
// others.
func (e *Estimator) fitted(s *service, est *Estimate, now int64) {
	var sum, below, above float64
	var known, oldest int64
	how, why, n := "", "", 0
	for _, address := range s.Targets {
		t := e.targets[Target{s.Name, address}]
		if t == nil {
			continue
		}
		if len(t.estimates) == 0 || now-t.known > forgotten {
			why = cmp.Or(why, t.why)
			continue
		}
		i := middle(t.estimates)
		sum, n, how = sum+i.Estimate, n+1, cmp.Or(how, t.how)
		below, above = below+square(i.Estimate-i.Low), above+square(i.High-i.Estimate)
		if known = max(known, t.known); oldest == 0 || t.known < oldest {
			oldest = t.known
		}
	}
	if n == 0 {
		est.Why = cmp.Or(est.Why, why, fmt.Sprintf("too few requests were seen: a target needs %d "+
			"in ten minutes", fewest))
		return
	}
	all := Interval{sum - math.Sqrt(below), sum, sum + math.Sqrt(above)}.
		times(float64(len(s.Targets)) / float64(n))
	est.Capacity, est.Age, est.How = &all, seconds(now-oldest), how
	if len(s.Targets) > 1 {
		est.How = fmt.Sprintf("%d targets, %d of them fitted, the first as %s",
			len(s.Targets), n, how)
	}
}

// alone is the mean time, in nanoseconds, of an uncrowded request; 0 while it is not known.
func (e *Estimator) alone(s *service) float64 {
	var all Seen
	for _, address := range s.Targets {
		if t := e.targets[Target{s.Name, address}]; t != nil {
			for i := range t.parts {
				if m := t.parts[i].Met; len(m) > 0 {
					all.Add(&Seen{Met: m[:1]})
				}
			}
		}
	}
	mean, _ := alone(&all)
	return mean
}

// setHeadroom sets Headroom to the share of the capacity that is left.
func (est *Estimate) setHeadroom() {
	c := est.Capacity
	if c == nil {
		return
	}
	left := func(capacity float64) float64 { return max(0, 1-est.Rate/max(capacity, 1e-9)) }
	est.Headroom = &Interval{left(c.Low), left(c.Estimate), left(c.High)}
}

// middle is the median of estimates. Its interval covers the median interval and the spread of the
// estimates.
func middle(all []Interval) Interval {
	pick := func(of func(Interval) float64) []float64 {
		v := make([]float64, len(all))
		for i := range all {
			v[i] = of(all[i])
		}
		slices.Sort(v)
		return v
	}
	estimates := pick(func(i Interval) float64 { return i.Estimate })
	lows, highs := pick(func(i Interval) float64 { return i.Low }),
		pick(func(i Interval) float64 { return i.High })
	n := len(all)
	return Interval{
		min(lows[n/2], estimates[0]), estimates[n/2], max(highs[n/2], estimates[n-1]),
	}
}

// round rounds the figures to a meaningful precision.
func (est *Estimate) round() {
	est.Rate = rounded(est.Rate)
	for _, i := range []*Interval{est.Capacity, est.Headroom} {
		if i != nil {
			*i = Interval{rounded(i.Low), rounded(i.Estimate), rounded(i.High)}
		}
	}
}

// rounded keeps four significant digits.
func rounded(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	digit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-3)
	if digit < 1 {
		return math.Round(x*math.Round(1/digit)) / math.Round(1/digit)
	}
	return math.Round(x/digit) * digit
}

func seconds(ns int64) float64 { return float64(max(ns, 0)/1e6) / 1e3 }

func square(x float64) float64 { return x * x }
