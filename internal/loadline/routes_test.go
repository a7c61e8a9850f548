package loadline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// played are windows of two loops in which routes cost what is given, in microseconds of a loop at
// 1,000 requests a second of them alone, and batches make what comes together cheaper.
type played struct {
	costs    map[string]float64
	exponent float64
	noise    *rand.Rand
	windows  []Use
}

// weight is the rate of what, in requests of one microsecond.
func (p *played) weight(rates map[string]float64) (sum float64) {
	for name, rate := range rates {
		sum += p.costs[name] * rate
	}
	return sum
}

// busy is the share of both loops' time.
func (p *played) busy(rates map[string]float64) float64 {
	return .3 * math.Pow(p.weight(rates)/500_000, p.exponent)
}

// add adds so many windows at a rate of all, around which it varies.
func (p *played) add(n int, rate float64, shares map[string]float64) {
	for range n {
		at := rate * (.4 + 1.2*p.noise.Float64())
		rates, u := map[string]float64{}, Use{}
		for name, share := range shares {
			// How many come of a route in 10 s varies as Poisson has it.
			mean := 10 * at * share
			count := math.Round(max(0, mean+math.Sqrt(mean)*p.noise.NormFloat64()))
			rates[name] = count / 10
			u.Routes = append(u.Routes, RouteCount{name, uint64(count)})
			u.Requests += uint64(count)
		}
		u.Busy = int64(2 * 10e9 * p.busy(rates) * (1 + .01*p.noise.NormFloat64()))
		p.windows = append(p.windows, u)
	}
}

// truth is the rate of all at which the loops are full, at a mix.
func (p *played) truth(shares map[string]float64) float64 {
	return 500_000 * math.Pow(full/.3, 1/p.exponent) / p.weight(shares)
}

func (p *played) status() Status {
	return fed(p.windows...).Status(int64(len(p.windows)) * 10 * second)
}

var (
	mostlyLight = map[string]float64{"light": .9, "heavy": .1}
	mostlyHeavy = map[string]float64{"light": .3, "heavy": .7}
)

// The line is that of the present mix, three windows after the mix has changed, and again when it
// changes back.
func TestTheProcessorsLineFollowsTheMixOfRoutes(t *testing.T) {
	for _, exponent := range []float64{.65, .8, 1} {
		for seed := range uint64(10) {
			name := fmt.Sprintf("exponent %v, seed %d", exponent, seed)
			p := &played{exponent: exponent, noise: rand.New(rand.NewPCG(seed, 7)),
				costs: map[string]float64{"light": 20, "heavy": 300}}
			p.add(30, 6000, mostlyLight)
			p.hits(t, name+", before", mostlyLight)
			p.add(lately, 2500, mostlyHeavy)
			p.hits(t, name+", changed", mostlyHeavy)
			p.add(lately, 6000, mostlyLight)
			p.hits(t, name+", changed back", mostlyLight)
			costs := map[string]RouteCost{}
			for _, c := range p.status().Routes {
				costs[c.Name] = c
			}
			light, heavy := costs["light"].Busy, costs["heavy"].Busy
			if r := heavy.Estimate / light.Estimate; r < 9 || r > 25 {
				t.Errorf("%s: a heavy request costs %.3g times a light one, want about 15: %+v %+v", name, r, heavy, light)
			}
		}
	}
}

// hits checks that the true line lies in the interval, and is not far from the estimate.
func (p *played) hits(t *testing.T, name string, shares map[string]float64) {
	t.Helper()
	truth, cpu := p.truth(shares), p.status().Instance[0]
	c := cpu.Capacity
	switch {
	case c == nil:
		t.Errorf("%s: the line is unknown: %s", name, cpu.Why)
	case c.Low > 1.04*truth || c.High < .96*truth: // how the time grows is not known to the last percent
		t.Errorf("%s: the line is %.0f, and the interval %.0f to %.0f", name, truth, c.Low, c.High)
	case c.Estimate > 1.6*truth || c.Estimate < truth/1.6:
		t.Errorf("%s: the line is %.0f, and the estimate %.0f", name, truth, c.Estimate)
	}
}

// A mix that never changes says nothing of what its routes cost: the line is what it was without
// them, and the costs are said to be anything.
func TestAMixThatStaysIsAsOneRoute(t *testing.T) {
	p := &played{exponent: .7, noise: rand.New(rand.NewPCG(1, 1)), costs: map[string]float64{"light": 20, "heavy": 300}}
	for _, rate := range []float64{1000, 2000, 3000, 4000, 5000} {
		u := Use{Requests: uint64(10 * rate), Routes: []RouteCount{{"light", uint64(9 * rate)}, {"heavy", uint64(rate)}}}
		u.Busy = int64(2 * 10e9 * p.busy(map[string]float64{"light": .9 * rate, "heavy": .1 * rate}))
		p.windows = append(p.windows, u)
	}
	s := p.status()
	with := s.Instance[0].Capacity
	for i := range p.windows {
		p.windows[i].Routes = nil
	}
	without := p.status().Instance[0].Capacity
	if math.Abs(with.Estimate/without.Estimate-1) > .05 {
		t.Errorf("the estimate is %.0f with the routes and %.0f without", with.Estimate, without.Estimate)
	}
	if len(s.Routes) != 2 || s.Routes[0].Name != "light" || math.Abs(s.Routes[0].Share-.9) > 1e-6 {
		t.Fatalf("the routes are %+v", s.Routes)
	}
	if heavy := s.Routes[1].Busy; heavy.High < 3*heavy.Estimate {
		t.Errorf("what a heavy request costs cannot be known, and is said to be %+v", heavy)
	}
}

// However many routes there are, what is kept of them is bounded.
func TestRoutesWithFewRequestsCountTogether(t *testing.T) {
	var windows []Use
	for i := range 100 {
		u := Use{Busy: 4e9}
		for r := range 500 {
			n := uint64(1 + (r*7+i)%30)
			u.Routes = append(u.Routes, RouteCount{fmt.Sprintf("r%d", (r+i)%700), n})
			u.Requests += n
		}
		windows = append(windows, u)
	}
	e := fed(windows...)
	for _, w := range e.instance.windows {
		if len(w.Routes) > costed+1 {
			t.Fatalf("%d routes of a window are kept", len(w.Routes))
		}
	}
	s := e.Status(1000 * second)
	if n := len(s.Routes); n == 0 || n > costed+1 {
		t.Errorf("%d routes have a cost", n)
	}
	if s.Instance[0].Capacity == nil {
		t.Errorf("the line is unknown: %s", s.Instance[0].Why)
	}
}

// Rounded rates must not look like the requests of another route.
func TestARouteWithAllRequestsLeavesNoneToOthers(t *testing.T) {
	for n := range uint64(300) {
		var windows []usage
		for k := range uint64(3) {
			u := Use{Requests: n + k + 1, Routes: []RouteCount{{"all", n + k + 1}}}
			windows = append(windows, usage{Use: u, rate: float64(u.Requests) * 1e9 / float64(7e8+13*n+k), busy: .5})
		}
		all := mixOf(windows).costs(1000)
		if len(all) != 1 || all[0].Name != "all" || all[0].Share != 1 {
			t.Fatalf("%d requests: %+v", n, all)
		}
	}
}
