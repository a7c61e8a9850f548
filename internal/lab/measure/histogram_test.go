package measure_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll/internal/lab/measure"
)

func durations(n int) []int64 {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(r.ExpFloat64() * 5e6)
	}
	return all
}

func TestAQuantileIsOffByAHundredAndTwentyEighthAtMost(t *testing.T) {
	all := durations(20000)
	var h measure.Histogram
	for _, d := range all {
		h.Record(d)
	}
	s := h.Sparse()
	slices.Sort(all)
	for _, q := range []float64{0, .01, .5, .9, .99, .999, 1} {
		rank := min(max(int(q*float64(len(all))+.5), 1), len(all))
		want, got := all[rank-1], s.Quantile(q)
		if got < want || float64(got-want) > float64(want)/128+1 {
			t.Errorf("quantile %v is %d, the sorted durations say %d", q, got, want)
		}
	}
	if s.Max != all[len(all)-1] || s.Count() != uint64(len(all)) {
		t.Errorf("max %d count %d", s.Max, s.Count())
	}
}

func TestEveryBucketBeginsWhereTheOneBeforeItEnds(t *testing.T) {
	next := int64(0)
	for i := range measure.Buckets {
		lowest, highest := measure.Bounds(i)
		if lowest != next || highest < lowest {
			t.Fatalf("bucket %d holds %d to %d, and the one before ended at %d",
				i, lowest, highest, next-1)
		}
		next = highest + 1
	}
	if next-1 != measure.Longest {
		t.Fatalf("the last bucket ends at %d, not at %d", next-1, int64(measure.Longest))
	}
}

func TestMergingIsTheSameAsRecordingEverythingInOne(t *testing.T) {
	var one, two, all, sparse measure.Histogram
	for i, d := range durations(5000) {
		all.Record(d)
		if i%3 == 0 {
			one.Record(d)
		} else {
			two.Record(d)
		}
	}
	a, b := one.Sparse(), two.Sparse()
	sparse.MergeSparse(&a)
	sparse.MergeSparse(&b)
	one.Merge(&two)
	want := all.Sparse()
	for _, got := range []measure.Sparse{one.Sparse(), sparse.Sparse(), measure.Merged(&a, &b)} {
		if !slices.Equal(got.Cells, want.Cells) || got.Sum != want.Sum || got.Max != want.Max {
			t.Fatal("merged histograms differ from the one that recorded everything")
		}
	}
	one.Reset()
	if s := one.Sparse(); s.Count() != 0 || len(s.Cells) != 0 || s.Max != 0 || s.Sum != 0 {
		t.Fatal("a histogram that was reset still holds something")
	}
}

func TestWhatIsTooLongOrNegativeIsStillCounted(t *testing.T) {
	var h measure.Histogram
	h.Record(-5)
	h.Record(1 << 60)
	s := h.Sparse()
	if s.Count() != 2 || s.Quantile(0) != 0 || s.Max != measure.Longest {
		t.Fatalf("%+v", s)
	}
}

func TestOverCountsWhatIsLonger(t *testing.T) {
	var h measure.Histogram
	for _, d := range durations(20000) {
		h.Record(d)
	}
	s := h.Sparse()
	for _, limit := range []int64{0, 100, 1_000_000, 5_000_000, 20_000_000, 1 << 40} {
		want := 0.0
		for _, d := range durations(20000) {
			if d > limit {
				want++
			}
		}
		if got := s.Over(limit); got < want*.97-1 || got > want*1.03+1 {
			t.Errorf("over %d: %v, counted one by one %v", limit, got, want)
		}
	}
}

func TestRequestsThatFailedAreInTheTail(t *testing.T) {
	var h measure.Histogram
	for range 98 {
		h.Record(1000)
	}
	total := measure.Totals{Response: h.Sparse()}
	total.Ended[measure.OK], total.Ended[measure.Timeout] = 98, 2
	if ns, ok := total.Quantile(.98); !ok || ns != 1000 {
		t.Errorf("98 of 100 were answered after 1000 ns, the quantile says %d %v", ns, ok)
	}
	if _, ok := total.Quantile(.99); ok {
		t.Error("2 of 100 timed out, and the 99th percentile is still said to be known")
	}
}

func TestRecordDoesNotAlloc(t *testing.T) {
	h := new(measure.Histogram)
	if n := testing.AllocsPerRun(100, func() { h.Record(12345) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
