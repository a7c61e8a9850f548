package slo_test

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/slo"
)

func TestObjectivesAreReadAndSaidAgain(t *testing.T) {
	s, err := slo.Parse("p99 < 50ms, p99.9<=1.5s,errors<0.1%")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.String(); got != "p99<50ms,p99.9<=1.5s,errors<0.1%" {
		t.Error(got)
	}
	near := func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }
	if !near(s[0].Share, .01) || s[0].Limit != 50e6 || !near(s[1].Share, .001) ||
		!near(s[2].Share, .001) || s[2].Limit != 0 {
		t.Errorf("%+v", s)
	}
	if s.Longest() != 1_500_000_000 {
		t.Error(s.Longest())
	}
}

func TestAnInvalidObjectiveSaysWhatOneIs(t *testing.T) {
	for _, text := range []string{
		"", "p99", "p99<", "p99<50", "p0<1ms", "p100<1ms", "px<1ms", "errors<0", "errors<0%",
		"errors<200%", "mean<5ms", "p99<-1ms", "p50<10m", "pNaN<1ms",
	} {
		_, err := slo.Parse(text)
		if err == nil {
			t.Errorf("%q was taken for an objective", text)
			continue
		}
		if !strings.Contains(err.Error(), "objective") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestARequestThatFailedBreaksEveryObjectiveOnce(t *testing.T) {
	var h measure.Histogram
	for range 90 {
		h.Record(1_000_000)
	}
	for range 5 {
		h.Record(90_000_000)
	}
	w := measure.Window{Response: h.Sparse()}
	w.Ended[measure.OK], w.Ended[measure.BadStatus], w.Ended[measure.Timeout] = 95, 5, 10
	s, err := slo.Parse("p99<50ms,errors<1%")
	if err != nil {
		t.Fatal(err)
	}
	if bad, total := s[0].Bad(&w); total != 110 || bad != 20 {
		t.Errorf("latency: %v of %v are bad; 10 timed out, 5 were refused, 5 were slow", bad, total)
	}
	if bad, total := s[1].Bad(&w); bad != 15 || total != 110 {
		t.Errorf("errors: %v of %v", bad, total)
	}
}
