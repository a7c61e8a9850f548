package survey

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/slo"
)

func TestPatterns(t *testing.T) {
	i, _ := strconv.Atoi(os.Getenv("ONLY"))
	k := kinds()[i]
	sl, _ := slo.Parse(k.slo)
	truth := k.truth(t)
	secs, _ := strconv.ParseFloat(os.Getenv("SECS"), 64)
	slope, _ := strconv.ParseFloat(os.Getenv("SLOPE"), 64)
	var gb, gt, gc, gn float64
	defer func() { fmt.Println("share bias", gb/gt, "clump", gc/gn) }()
	for name, pattern := range map[string][]float64{
		"C -.5...5": {-.5, 0, .5, -.5, 0, .5, -.5, 0, .5, -.5, 0, .5},
		"F 0..2":    {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2},
		"J 0..4":    {0, 2, 4, 0, 2, 4, 0, 2, 4, 0, 2, 4},
		"K -1..3":   {-1, 0, 1, 2, 3, 0, 1, 2, -1, 0, 1, 3},
	} {
		var bias, sq, w, cov, sl2 float64
		const reps = 40
		for rep := range reps {
			b := &simBench{station: k.station, seed: uint64(rep+1) * 7919}
			s := newSurveyor(context.Background(), b, withDefaults(Options{SLO: sl, Arrivals: k.arrivals, Seed: 1}))
			s.good = truth * .9
			rr := queue.New(k.station, 1)
			for i := range 1000 {
				d, _ := rr.Offer(int64(i) * second)
				s.mean += float64(d-int64(i)*second) / 1000
			}
			s.trials = []*trial{}
			for j, z := range append([]float64{0, 0, 0}, pattern...) {
				p := measure.Plan{Phase: "refine", Rate: truth * math.Exp(z/slope), Arrivals: k.arrivals, Length: int64(secs * 1e9), Settle: second, Connections: 100}
				if j < 3 {
					p.Rate, p.Length, p.Settle = truth*[]float64{.7, 1.3, .9}[j], 5*second/2, second/2
				}
				st, _, _ := b.Step(context.Background(), p, nil)
				tr := &trial{rate: p.Rate, step: *st}
				tr.view = viewOf(st)
				s.trials = append(s.trials, tr)
			}
			c := findCrossing(s.form(&sl[0]), s.points(&sl[0]), truth*.6, truth*1.4)
			if name[0] == 'C' {
				for _, p := range s.points(&sl[0]) {
					if p.rate > truth*.97 && p.rate < truth*1.03 {
						gb += p.bad
						gt += p.total
						gc += p.clump
						gn++
					}
				}
			}
			d := math.Log(c.interval.Point / truth)
			bias += d
			sq += d * d
			w += (c.interval.High - c.interval.Low) / c.interval.Point
			sl2 += math.Log(c.slope)
			if c.interval.Low <= truth && truth <= c.interval.High {
				cov++
			}
		}
		fmt.Printf("%s: bias %+.4f sd %.4f width %.4f cov %.2f slope %.1f\n", name, bias/reps, math.Sqrt(sq/reps-bias*bias/reps/reps), w/reps, cov/reps, math.Exp(sl2/reps))
	}
}
