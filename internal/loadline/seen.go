package loadline

import (
	"plimsoll/internal/hist"
	"plimsoll/internal/lab/measure"
)

// Met is the requests that, when they were sent, found the same number of other requests of their
// loop at the target.
type Met struct {
	Count uint64
	// the sums of the times from sending to the answer, in nanoseconds, and of their squares
	Sum, Squares float64
}

// Seen is what was seen of one target over a time.
type Seen struct {
	Met    []Met          // by the number of others found; at most measure.MostFound+1 long
	Times  hist.Histogram // of all answered requests
	Failed uint64         // requests without a good answer
}

// Requests is the number of requests, answered and failed.
func (s *Seen) Requests() uint64 { return s.Times.Count() + s.Failed }

// Add adds o, which was seen over another time or by another loop.
func (s *Seen) Add(o *Seen) {
	if n := min(len(o.Met), measure.MostFound+1); n > len(s.Met) {
		s.Met = append(s.Met, make([]Met, n-len(s.Met))...)
	}
	for i, m := range o.Met[:min(len(o.Met), len(s.Met))] {
		to := &s.Met[i]
		to.Count, to.Sum, to.Squares = to.Count+m.Count, to.Sum+m.Sum, to.Squares+m.Squares
	}
	s.Times.Merge(&o.Times)
	s.Failed += o.Failed
}

// late is how many requests took longer than limit nanoseconds, or failed.
func (s *Seen) late(limit int64) float64 {
	late := float64(s.Failed)
	before := int64(0)
	for i, n := range s.Times.Counts() {
		edge := min(hist.Edge(i), max(s.Times.Max(), before+1))
		if n > 0 && edge > limit {
			late += float64(n) * min(1, float64(edge-limit)/float64(edge-before))
		}
		before = edge
	}
	return late
}

// sparse converts a histogram to the lab's finer buckets and multiplies its counts by share. It
// spreads the counts of each bucket evenly.
func sparse(h *hist.Histogram, share float64) measure.Sparse {
	s := measure.Sparse{Sum: uint64(float64(h.Sum()) * share), Max: h.Max()}
	counts := h.Counts()
	at, below, low := 0, 0.0, int64(-1) // of the coarse bucket: index, counts before it, lower end
	last := uint64(0)
	for i := range measure.Buckets {
		_, high := measure.Bounds(i)
		for at < len(counts)-1 && hist.Edge(at) < high {
			below, low = below+float64(counts[at]), hist.Edge(at)
			at++
		}
		edge := min(hist.Edge(at), max(h.Max(), low+1))
		inside := min(1, float64(high-low)/float64(edge-low))
		if upto := uint64((below+inside*float64(counts[at]))*share + .5); upto > last {
			s.Cells = append(s.Cells, measure.Cell{Bucket: uint16(i), Count: upto - last})
			last = upto
		}
	}
	return s
}
