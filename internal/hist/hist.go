// Package hist is the histogram of durations that a loop records into. It knows numbers and nothing
// else: no time, no metrics library, no goroutines.
//
// Buckets are log-linear: eight of equal width in every octave from 1.024 µs (2^10 ns) to 68.7 s
// (2^36 ns), with one bucket below and one above. So a value read back from a bucket is off by an
// eighth at most, at any scale. A histogram is a fixed array, and histograms are merged exactly, by
// adding bucket to bucket. Quantiles are taken from the merged counts and never averaged.
package hist

import "math/bits"

const (
	subBits = 3            // of the bits after a duration's highest one, those that choose the bucket
	sub     = 1 << subBits // buckets an octave
	minBits = 10           // 2^10 ns is the upper edge of the lowest bucket
	maxBits = 36           // 2^36 ns is the lower edge of the highest bucket
	lowest  = int64(1) << minBits
	highest = int64(1) << maxBits
	octaves = maxBits - minBits
	// what index would give for the lowest bucket without taking this off
	first = (minBits-1-subBits)*sub + 2*sub - 1
)

// Buckets is the number of buckets: those of the octaves, one below and one above.
const Buckets = octaves*sub + 2

// Histogram counts durations. The zero value is ready. It has one owner: nothing in it is safe for
// use by two goroutines at the same time. It is a plain value of about 1.7 KB, so assignment is a
// copy.
type Histogram struct {
	count  uint64
	sum    uint64
	max    uint64
	counts [Buckets]uint64
}

// Record counts a duration in nanoseconds. One below zero counts as zero; what lies outside the
// octaves is counted in the edge buckets, while sum and maximum stay exact. The sum overflows after
// 584 years of durations. It takes about 3 ns and does not allocate.
func (h *Histogram) Record(ns int64) {
	v := uint64(max(ns, 0))
	h.count++
	h.sum += v
	h.max = max(h.max, v)
	h.counts[index(ns)]++
}

// index is the bucket of a duration. Buckets hold their upper edge and not their lower one, as
// Prometheus's "le" demands, hence the minus one. The position of the highest bit gives the octave
// and the three bits after it the bucket within. Clamping first means that the edge buckets need no
// branch: 2^10 becomes index 0, 2^36+1 the last one.
func index(ns int64) int {
	u := uint64(min(max(ns, lowest), highest+1) - 1)
	shift := bits.Len64(u) - 1 - subBits
	return shift*sub + int(u>>shift) - first
}

// Edge is the upper edge of bucket i in nanoseconds: the bucket holds durations up to and including
// it. The last bucket has none; Edge of its index is the largest int64.
func Edge(i int) int64 {
	if i >= Buckets-1 {
		return 1<<63 - 1
	}
	return int64(sub+i%sub) << (minBits - subBits + i/sub)
}

// Count is the number of durations recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Sum is the exact sum of all durations in nanoseconds.
func (h *Histogram) Sum() uint64 { return h.sum }

// Max is the exact largest duration in nanoseconds, 0 when nothing was recorded.
func (h *Histogram) Max() int64 { return int64(h.max) }

// Mean is the exact mean in nanoseconds, 0 when nothing was recorded.
func (h *Histogram) Mean() float64 {
	if h.count == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.count)
}

// Counts copies out the counts of the single buckets, for raw results and for drawing; Edge gives
// their upper edges.
func (h *Histogram) Counts() [Buckets]uint64 { return h.counts }

// Cell is a bucket that holds something: how many durations were longer than FromNS, and as long as
// ToNS at most. The last bucket has no upper edge, and ToNS is 0.
type Cell struct {
	FromNS int64  `json:"from_ns"`
	ToNS   int64  `json:"to_ns,omitempty"`
	Count  uint64 `json:"count"`
}

// Cells are the buckets that hold something, ascending.
func (h *Histogram) Cells() (cells []Cell) {
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		c := Cell{Count: n}
		if i > 0 {
			c.FromNS = Edge(i - 1)
		}
		if i < Buckets-1 {
			c.ToNS = Edge(i)
		}
		cells = append(cells, c)
	}
	return cells
}

// Merge adds what other holds, exactly.
func (h *Histogram) Merge(other *Histogram) {
	h.count += other.count
	h.sum += other.sum
	h.max = max(h.max, other.max)
	for i, n := range &other.counts {
		h.counts[i] += n
	}
}

// Snapshot is a copy as of now. Only the owner may take it.
func (h *Histogram) Snapshot() Histogram { return *h }

// Reset forgets everything.
func (h *Histogram) Reset() { *h = Histogram{} }

// Quantile is the duration in nanoseconds that a share q (0 to 1; outside it is clamped) of the
// recorded ones does not exceed. It is exact to the bucket, interpolated within it, and never above
// Max. Without records it is 0.
func (h *Histogram) Quantile(q float64) int64 {
	if h.count == 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(h.count)
	var below uint64
	for i, n := range &h.counts {
		if n == 0 || float64(below+n) < rank {
			below += n
			continue
		}
		low, high := int64(0), min(Edge(i), h.Max())
		if i > 0 {
			low = min(Edge(i-1), high)
		}
		within := max(rank-float64(below), 0) / float64(n)
		return low + int64(within*float64(high-low))
	}
	return h.Max()
}
