package measure

import (
	"math/bits"
	"sort"
)

// The buckets are those of an HdrHistogram with two significant digits and a lowest value of 1 ns:
// exact up to 255 ns, then 128 of equal width per octave. So a value read back is off by at most
// 1/128, and a histogram can be written to an HDR log and read back bucket by bucket.
const (
	subBits = 7
	sub     = 1 << subBits
	// Longest is the longest duration with a bucket of its own, 2^37 - 1 ns (137 s). A longer one
	// counts as Longest.
	Longest = 1<<37 - 1
	// Buckets is the number of buckets.
	Buckets = 2*sub + (37-subBits-1)*sub
)

// Histogram counts durations. The zero value is ready to use. It is not safe for concurrent use. At
// 32 KB it is meant for a loop to record into; keep a Sparse instead.
type Histogram struct {
	counts [Buckets]uint64
	count  uint64
	sum    uint64
	max    int64
	low    int // the lowest bucket that may be in use, valid while count > 0
	high   int // the highest one
}

// Record counts a duration in nanoseconds; a negative one counts as zero. It takes a few
// nanoseconds and does not allocate.
func (h *Histogram) Record(ns int64) {
	ns = min(max(ns, 0), Longest)
	i := bucket(ns)
	if h.count == 0 || i < h.low {
		h.low = i
	}
	if i > h.high {
		h.high = i
	}
	h.counts[i]++
	h.count++
	h.sum += uint64(ns)
	h.max = max(h.max, ns)
}

// bucket returns the bucket of a duration from 0 to Longest.
func bucket(ns int64) int {
	if ns < 2*sub {
		return int(ns)
	}
	shift := bits.Len64(uint64(ns)) - subBits - 1
	return shift*sub + int(ns>>shift)
}

// Bounds returns the shortest and the longest duration that a bucket counts.
func Bounds(i int) (lowest, highest int64) {
	if i < 2*sub {
		return int64(i), int64(i)
	}
	shift := i/sub - 1
	lowest = int64(i-shift*sub) << shift
	return lowest, lowest + 1<<shift - 1
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 { return h.count }

// Reset clears the histogram. Its cost depends on the buckets in use.
func (h *Histogram) Reset() {
	if h.count == 0 {
		return
	}
	clear(h.counts[h.low : h.high+1])
	h.count, h.sum, h.max, h.low, h.high = 0, 0, 0, 0, 0
}

// Merge adds the counts of another histogram, exactly.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	h.widen(o.low, o.high)
	for i := o.low; i <= o.high; i++ {
		h.counts[i] += o.counts[i]
	}
	h.count += o.count
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// MergeSparse adds the counts of a sparse histogram.
func (h *Histogram) MergeSparse(o *Sparse) {
	if len(o.Cells) == 0 {
		return
	}
	h.widen(int(o.Cells[0].Bucket), int(o.Cells[len(o.Cells)-1].Bucket))
	for _, c := range o.Cells {
		h.counts[c.Bucket] += c.Count
		h.count += c.Count
	}
	h.sum += o.Sum
	h.max = max(h.max, o.Max)
}

// widen extends the range of buckets in use for buckets to be added.
func (h *Histogram) widen(low, high int) {
	if h.count == 0 {
		h.low, h.high = low, high
		return
	}
	h.low, h.high = min(h.low, low), max(h.high, high)
}

// Sparse returns a copy of the buckets in use, for keeping.
func (h *Histogram) Sparse() Sparse {
	s := Sparse{Sum: h.sum, Max: h.max}
	if h.count == 0 {
		return s
	}
	used := 0
	for i := h.low; i <= h.high; i++ {
		if h.counts[i] != 0 {
			used++
		}
	}
	s.Cells = make([]Cell, 0, used)
	for i := h.low; i <= h.high; i++ {
		if h.counts[i] != 0 {
			s.Cells = append(s.Cells, Cell{uint16(i), h.counts[i]})
		}
	}
	return s
}

// Cell is one bucket in use.
type Cell struct {
	Bucket uint16
	Count  uint64
}

// Sparse is a histogram that holds only the buckets in use, in order. It is never changed once
// made.
type Sparse struct {
	Cells []Cell
	Sum   uint64 // of all durations, in nanoseconds
	Max   int64
}

// Count returns the number of durations.
func (s *Sparse) Count() (n uint64) {
	for _, c := range s.Cells {
		n += c.Count
	}
	return n
}

// Mean returns the exact mean in nanoseconds; 0 without durations.
func (s *Sparse) Mean() float64 {
	if n := s.Count(); n > 0 {
		return float64(s.Sum) / float64(n)
	}
	return 0
}

// Over returns how many durations are longer than ns. Those in ns's own bucket count by the share
// of its width above ns.
func (s *Sparse) Over(ns int64) float64 {
	at := bucket(min(max(ns, 0), Longest))
	i := sort.Search(len(s.Cells), func(i int) bool { return int(s.Cells[i].Bucket) >= at })
	over := 0.0
	if i < len(s.Cells) && int(s.Cells[i].Bucket) == at {
		lowest, highest := Bounds(at)
		over = float64(s.Cells[i].Count) * float64(highest-ns) / float64(highest-lowest+1)
		i++
	}
	for _, c := range s.Cells[i:] {
		over += float64(c.Count)
	}
	return over
}

// Quantile returns the duration in nanoseconds that a share q (0 to 1) does not exceed: the upper
// bound of its bucket, but at most Max. It is 0 without durations.
func (s *Sparse) Quantile(q float64) int64 {
	total := s.Count()
	if total == 0 {
		return 0
	}
	rank := uint64(min(max(q, 0), 1)*float64(total) + 0.5)
	rank = min(max(rank, 1), total)
	for _, c := range s.Cells {
		if rank <= c.Count {
			_, highest := Bounds(int(c.Bucket))
			return min(highest, s.Max)
		}
		rank -= c.Count
	}
	return s.Max
}

// Merged adds up histograms, exactly.
func Merged(all ...*Sparse) Sparse {
	var h Histogram
	for _, s := range all {
		h.MergeSparse(s)
	}
	return h.Sparse()
}
