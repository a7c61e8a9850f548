package wrkcheck

import (
	"testing"

	"plimsoll/internal/lab/measure"
)

// exact is a histogram of durations in microseconds. Buckets are a hundred-and-twenty-eighth wide,
// so that the tests keep away from where one microsecond decides.
func exact(microseconds ...int64) measure.Sparse {
	var h measure.Histogram
	for _, us := range microseconds {
		h.Record(us * 1000)
	}
	return h.Sparse()
}

func TestTheCorrectionIsWrksOwn(t *testing.T) {
	// 10 answers on one connection in 1000 µs: an interval of 100 µs. Answers of 100 and 199 µs
	// stay alone. One of 200 µs would need 100 > 100, so it stays alone too. One of 350 µs adds 250
	// and 150; one of 480 adds 380, 280 and 180, and none of these adds more.
	h := exact(100, 199, 200, 350, 480)
	c, err := Correct(&h, 1_000_000, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c.Backfilled != 5 || c.Interval != 100_000 {
		t.Errorf("%d were added at intervals of %v ns; by hand it is 5, and 100 µs", c.Backfilled, c.Interval)
	}
	want := float64(100+199+200+350+480+250+150+380+280+180) / 10 * 1000
	if c.Mean < want*.995 || c.Mean > want*1.005 {
		t.Errorf("the mean is %v, by hand %v", c.Mean, want)
	}
	if c.P99 < 477_000 || c.P99 > 483_000 {
		t.Errorf("p99 is %v of the ten; the longest is 480 µs", c.P99)
	}
}

func TestWithoutOutliersTheCorrectionChangesNothing(t *testing.T) {
	h := exact(100, 100, 100, 120)
	c, err := Correct(&h, 1_000_000, 40, 4)
	if err != nil {
		t.Fatal(err)
	}
	if c.Backfilled != 0 || c.Mean != h.Mean() {
		t.Errorf("%+v, the raw mean is %v", c, h.Mean())
	}
}

func TestTooFewAnswersForAnIntervalAreNotCorrected(t *testing.T) {
	h := exact(900, 900)
	c, err := Correct(&h, 1_000_000, 2, 4)
	if err != nil || c.Backfilled != 0 || c.Interval != 0 {
		t.Errorf("%+v %v", c, err)
	}
	var none measure.Sparse
	if c, err = Correct(&none, 1_000_000, 0, 4); err != nil || c != (Corrected{}) {
		t.Errorf("of nothing: %+v %v", c, err)
	}
}

func TestAnAnswerThatTookTooLongForTheCountersIsRefused(t *testing.T) {
	h := exact(MostCorrected + 100_000)
	if _, err := Correct(&h, 1e9, 10, 1); err == nil {
		t.Error("it was taken")
	}
}
