package concurrency

import "math"

const (
	knees         = 60    // on either side of the limit, so from a sixth of it to six times it
	kneeStep      = 0.03  // between the knees considered, as a logarithm
	levelStep     = 0.05  // between separate levels, as a logarithm
	levelFloor    = 0.015 // deviation of a level's log throughput from the model, besides noise
	contradiction = 0.02  // how much log throughput may contradict, besides noise
	quantile      = 0.5   // of the distribution of the knee
)

// levels holds the throughput seen at each number of requests inside, and finds the knee that
// explains it best.
type levels struct {
	seen  []level // indexed by the logarithm of the number inside
	prior struct {
		baseline float64 // logarithm
		weight   float64 // 1 / variance of that logarithm
	}
	likely, baselines [2*knees + 1]float64 // for each knee: likelihood, and log of the baseline
}

// estimate is what fit concludes from the levels.
type estimate struct {
	known    bool
	baseline float64 // seconds
	doubt    float64 // standard deviation of its logarithm
	knee     float64
	best     struct{ baseline, knee float64 } // the likeliest pair, as logarithms
}

// predict is the logarithm of the throughput expected at a number of requests inside.
func (e *estimate) predict(inside float64) float64 {
	return min(math.Log(inside), e.best.knee) - e.best.baseline
}

func newLevels(highest int) levels {
	return levels{seen: make([]level, int(math.Log(float64(highest))/levelStep)+2)}
}

func (l *levels) index(a level) int {
	return min(max(int(math.Log(a.mean())/levelStep+0.5), 0), len(l.seen)-1)
}

func (l *levels) add(a level, most float64) {
	b := &l.seen[l.index(a)]
	b.add(a)
	b.forget(most)
}

// reconcile forgets levels that no knee and no baseline can reconcile with the present one: between
// two levels, throughput changes by at most the ratio of the numbers inside, and in the same
// direction. If the contradicted level is the one for the present number inside, the service has
// changed. Then reconcile forgets all levels and returns true.
func (l *levels) reconcile(now level, n *noise) (changed bool) {
	own := l.index(now)
	for i, old := range l.seen {
		if old.done == 0 {
			continue
		}
		x := math.Log(now.throughput() / old.throughput())
		d := math.Log(now.mean() / old.mean())
		sigmas := 3.0
		if i == own {
			sigmas = 4
		}
		slack := sigmas*math.Sqrt(n.variance(now, old)) + contradiction
		if x < max(d, 0)+slack && x > min(d, 0)-slack {
			continue
		}
		if i == own {
			clear(l.seen)
			return true
		}
		l.seen[i] = level{}
	}
	return false
}

// age reduces the weights of the levels and of the prior by the given factors. Levels above the
// limit age faster, because trying them again costs only a short queue, while trying levels below
// it costs throughput.
func (l *levels) age(limit, below, above, prior float64) {
	for i := range l.seen {
		a := &l.seen[i]
		if a.done == 0 {
			continue
		}
		if a.mean() > 1.02*limit {
			a.scale(above)
		} else {
			a.scale(below)
		}
		if a.done < 2 {
			*a = level{}
		}
	}
	l.prior.weight *= prior
}

// doubt scales levels above the limit down to at most the given number of completions.
func (l *levels) doubt(limit, most float64) {
	for i := range l.seen {
		if a := &l.seen[i]; a.done > 0 && a.mean() > 1.02*limit {
			a.forget(most)
		}
	}
}

// expect sets the prior of the baseline: its logarithm and that logarithm's standard deviation.
func (l *levels) expect(baseline, deviation float64) {
	l.prior.baseline, l.prior.weight = baseline, 1/(deviation*deviation)
}

// fit finds the knee. For each knee considered, every level implies a baseline. How well these
// baselines agree gives the likelihood of the knee.
func (l *levels) fit(spread, limit float64) (e estimate) {
	type point struct{ inside, through, weight float64 }
	var points []point
	for _, a := range l.seen {
		if a.done > 0 {
			variance := spread/a.done + levelFloor*levelFloor
			points = append(points, point{math.Log(a.mean()), math.Log(a.throughput()), 1 / variance})
		}
	}
	if len(points) == 0 && l.prior.weight == 0 {
		return e
	}
	least := math.Inf(1)
	knee := func(j int) float64 { return math.Log(limit) + kneeStep*float64(j-knees) }
	for j := range l.likely {
		k := knee(j)
		w, y := l.prior.weight, l.prior.weight*l.prior.baseline
		yy := y * l.prior.baseline
		for _, p := range points {
			s := min(p.inside, k) - p.through
			w, y, yy = w+p.weight, y+p.weight*s, yy+p.weight*s*s
		}
		l.likely[j] = yy - y*y/w
		l.baselines[j] = y / w
		if l.likely[j] < least {
			least = l.likely[j]
			e.best.baseline, e.best.knee = y/w, k
		}
	}
	var sum, mean, square float64
	for j := range l.likely {
		l.likely[j] = math.Exp((least - l.likely[j]) / 2)
		sum += l.likely[j]
		mean += l.likely[j] * l.baselines[j]
		square += l.likely[j] * l.baselines[j] * l.baselines[j]
	}
	mean /= sum
	e.known, e.baseline = true, math.Exp(mean)
	e.doubt = math.Sqrt(max(0, square/sum-mean*mean))
	var part float64
	for j := range l.likely {
		if part += l.likely[j]; part >= quantile*sum {
			e.knee = math.Exp(knee(j))
			break
		}
	}
	return e
}
