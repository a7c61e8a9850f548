package loadline

import (
	"cmp"
	"math"
	"slices"
)

// What a request keeps a loop busy for differs by its route, and nobody measures it: reading a clock
// around each piece of each request would cost more than some requests do. But the mix of routes
// changes from window to window, and the time that the loops are busy with it. So the costs are
// fitted to the windows, as weights of the routes against each other:
//
//	the time that loops are busy ∝ (Σ weight of a route × its requests) ^ exponent
//
// The exponent is that of batches (growth). Each weight is drawn towards 1, the mean request, and as
// far from there as the windows show it: in a mix that never changes all stay there, and what is not
// known separately makes no difference to the estimate. A window then counts as the rate of requests
// of the present mix that would have kept the loops as busy.
//
// Rejected: the mean cost of the last windows. It is what this comes to while the mix stays, and a
// change of it moves the line at once and then again as the windows before it are forgotten.

// RouteCount is how many requests of a route ended in a window.
type RouteCount struct {
	Name     string
	Requests uint64
}

// RouteCost is what a request of a route costs the instance.
type RouteCost struct {
	Name string `json:"name"` // empty for all routes that have too few requests for a line of their own
	// Share of the present requests that are the route's.
	Share float64 `json:"share"`
	// Busy: for how many microseconds a request of it keeps a loop busy at the present rate or, where
	// what is done beside the loops makes the processors busier than these, a processor
	Busy Interval `json:"busy_us"`
}

const (
	// costed is how many routes have a weight; those with fewer requests have one together.
	costed = 12
	// lately is how many windows are the present mix.
	lately = 3
	// noise is the share by which the busy time of a window differs at least from what its requests
	// explain, and apart how many times the mean a route is let cost without evidence.
	noise, apart = .02, 3.0
	// lightest is the least weight of a route.
	lightest = .02
	// doubt bounds the share by which what is not known of the weights widens an interval.
	doubt = .5
)

// leading leaves the routes with the most requests, and adds the others up.
func leading(all []RouteCount) []RouteCount {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b RouteCount) int { return cmp.Compare(b.Requests, a.Requests) })
	all = slices.DeleteFunc(all, func(c RouteCount) bool { return c.Requests == 0 })
	if len(all) <= costed {
		return all
	}
	rest := RouteCount{}
	for _, c := range all[costed:] {
		rest.Requests += c.Requests
	}
	return append(slices.Clone(all[:costed]), rest)
}

// mix is what windows show of the routes.
type mix struct {
	names  []string
	shares []float64   // of the present requests
	rates  [][]float64 // of each window and route
	// weights against a request of the present mix, and their standard deviations
	weights, unsure []float64
	off             float64 // the standard deviation of what the present mix weighs, as a share
}

