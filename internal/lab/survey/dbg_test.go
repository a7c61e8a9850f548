package survey

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"plimsoll/internal/lab/slo"
)

func TestPoints(t *testing.T) {
	i, _ := strconv.Atoi(os.Getenv("ONLY"))
	k := kinds()[i]
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	sl, _ := slo.Parse(k.slo)
	b := &simBench{station: k.station, seed: uint64(seed) * 1_000_003}
	o := withDefaults(Options{SLO: sl, Arrivals: k.arrivals, Seed: uint64(seed)})
	s := newSurveyor(context.Background(), b, o)
	s.survey()
	low, high := s.span()
	for i := range o.SLO {
		pts := s.points(&o.SLO[i])
		c := findCrossing(s.form(&o.SLO[i]), pts, low, high)
		fmt.Println(o.SLO[i].Text, c, low, high)
	}
}
