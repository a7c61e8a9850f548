package survey

import (
	"context"
	"fmt"
	"math"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/slo"
)

func TestShape(t *testing.T) {
	k := kinds()[1]
	sl, _ := slo.Parse(k.slo)
	truth := k.truth(t)
	for _, c := range []struct{ z, secs float64 }{{-2, 6}, {-1, 6}, {0, 6}, {1, 6}, {2, 6}, {3, 6}, {4, 6}, {9.4, 2.5}} {
		var bad, all, g, gd float64
		rate := truth * math.Exp(c.z/36)
		settle := second
		if c.secs < 6 {
			settle /= 2
		}
		for rep := range 200 {
			b := &simBench{station: k.station, seed: uint64(rep+1) * 104729}
			st, _, _ := b.Step(context.Background(), measure.Plan{Rate: rate, Arrivals: k.arrivals, Length: int64(c.secs * 1e9), Settle: settle, Connections: 100}, nil)
			v := viewOf(st)
			x, y := v.counts(&sl[0])
			bad += total(x)
			all += total(y)
			a, d, _ := v.growth()
			g += a / 200
			gd += d / 200
		}
		fmt.Printf("z %.1f rate %.0f: share %.4f growth %.4f +- %.4f", c.z, rate, bad/all, g, gd)
		w := waitLine{share: sl[0].Share, wait: .045}
		p := point{rate: rate, settle: float64(settle) / 1e9, length: c.secs}
		for _, gap := range []float64{.2, .123, .09, .06} {
			fmt.Printf(" gap %.3f: %.4f", gap, w.longer(&p, truth, gap))
		}
		fmt.Println()
	}
}