// mixOf fits the weights of the routes. nil where windows do not say what their requests were.
func mixOf(with []usage) *mix {
	m := &mix{}
	totals := map[string]uint64{}
	for _, w := range with {
		for _, c := range w.Routes {
			totals[c.Name] += c.Requests
		}
	}
	var all []RouteCount
	for name, n := range totals {
		all = append(all, RouteCount{name, n})
	}
	slices.SortFunc(all, func(a, b RouteCount) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range leading(all) {
		if c.Name != "" {
			m.names = append(m.names, c.Name)
		}
	}
	if len(m.names) == 0 {
		return nil
	}
	m.names = append(m.names, "") // the others
	for _, w := range with {
		m.rates = append(m.rates, m.ratesOf(&w))
	}
	m.present()
	m.fit(with)
	return m
}

// ratesOf are the rates of a window's routes. What it does not name is of the others.
func (m *mix) ratesOf(w *usage) []float64 {
	rates := make([]float64, len(m.names))
	left := w.rate
	for _, c := range w.Routes {
		if i := slices.Index(m.names, c.Name); i >= 0 && c.Name != "" {
			rates[i] = w.rate * float64(c.Requests) / float64(max(w.Requests, 1))
			left -= rates[i]
		}
	}
	rates[len(rates)-1] = max(0, left)
	return rates
}

func (m *mix) present() {
	m.shares = make([]float64, len(m.names))
	sum := 0.0
	for _, rates := range m.rates[max(0, len(m.rates)-lately):] {
		for i, r := range rates {
			m.shares[i] += r
			sum += r
		}
	}
	for i := range m.shares {
		m.shares[i] /= max(sum, 1e-9)
	}
}

// alike are the windows with the rates of the present mix that would have kept the loops as busy.
func (m *mix) alike(with []usage) []usage {
	with = slices.Clone(with)
	for i := range with {
		with[i].rate = dot(m.weights, m.rates[i])
	}
	return with
}

// fit finds the weights. The exponent depends on them, as they on it, so both are found in turn.
func (m *mix) fit(with []usage) {
	m.weights = slices.Repeat([]float64{1}, len(m.names))
	for range 3 {
		exponent, shown := growth(m.alike(with))
		if !shown {
			exponent = usual
		}
		m.weigh(with, exponent)
	}
}

// weigh is the least-squares fit of the weights at an exponent, each with a prior around the mean.
func (m *mix) weigh(with []usage, exponent float64) {
	n := len(m.names)
	worth := make([]float64, len(with)) // of a window, in mean requests a second
	sum, rate := 0.0, 0.0
	for i, w := range with {
		worth[i] = math.Pow(max(w.busy, 1e-9), 1/exponent)
		sum, rate = sum+worth[i], rate+w.rate
	}
	for i := range worth {
		worth[i] = max(worth[i]*rate/sum, 1e-9)
	}
	sigma := 5 * noise
	var cov [][]float64
	for range 3 { // how noisy the windows are shows when the weights are known
		normal, right := matrix(n), make([]float64, n)
		for r := range n {
			normal[r][r] = 1 / (apart * apart)
			right[r] = normal[r][r]
		}
		for i, rates := range m.rates {
			for r, a := range rates {
				a /= worth[i]
				right[r] += a / (sigma * sigma)
				for c, b := range rates {
					normal[r][c] += a * b / worth[i] / (sigma * sigma)
				}
			}
		}
		cov = inverse(normal)
		squares := 0.0
		for r := range n {
			m.weights[r] = max(lightest, dot(cov[r], right))
		}
		for i, rates := range m.rates {
			d := dot(m.weights, rates)/worth[i] - 1
			squares += d * d
		}
		sigma = max(noise, math.Sqrt(squares/float64(len(with))))
	}
	m.normalize(cov)
}

// normalize makes a request of the present mix weigh 1.
func (m *mix) normalize(cov [][]float64) {
	mean := max(dot(m.weights, m.shares), 1e-9)
	m.unsure = make([]float64, len(m.names))
	variance := 0.0
	for r := range m.weights {
		m.weights[r] /= mean
		m.unsure[r] = math.Sqrt(max(0, cov[r][r])) / mean
		variance += m.shares[r] * dot(cov[r], m.shares)
	}
	m.off = math.Sqrt(max(0, variance)) / mean
}

// costs are those of the routes, where a request of the present mix costs so many microseconds.
func (m *mix) costs(mean float64) (all []RouteCost) {
	for i, name := range m.names {
		if m.shares[i] == 0 {
			continue
		}
		w, d := m.weights[i], 2*m.unsure[i]
		busy := Interval{mean * max(0, w-d), mean * w, mean * (w + d)}
		all = append(all, RouteCost{name, m.shares[i], busy})
	}
	slices.SortStableFunc(all, func(a, b RouteCost) int { return cmp.Compare(b.Share, a.Share) })
	return all
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func matrix(n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	return m
}

// inverse inverts a positive definite matrix, which it destroys, by Gauss and Jordan.
func inverse(m [][]float64) [][]float64 {
	n := len(m)
	inv := matrix(n)
	for i := range n {
		inv[i][i] = 1
	}
	for p := range n {
		by := 1 / m[p][p]
		for c := range n {
			m[p][c] *= by
			inv[p][c] *= by
		}
		for r := range n {
			if times := m[r][p]; r != p && times != 0 {
				for c := range n {
					m[r][c] -= times * m[p][c]
					inv[r][c] -= times * inv[p][c]
				}
			}
		}
	}
	return inv
}
