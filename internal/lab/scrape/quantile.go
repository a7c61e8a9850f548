package scrape

import (
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// history is what of a page's last reading is needed for the next one's quantiles. When a counter
// has fallen the process has started again, and the history starts again: there is no difference to
// take then.
type history struct {
	latencies, pauses past
	cycles            pastCycles
	ring              pastRing
}

// bucket is a part of a histogram: how many values were at most upTo, and more than the bucket
// before says.
type bucket struct{ upTo, count float64 }

// buckets are a histogram's, ascending; the last one is unbounded. None are not a histogram.
type buckets []bucket

// maxBuckets is more than any runtime has.
const maxBuckets = 1000

// histogramOf is the histogram of a series; none when it has none, or one that makes no sense.
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

// quantile is the value that a share q of all does not exceed, by a straight line through its
// bucket, as Prometheus draws it. With the runtime's own histograms, whose buckets are ten times as
// wide as the one before, it is off by as much as the bucket is wide.
func (b buckets) quantile(q float64) float64 {
	low, high, into := b.around(q)
	if math.IsInf(high, 1) {
		return low
	}
	return low + (high-low)*into
}

// around is the bucket that a quantile lies in, and how far into it, 0 to 1.
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

// past is a histogram as it was read last.
type past struct{ buckets }

// since is what a histogram has gained; none when that cannot be determined.
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

// cycles are garbage collections as Go's collector for Prometheus tells of them: their number, the
// sum of their pauses, and the quartiles of the last 256 of them, which may be older than the last
// reading.
type cycles struct {
	count, sum float64
	quartiles  [5]float64 // from the least to the longest
}

// cyclesOf reads the summary; ok is false when it has not what is needed.
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

// pastCycles is what was read last.
type pastCycles struct {
	cycles
	known bool
}

// since is what has happened since the last reading, with the quartiles as they are now; ok is
// false when that cannot be determined.
func (p *pastCycles) since(now cycles, known bool) (gained cycles, ok bool) {
	last := *p
	*p = pastCycles{now, known}
	if !known || !last.known || now.count < last.count || now.sum < last.sum {
		return cycles{}, false
	}
	return cycles{now.count - last.count, now.sum - last.sum, now.quartiles}, true
}

// quantile is the median (.5) or the 95th percentile (.95) of the pauses of one collection or more.
// No source has it: the quartiles are of the last 256 pauses, and the histogram of the pauses
// since, if there is one, is coarse. So it is what the quartiles say, but within the histogram's
// bucket, and within what the pauses' sum allows, which is exact. Together they come near: with
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
		// None is longer than the longest, so the others have to make up for the rest of the mean.
		v = max(v, (mean-(1-q)*c.quartiles[4])/q)
	}
	// Of the pauses a share of 1-q is this long or longer, and the others are not shorter than the
	// quartiles below them.
	rest, below := mean, 0.
	for i := range quarter + 1 {
		share := min(q-below, .25)
		rest -= c.quartiles[i] * share
		below += share
	}
	v = min(v, max(rest/(1-q), c.quartiles[quarter]))
	return min(v, c.sum/max(c.count*(1-q), 1))
}
