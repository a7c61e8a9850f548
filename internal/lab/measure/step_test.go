package measure_test

import (
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestRequestsBetweenTwoMomentsAreSharesOfTheirWindows(t *testing.T) {
	ended := func(ok, status, timeouts uint64) (tally measure.Tally) {
		tally[measure.OK], tally[measure.BadStatus], tally[measure.Timeout] = ok, status, timeouts
		return tally
	}
	windows := []measure.Window{
		{Start: 0, Length: 100, Ended: ended(30, 10, 10)},
		{Start: 100, Length: 200, Ended: ended(80, 0, 20)},
	}
	whole := measure.Totals{Length: 300, Ended: ended(110, 10, 30)}
	for _, c := range []struct {
		windows         []measure.Window
		from, to        int64
		answered, total float64
	}{
		{windows, 0, 300, 120, 150},
		{windows, 50, 200, 20 + 40, 25 + 50},
		{windows, 120, 140, 8, 10},
		{windows, 250, 1000, 20, 25},
		{windows, 300, 1000, 0, 0},
		{nil, 100, 200, 40, 50},
	} {
		s := measure.Step{Totals: whole, Windows: c.windows}
		answered := s.Between(c.from, c.to, (*measure.Tally).Answered)
		if total := s.Between(c.from, c.to, (*measure.Tally).Total); answered != c.answered ||
			total != c.total {
			t.Errorf("%d to %d: %g answered of %g, want %g of %g",
				c.from, c.to, answered, total, c.answered, c.total)
		}
	}
}

func TestWhatARequestCostsIsSharedByThoseThatWereAnswered(t *testing.T) {
	step := func(busy ...float64) *measure.Step {
		s := &measure.Step{}
		s.Totals.Length = 10e9
		s.Totals.Ended[measure.OK], s.Totals.Ended[measure.BadStatus] = 900, 100
		s.Totals.Ended[measure.Timeout] = 500
		for i, v := range busy {
			s.Samples = append(s.Samples, measure.Sample{
				At: int64(i) * 5e9, Values: map[string]float64{measure.TargetCPU: v},
			})
		}
		return s
	}
	cores, answered, ok := step(7, 8, 9).Spent(measure.TargetCPU)
	if cores != .2 || answered != 100 || !ok {
		t.Errorf("%v cores for %v a second, %v; want 0.2 for 100", cores, answered, ok)
	}
	for name, s := range map[string]*measure.Step{
		"sampled once": step(7), "restarted": step(7, 8, 1), "never sampled": step(),
	} {
		if _, _, ok := s.Spent(measure.TargetCPU); ok {
			t.Errorf("what a service spent that was %s is said to be known", name)
		}
	}
}
