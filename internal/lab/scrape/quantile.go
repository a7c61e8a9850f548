package scrape

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// history is what the next reading of a page needs of the last one to compute quantiles. If a
// counter has fallen, the process has restarted and the history starts again, as there is no
// difference to take.
type history struct {
	latencies, pauses past
	cycles            pastCycles
	ring              pastRing
}

// bucket is a part of a histogram: the number of values of at most upTo that are above the bucket
// before.
type bucket struct{ upTo, count float64 }

// buckets are a histogram's buckets, ascending; the last one is unbounded. nil means no histogram.
type buckets []bucket

// maxBuckets is more than any runtime has.
const maxBuckets = 1000

// histogramOf returns the histogram of a series; nil if it has none, or an invalid one.
func histogramOf(m *dto.Metric) buckets {
	h := m.GetHistogram()
	if h == nil || len(h.Bucket) == 0 || len(h.Bucket) > maxBuckets {
		return nil
	}
	all := make(buckets, 0, len(h.Bucket)+1)
	for _, b := range h.Bucket {
		all = append(all, bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
	}
	slices.SortFunc(all, func(a, b bucket) int {
		switch {
		case a.upTo < b.upTo:
			return -1
		case a.upTo > b.upTo:
			return 1
		}
		return 0
	})
	if last := all[len(all)-1]; !math.IsInf(last.upTo, 1) {
		all = append(all, bucket{math.Inf(1), float64(h.GetSampleCount())})
	}
	below := 0.
	for i, b := range all {
		all[i].count -= below
		if all[i].count < 0 || i > 0 && b.upTo == all[i-1].upTo {
			return nil
		}
		below = b.count
	}
	return all
}

func (b buckets) total() (n float64) {
	for _, part := range b {
		n += part.count
	}
	return n
}

// quantile returns the value that a share q of all values does not exceed, by linear interpolation
// in its bucket, as in Prometheus. The runtime's own histograms have buckets that are each ten
// times as wide as the one before; there the error is up to the width of the bucket.
func (b buckets) quantile(q float64) float64 {
	low, high, into := b.around(q)
	if math.IsInf(high, 1) {
		return low
	}
	return low + (high-low)*into
}

// around returns the bucket of a quantile, and how far into it the quantile is, 0 to 1.
func (b buckets) around(q float64) (low, high, into float64) {
	rank := q * b.total()
	for _, part := range b {
		if rank <= part.count && part.count > 0 {
			return low, part.upTo, rank / part.count
		}
		rank -= part.count
		low = max(part.upTo, 0)
	}
	return low, math.Inf(1), 1
}

// past is a histogram at its last reading.
type past struct{ buckets }

// since returns what a histogram has gained since the last reading; nil if that cannot be
// determined.
func (p *past) since(now buckets) buckets {
	last := p.buckets
	p.buckets = now
	if len(now) == 0 || len(last) != len(now) {
		return nil
	}
	gained := slices.Clone(now)
	for i := range gained {
		gained[i].count -= last[i].count
		if gained[i].count < 0 || gained[i].upTo != last[i].upTo {
			return nil
		}
	}
	return gained
}

// cycles are garbage collections as reported by Go's collector for Prometheus: their number, the
// sum of their pauses, and the quartiles of the last 256 pauses, some of which may be older than
// the last reading.
type cycles struct {
	count, sum float64
	quartiles  [5]float64 // from the shortest to the longest
}

// cyclesOf reads the summary; ok is false if something is missing.
func cyclesOf(m *dto.Metric) (c cycles, ok bool) {
	s := m.GetSummary()
	if s == nil {
		return c, false
	}
	c.count, c.sum = float64(s.GetSampleCount()), s.GetSampleSum()
	seen := 0
	for _, q := range s.Quantile {
		i := q.GetQuantile() * 4
		if i == math.Trunc(i) && i >= 0 && i <= 4 && q.GetValue() >= 0 {
			c.quartiles[int(i)] = q.GetValue()
			seen++
		}
	}
	return c, seen == len(c.quartiles) && slices.IsSorted(c.quartiles[:]) && c.sum-c.sum == 0 &&
		c.quartiles[4]-c.quartiles[4] == 0
}

// pastCycles is the result of the last reading.
type pastCycles struct {
	cycles
	known bool
}

// since returns the change since the last reading, with the current quartiles; ok is false if it
// cannot be determined.
func (p *pastCycles) since(now cycles, known bool) (gained cycles, ok bool) {
	last := *p
	*p = pastCycles{now, known}
	if !known || !last.known || now.count < last.count || now.sum < last.sum {
		return cycles{}, false
	}
	return cycles{now.count - last.count, now.sum - last.sum, now.quartiles}, true
}

// quantile returns the median (.5) or the 95th percentile (.95) of the pauses of one or more
// collections. No source has it: the quartiles cover the last 256 pauses, and the histogram of the
// pauses since, if there is one, is coarse. So the result is that of the quartiles, limited to the
// histogram's bucket and to what the exact sum of the pauses allows. Together they come close; with
// equal pauses the result is exact.
func (c cycles) quantile(q float64, since buckets) float64 {
	if c.count == 1 {
		return c.sum
	}
	quarter := int(q * 4)
	v := c.quartiles[quarter]
	if within := q*4 - float64(quarter); within > 0 {
		v += within * (c.quartiles[quarter+1] - v)
	}
	if since.total() > 0 {
		low, high, _ := since.around(q)
		v = min(max(v, low), high)
	}
	mean := c.sum / c.count
	if c.count <= ringSize {
		// No pause is longer than the longest, so the others must make up the rest of the mean.
		v = max(v, (mean-(1-q)*c.quartiles[4])/q)
	}
	// A share of 1-q of the pauses is at least this long, and the others are at least as long as
	// the quartiles below them.
	rest, below := mean, 0.
	for i := range quarter + 1 {
		share := min(q-below, .25)
		rest -= c.quartiles[i] * share
		below += share
	}
	v = min(v, max(rest/(1-q), c.quartiles[quarter]))
	return min(v, c.sum/max(c.count*(1-q), 1))
}
