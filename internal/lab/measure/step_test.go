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
