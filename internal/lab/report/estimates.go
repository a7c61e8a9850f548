package report

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// Estimates puts all estimates of the line on one scale: the measurement, the predictions, and the
// bounds of the resources.
type Estimates struct {
	Rows     []EstimateRow
	From, To string // the ends of the scale
	Measured *Band  // the line, drawn behind every row
	USL      string
	Notes    []string
}

// EstimateRow is one estimate.
type EstimateRow struct {
	What, Value, Error, How string
	Kind                    string // "line", "predicted" or "bound"
	Bar                     *Band
}

func estimates(d *Data) *Estimates {
	r := d.Result
	if r == nil {
		return nil
	}
	e := &Estimates{Notes: clipped(r.Model.Notes)}
	sc := scaleOf(r)
	if sc.to <= sc.from {
		return nil
	}
	e.From, e.To = number(sc.from), number(sc.to)
	bar := sc.band
	line := r.Line.Interval
	if r.Line.Found {
		e.Measured = bar(line)
		e.Rows = append(e.Rows, EstimateRow{
			"Measured load line", interval(line), "", "this survey", "line", bar(line),
		})
	}
	for i, p := range r.Model.Predictions {
		if i == 12 {
			break
		}
		row := EstimateRow{
			fmt.Sprintf("Predicted after step %d", p.Made),
			interval(p.Line),
			"",
			sentence(clip(p.How, 300)),
			"predicted",
			bar(p.Line),
		}
		if p.Limit != "" {
			row.How += " It says that " + clip(p.Limit, 60) + " is the bottleneck."
		}
		if p.Measured.Estimate > 0 {
			row.Error = signed(p.Error)
		}
		if p.Misses != "" {
			row.How += " It misses: " + clip(p.Misses, 300) + "."
		}
		e.Rows = append(e.Rows, row)
	}
	for i, b := range r.Model.Demands {
		if i == 20 {
			break
		}
		row := EstimateRow{
			"Bound set by " + clip(b.Resource, 60),
			interval(b.Bound),
			"",
			"",
			"bound",
			bar(b.Bound),
		}
		row.How = inUnit(b.Per, b.Unit) + " a request, " + number(b.Capacity) + " to share; " +
			clip(b.How, 300) + "."
		if b.Resource == r.Model.Smallest {
			row.How = "The smallest bound: " + row.How
		}
		e.Rows = append(e.Rows, row)
	}
	e.USL = usl(r.Model.USL)
	return e
}

// scale is a range of rates for drawing estimates. It need not begin at 0: estimates are points and
// intervals, not lengths.
type scale struct{ from, to float64 }

func scaleOf(r *record.Result) scale {
	low, high := math.Inf(1), 0.0
	grow := func(i model.Interval) {
		if i.Estimate > 0 {
			low = min(low, max(i.Low, i.Estimate/2))
			high = max(high, min(i.High, i.Estimate*2), i.Estimate)
		}
	}
	if r.Line.Found {
		grow(r.Line.Interval)
	}
	for _, p := range r.Model.Predictions {
		grow(p.Line)
	}
	for _, d := range r.Model.Demands {
		grow(d.Bound)
	}
	if high <= 0 {
		return scale{}
	}
	step := nice((high - low + high*.1) / 6)
	return scale{math.Floor(low*.97/step) * step, math.Ceil(high*1.03/step) * step}
}

func (s scale) band(i model.Interval) *Band {
	return band(i.Low-s.from, i.Estimate-s.from, i.High-s.from, s.to-s.from)
}

// usl describes a fitted scalability law in words.
func usl(u *model.USL) string {
	if u == nil {
		return ""
	}
	if u.Lambda.Estimate <= 0 {
		return sentence(clip(u.Note, 300))
	}
	text := fmt.Sprintf("Scalability law fitted: σ (contention) %s (%s–%s), κ (coherence) "+
		"%s (%s–%s), R² %s. ",
		short3(u.Sigma.Estimate), short3(u.Sigma.Low), short3(u.Sigma.High),
		short3(u.Kappa.Estimate), short3(u.Kappa.Low), short3(u.Kappa.High), short3(u.R2))
	if u.PeakX > 0 {
		text += fmt.Sprintf("Its peak is %s requests a second with %s in the target.",
			number(u.PeakX), number(u.PeakN))
	} else {
		text += fmt.Sprintf("Its peak lies beyond %s in the target, which is twice what was "+
			"measured: it is not reported.", number(u.Reach))
	}
	if u.Note != "" {
		text += " " + sentence(clip(u.Note, 300))
	}
	return text
}

func short3(v float64) string { return fmt.Sprintf("%.3g", v) }
