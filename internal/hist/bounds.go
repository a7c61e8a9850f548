package hist

import "fmt"

// Bounds is a set of upper bounds whose cumulative counts a histogram can give exactly, because
// each is the edge of a bucket. It is made once, and is safe for use by many goroutines.
type Bounds struct {
	seconds []float64
	buckets []int // the bucket that ends at each bound
}

// Octaves makes the bounds 2^from, 2^(from+1), … 2^to nanoseconds. Both ends lie within 10 (1.024
// µs) and 36 (68.7 s); anything else is a mistake in the program and panics.
//
// Exported histograms use octaves and not the 1-2-5 steps people know, because those are not edges
// of binary buckets: a count "up to 100 ms" would be a guess, one up to 134.2 ms is exact, and
// between two bounds a query interpolates anyway.
func Octaves(from, to int) Bounds {
	if from < minBits || to > maxBits || from > to {
		panic(fmt.Sprintf("hist: bounds 2^%d to 2^%d ns are not within 2^%d to 2^%d", from, to,
			minBits, maxBits))
	}
	var b Bounds
	for k := from; k <= to; k++ {
		b.seconds = append(b.seconds, float64(int64(1)<<k)/1e9)
		b.buckets = append(b.buckets, (k-minBits)*sub)
	}
	return b
}

// The bounds that are exported to Prometheus.
var (
	// Durations are 21 bounds: 65.5 µs, 131 µs, 262 µs, 524 µs, 1.05 ms, … 1.07 s, … 34.4 s, 68.7
	// s.
	Durations = Octaves(16, 36)
	// Overheads are 17 bounds for what the gateway itself adds: 8.19 µs, 16.4 µs, 32.8 µs, … 537
	// ms.
	Overheads = Octaves(13, 29)
)

// Seconds are the bounds in seconds, ascending. The caller must not change them.
func (b Bounds) Seconds() []float64 { return b.seconds }

// CumulativeAt appends to dst, for each bound, how many durations are at most as long as it.
func (h *Histogram) CumulativeAt(b Bounds, dst []uint64) []uint64 {
	var total uint64
	next := 0
	for _, last := range b.buckets {
		for ; next <= last; next++ {
			total += h.counts[next]
		}
		dst = append(dst, total)
	}
	return dst
}
