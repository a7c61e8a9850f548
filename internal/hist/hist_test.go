package hist_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll/internal/hist"
)

// bucketOf finds the only bucket that counts ns.
func bucketOf(t *testing.T, ns int64) int {
	t.Helper()
	var h hist.Histogram
	h.Record(ns)
	counts := h.Counts()
	found := -1
	for i, n := range counts {
		if n == 1 && found < 0 {
			found = i
		} else if n != 0 {
			t.Fatalf("%d ns is counted in more than one bucket", ns)
		}
	}
	if found < 0 {
		t.Fatalf("%d ns is counted in no bucket", ns)
	}
	return found
}

func TestBucketHoldsItsUpperEdgeAndNotItsLowerOne(t *testing.T) {
	for i := range hist.Buckets - 1 {
		edge := hist.Edge(i)
		if got := bucketOf(t, edge); got != i {
			t.Errorf("%d ns, the upper edge of bucket %d, is in bucket %d", edge, i, got)
		}
		if got := bucketOf(t, edge+1); got != i+1 {
			t.Errorf("%d ns, just above bucket %d, is in bucket %d", edge+1, i, got)
		}
	}
}

func TestBucketsAreAtMostAnEighthWide(t *testing.T) {
	for i := 1; i < hist.Buckets-1; i++ {
		low, high := hist.Edge(i-1), hist.Edge(i)
		if width := high - low; width <= 0 || width*8 > low {
			t.Errorf("bucket %d from %d to %d ns is %d wide", i, low, high, width)
		}
	}
	if low, high := hist.Edge(0), hist.Edge(hist.Buckets-2); low != 1024 || high != 1<<36 {
		t.Errorf("the octaves reach from %d to %d ns", low, high)
	}
}

func TestOutsideTheOctavesEdgeBucketsCountAndSumAndMaxStayExact(t *testing.T) {
	var h hist.Histogram
	for _, ns := range []int64{-5, 0, 1, 1024, 1<<36 + 1, 200e9} {
		h.Record(ns)
	}
	counts := h.Counts()
	if counts[0] != 4 || counts[hist.Buckets-1] != 2 || h.Count() != 6 {
		t.Errorf("edge buckets hold %d and %d of %d", counts[0], counts[hist.Buckets-1], h.Count())
	}
	if want := uint64(1 + 1024 + 1<<36 + 1 + 200e9); h.Sum() != want {
		t.Errorf("sum %d, want %d", h.Sum(), want)
	}
	if h.Max() != 200e9 {
		t.Errorf("max %d", h.Max())
	}
	h.Record(math.MaxInt64)
	if h.Max() != math.MaxInt64 {
		t.Errorf("max %d after the largest int64", h.Max())
	}
}

func TestEmptyHistogramAnswersZero(t *testing.T) {
	var h hist.Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Errorf("empty: p50 %d, mean %g, max %d, count %d", h.Quantile(0.5), h.Mean(), h.Max(), h.Count())
	}
}

func TestQuantilesAgreeWithSortedValuesToAnEighth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h hist.Histogram
	var values []int64
	for range 20_000 {
		ns := int64(math.Exp(rng.NormFloat64()*1.5 + math.Log(2e6)))
		h.Record(ns)
		values = append(values, ns)
	}
	slices.Sort(values)
	for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.99, 0.999} {
		want := values[int(math.Ceil(q*float64(len(values))))-1]
		got := h.Quantile(q)
		if math.Abs(float64(got-want)) > float64(want)/8 {
			t.Errorf("quantile %g is %d ns, the sorted values say %d", q, got, want)
		}
	}
	if got, want := h.Quantile(1), values[len(values)-1]; got != want {
		t.Errorf("quantile 1 is %d ns, the maximum is %d", got, want)
	}
	if h.Quantile(2) != h.Quantile(1) || h.Quantile(-1) != h.Quantile(0) {
		t.Error("a share outside 0 to 1 is not clamped")
	}
}

func TestQuantileNeverExceedsMaxAndNeverFalls(t *testing.T) {
	var h hist.Histogram
	for _, ns := range []int64{300, 5_100, 5_100, 1e6, 100e9} {
		h.Record(ns)
	}
	last := int64(0)
	for q := 0.0; q <= 1; q += 0.001 {
		v := h.Quantile(q)
		if v < last || v > h.Max() {
			t.Fatalf("quantile %g is %d after %d, max %d", q, v, last, h.Max())
		}
		last = v
	}
}

func TestMergeIsTheSameAsRecordingEverythingInOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var whole, a, b hist.Histogram
	for range 5_000 {
		ns := rng.Int64N(1 << rng.IntN(40))
		whole.Record(ns)
		if ns%3 == 0 {
			a.Record(ns)
		} else {
			b.Record(ns)
		}
	}
	a.Merge(&b)
	if a != whole {
		t.Error("two merged halves differ from the whole")
	}
}

func TestSnapshotDoesNotFollowItsOriginal(t *testing.T) {
	var h hist.Histogram
	h.Record(5_000)
	s := h.Snapshot()
	h.Record(6_000)
	if s.Count() != 1 || s.Max() != 5_000 {
		t.Errorf("the snapshot went on to %d records, max %d", s.Count(), s.Max())
	}
	h.Reset()
	if h != (hist.Histogram{}) {
		t.Error("something is left after a reset")
	}
}

func TestCumulativeCountsAreExactAtEveryBound(t *testing.T) {
	for name, bounds := range map[string]hist.Bounds{"durations": hist.Durations, "overheads": hist.Overheads} {
		var h hist.Histogram
		var values []int64
		for _, s := range bounds.Seconds() {
			edge := int64(math.Round(s * 1e9))
			values = append(values, edge-1, edge, edge+1)
		}
		for _, ns := range values {
			h.Record(ns)
		}
		got := h.CumulativeAt(bounds, nil)
		for i, s := range bounds.Seconds() {
			var want uint64
			for _, ns := range values {
				if float64(ns)/1e9 <= s {
					want++
				}
			}
			if got[i] != want {
				t.Errorf("%s: %d durations up to %g s, want %d", name, got[i], s, want)
			}
		}
	}
}

func TestExportedBoundsReachFromMicrosecondsToAMinute(t *testing.T) {
	d, o := hist.Durations.Seconds(), hist.Overheads.Seconds()
	if len(d) != 21 || d[0] != 65.536e-6 || d[20] != 68.719476736 {
		t.Errorf("durations: %d bounds from %g to %g", len(d), d[0], d[len(d)-1])
	}
	if len(o) != 17 || o[0] != 8.192e-6 || o[16] != 0.536870912 {
		t.Errorf("overheads: %d bounds from %g to %g", len(o), o[0], o[len(o)-1])
	}
}

func TestBoundsThatAreNotEdgesPanic(t *testing.T) {
	for _, c := range [][2]int{{9, 20}, {10, 37}, {20, 19}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("2^%d to 2^%d ns was taken", c[0], c[1])
				}
			}()
			hist.Octaves(c[0], c[1])
		}()
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	var h hist.Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(123_456) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
	dst := make([]uint64, 0, 32)
	if n := testing.AllocsPerRun(100, func() { h.CumulativeAt(hist.Durations, dst) }); n != 0 {
		t.Errorf("%g allocations of CumulativeAt", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	var h hist.Histogram
	ns := int64(40_000)
	for b.Loop() {
		h.Record(ns)
		ns = ns*7%10_000_019 + 1_000
	}
}

func BenchmarkMerge(b *testing.B) {
	var h, other hist.Histogram
	other.Record(40_000)
	for b.Loop() {
		h.Merge(&other)
	}
}
