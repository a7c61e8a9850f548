package report

import (
	"math"
	"time"

	"plimsoll/internal/lab/measure"
)

// Lengths that keep a page small, whatever the length of the run.
const (
	curvePoints   = 100
	timelineSpots = 1000
)

// curve reduces a histogram to points of a percentile plot, spread evenly over its logarithmic
// axis. all includes the failed requests. They count as slower than every point, so the curve ends
// where they begin.
func curve(h *measure.Sparse, all uint64) []Point {
	good := h.Count()
	if good == 0 || all == 0 {
		return nil
	}
	last := math.Log10(float64(all))
	if all > good {
		last = math.Log10(float64(all) / float64(all-good))
	}
	points := make([]Point, 0, curvePoints+2)
	seen, next := uint64(0), 0.0
	for i, c := range h.Cells {
		seen += c.Count
		x := float64(all)
		if seen < all {
			x = 1 / (1 - float64(seen)/float64(all))
		}
		at := math.Log10(x)
		if at < next && i < len(h.Cells)-1 {
			continue
		}
		_, highest := measure.Bounds(int(c.Bucket))
		points = append(points, Point{round(x), float64(min(highest, h.Max))})
		next = at + last/curvePoints
	}
	return points
}

// round keeps five significant digits, to keep JSON short.
func round(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// Timeline is the whole run, step after step, in columns of equal length. Waits between steps are
// left out, so its time only counts load.
type Timeline struct {
	At      []float64 `json:"at_seconds,omitempty"` // the middle of the spot
	Offered []float64 `json:"offered_per_second,omitempty"`
	Good    []float64 `json:"good_per_second,omitempty"`
	// P50: nil if it lies among failures, or nothing ended
	P50   []*int64 `json:"p50_ns,omitempty"`
	P99   []*int64 `json:"p99_ns,omitempty"`
	Steps []Span   `json:"steps,omitempty"`
}

// Span is a step's part of the timeline.
type Span struct {
	Number int     `json:"number"`
	From   float64 `json:"from_seconds"`
	To     float64 `json:"to_seconds"`
}

// makeTimeline joins windows until few enough are left. It adds up their histograms before taking a
// percentile: percentiles are never averaged. A spot never crosses the boundary of a step.
func makeTimeline(steps []measure.Step) Timeline {
	windows := 0
	for i := range steps {
		windows += len(steps[i].Windows)
	}
	join := max(1, (windows+timelineSpots-1)/timelineSpots)
	var t Timeline
	base := int64(0)
	for i := range steps {
		s := &steps[i]
		end := base
		for from := 0; from < len(s.Windows); from += join {
			ws := s.Windows[from:min(from+join, len(s.Windows))]
			t.add(base, s.Totals.Length, ws)
			end = base + ws[len(ws)-1].End()
		}
		t.Steps = append(t.Steps, Span{s.Plan.Number, seconds(base), seconds(end)})
		base = end
	}
	return t
}

// add adds a spot. The last window of a step continues until the last request has ended, although
// nothing is offered after the step's length.
func (t *Timeline) add(base, offered int64, ws []measure.Window) {
	sum := total(ws)
	from, to := ws[0].Start, ws[len(ws)-1].End()
	length := seconds(to - from)
	if length <= 0 {
		return
	}
	loaded := length
	if offered > from && offered < to {
		loaded = seconds(offered - from)
	}
	t.At = append(t.At, round(seconds(base+from)+length/2))
	t.Offered = append(t.Offered, round(float64(sum.Due)/loaded))
	t.Good = append(t.Good, round(float64(sum.Ended[measure.OK])/length))
	t.P50 = append(t.P50, coarse(quantile(&sum, .5)))
	t.P99 = append(t.P99, coarse(quantile(&sum, .99)))
}

// coarse rounds to a microsecond if nobody can see the difference.
func coarse(ns *int64) *int64 {
	if ns != nil && *ns > 100_000 {
		*ns = *ns / 1000 * 1000
	}
	return ns
}

func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }
