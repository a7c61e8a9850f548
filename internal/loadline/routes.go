package loadline

import (
	"cmp"
	"math"
	"slices"
)

// The time for which a request keeps a loop busy depends on its route. It is not measured, because
// reading a clock around each part of each request would cost more than some requests do. But the
// mix of routes changes from window to window, and the loops' busy time with it. So the costs are
// fitted to the windows, as relative weights of the routes:
//
//	the time that loops are busy ∝ (Σ weight of a route × its requests) ^ exponent
//
// The exponent is that of growth. The prior of each weight is 1, the mean request, and a weight
// moves away from it only as far as the windows show. In a mix that never changes all weights stay
// at 1; that they are not known separately then makes no difference to the estimate. Each window
// then counts as the rate of requests of the present mix that would have kept the loops equally
// busy.
//
// Rejected: the mean cost of the last windows. While the mix is constant, the result is the same.
// But a change of the mix moves the line at once, and then again as the earlier windows are
// forgotten.

// RouteCount is how many requests of a route ended in a window.
type RouteCount struct {
	Name     string
	Requests uint64
}

// RouteCost is what a request of a route costs the instance.
type RouteCost struct {
	Name string `json:"name"` // empty for the routes with too few requests, taken together
	// Share is the route's share of the present requests.
	Share float64 `json:"share"`
	// Busy: for how many microseconds a request of the route keeps a loop busy at the present rate.
	// If work outside the loops makes the processors busier than the loops, it is for how long a
	// request keeps a processor busy.
	Busy Interval `json:"busy_us"`
}

const (
	// costed is how many routes have a weight of their own. The routes with fewer requests share
	// one.
	costed = 12
	// lately is over how many windows the present mix is taken.
	lately = 3
	// noise is the least deviation, as a share, of a window's busy time from what its requests
	// explain. apart is the standard deviation of the prior of a weight.
	noise, apart = .02, 3.0
	// lightest is the least weight of a route.
	lightest = .02
	// doubt is the largest share by which the uncertainty of the weights widens an interval.
	doubt = .5
)

// leading returns the routes with the most requests, followed by the sum of the others under an
// empty name.
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

// mix is what the windows show about the routes.
type mix struct {
	names  []string
	shares []float64   // of the present requests
	rates  [][]float64 // by window and route
	// weights relative to a request of the present mix, and their standard deviations
	weights, unsure []float64
	off             float64 // relative standard deviation of the present mix's weight
}

// mixOf fits the weights of the routes. It returns nil if the windows do not say to which routes
// their requests belong.
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
	m.names = append(m.names, "") // the other routes
	for _, w := range with {
		m.rates = append(m.rates, m.ratesOf(&w))
	}
	m.present()
	m.fit(with)
	return m
}

// ratesOf is the rates of a window's routes. Requests that it does not assign to a named route
// count for the other routes. They are subtracted as integers: what is left of rates after rounding
// looked like a route of its own.
func (m *mix) ratesOf(w *usage) []float64 {
	rates := make([]float64, len(m.names))
	each := w.rate / float64(max(w.Requests, 1))
	left := w.Requests
	for _, c := range w.Routes {
		if i := slices.Index(m.names, c.Name); i >= 0 && c.Name != "" {
			rates[i] = each * float64(c.Requests)
			left -= min(c.Requests, left)
		}
	}
	rates[len(rates)-1] = each * float64(left)
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

// alike returns the windows, each with the rate of the present mix that would have kept the loops
// equally busy.
func (m *mix) alike(with []usage) []usage {
	with = slices.Clone(with)
	for i := range with {
		with[i].rate = dot(m.weights, m.rates[i])
	}
	return with
}

// fit finds the weights. The exponent depends on the weights, and they depend on the exponent, so
// fit finds both by iteration.
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

// weigh fits the weights by least squares for a given exponent, each with a prior around 1, the
// mean request.
func (m *mix) weigh(with []usage, exponent float64) {
	n := len(m.names)
	worth := make([]float64, len(with)) // of each window, in mean requests a second
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
	for range 3 { // the noise of the windows is known only once the weights are
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

// normalize scales the weights so that a request of the present mix weighs 1.
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

// costs is the costs of the routes if a request of the present mix costs mean microseconds.
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

// inverse inverts a positive definite matrix by Gauss–Jordan elimination. It destroys m.
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
