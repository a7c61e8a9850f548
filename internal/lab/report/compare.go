package report

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/stats"
	"plimsoll/web"
)

// Rule says when a difference is called real.
const Rule = "A change is called real when its whole interval lies on one side of no change, " +
	"and it is larger than the noise floor: what two equal steps of one run differed by. " +
	"Where a figure has an interval in each run, the interval of the change is the widest that " +
	"these allow, so that they must not overlap. Percentiles are compared at rates that both " +
	"runs held and passed, and that lie a tenth below both load lines, because next to its line " +
	"a service never settles for as long as a step lasts; they are drawn again a few hundred " +
	"times from blocks of their windows, and 99 % of the draws count."

// Comparison is what changed from run A to run B. It is a pure function of the two runs.
type Comparison struct {
	// Changed: differing settings and machines; empty if there are none
	Changed []Change `json:"changed,omitempty"`
	// Figures: the load line first, if both runs found it
	Figures []Difference `json:"figures,omitempty"`
	// Cautions: reasons not to take the figures at face value
	Cautions []string `json:"cautions,omitempty"`
	Sentence string   `json:"sentence"` // about the load line
}

// Change is a setting that differs between the runs.
type Change struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Difference is one figure of both runs.
type Difference struct {
	Figure string `json:"figure"`
	// Unit: "/s" for requests a second, "ns", or "s" for seconds a request
	Unit string         `json:"unit"`
	A    model.Interval `json:"a"`
	B    model.Interval `json:"b"`
	// Change is B ÷ A − 1, and lies between Low and High.
	Change float64 `json:"change_share"`
	Low    float64 `json:"low_share"`
	High   float64 `json:"high_share"`
	// Noise: the noise floor, as a share; 0 if neither run measured it
	Noise float64 `json:"noise_share"`
	Real  bool    `json:"real"`
	// Better is 1 if a larger figure is better, -1 if a smaller one is.
	Better int `json:"better"`
	// Why: why the change is not called real; empty if it is
	Why string `json:"why"`
}

// Differences compares two runs.
func Differences(a, b *record.Run) *Comparison {
	c := &Comparison{Changed: changed(&a.Manifest, &b.Manifest)}
	noise := worst(a.Result, b.Result)
	if !noise.Measured {
		c.Cautions = append(c.Cautions, "Not both runs measured their noise floor, "+
			"so that small changes may be called real that are not.")
	}
	for _, what := range []string{"SLO", "mix"} {
		if slices.ContainsFunc(c.Changed, func(one Change) bool { return one.What == what }) {
			c.Cautions = append(c.Cautions, "The runs differ in their "+what+": their load lines "+
				"do not mean the same.")
		}
	}
	for name, run := range map[string]*record.Run{"A": a, "B": b} {
		if run.Result == nil || run.Result.Early != "" {
			c.Cautions = append(c.Cautions, "Run "+name+" ended early, or is still being recorded.")
		}
		if len(run.Steps) > 0 && !slices.ContainsFunc(run.Steps, func(s measure.Step) bool {
			return s.Totals.Generator.Invalid == ""
		}) {
			c.Cautions = append(c.Cautions, "Run "+name+" is INVALID, as the generator was the "+
				"limit: its percentiles are not compared.")
		}
	}
	slices.Sort(c.Cautions)
	if a.Result != nil && b.Result != nil {
		c.Figures = append(c.Figures, found(a.Result, b.Result, noise)...)
	}
	c.Figures = append(c.Figures, atCommonRates(a, b, noise)...)
	c.Sentence = sentenceOf(c)
	if a.Manifest.Kind == "load" && b.Manifest.Kind == "load" {
		c.Sentence = "There is no load line to compare: these were loads, " +
			"and a survey looks for it."
	}
	return c
}

// worst takes the larger value of each noise of the two runs.
func worst(a, b *record.Result) record.Noise {
	if a == nil || b == nil {
		return record.Noise{}
	}
	x, y := a.Noise, b.Noise
	return record.Noise{
		P50:      max(x.P50, y.P50),
		P99:      max(x.P99, y.P99),
		Goodput:  max(x.Goodput, y.Goodput),
		CPU:      max(x.CPU, y.CPU),
		Measured: x.Measured && y.Measured,
	}
}

func changed(a, b *record.Manifest) (all []Change) {
	add := func(what, x, y string) {
		if x != y {
			all = append(all, Change{clip(what, 60), clip(x, 300), clip(y, 300)})
		}
	}
	add("kind", a.Kind, b.Kind)
	add("target", a.Target, b.Target)
	add("SLO", a.SLO, b.SLO)
	add("mix", a.Mix, b.Mix)
	add("tool", a.Tool, b.Tool)
	add("machine", machine(&a.Machine), machine(&b.Machine))
	names := map[string]bool{}
	for _, settings := range []map[string]string{a.Settings, b.Settings} {
		for name := range settings {
			names[name] = true
		}
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted[:min(len(sorted), 100)] {
		add(name, a.Settings[name], b.Settings[name])
	}
	return all
}

// found compares the results of both surveys, with their intervals.
func found(a, b *record.Result, noise record.Noise) (all []Difference) {
	add := func(figure, unit string, x, y model.Interval, floor float64, better int) {
		if x.Estimate > 0 && y.Estimate > 0 {
			all = append(all, differ(Difference{
				Figure: figure,
				Unit:   unit,
				A:      x,
				B:      y,
				Low:    ratio(y.Low, x.High),
				High:   ratio(y.High, x.Low),
				Noise:  floor,
				Better: better,
			}))
		}
	}
	if a.Line.Found && b.Line.Found {
		add(lineFigure, "/s", a.Line.Interval, b.Line.Interval, noise.Goodput, 1)
	}
	add("Highest goodput of a step", "/s", highest(a), highest(b), noise.Goodput, 1)
	if a.Collapse.Found && b.Collapse.Found {
		add("Collapse", "/s", a.Collapse.Rate, b.Collapse.Rate, noise.Goodput, 1)
	}
	for _, x := range a.Model.Demands {
		for _, y := range b.Model.Demands {
			if x.Resource == y.Resource && x.Unit == y.Unit {
				add("Demand on "+clip(x.Resource, 60)+" of a request", x.Unit, x.Per, y.Per,
					noise.CPU, -1)
			}
		}
	}
	return all[:min(len(all), 24)]
}

const lineFigure = "Load line"

func ratio(y, x float64) float64 {
	if x <= 0 {
		return math.MaxFloat64
	}
	return y/x - 1
}

// highest is the largest goodput of any step that is not INVALID.
func highest(r *record.Result) (best model.Interval) {
	for _, j := range r.Judgements {
		if j.Verdict != record.Invalid && j.Goodput.Estimate > best.Estimate {
			best = j.Goodput
		}
	}
	return best
}

// differ applies the Rule to a difference whose interval is known.
func differ(d Difference) Difference {
	d.Change = ratio(d.B.Estimate, d.A.Estimate)
	switch {
	case d.Low <= 0 && d.High >= 0:
		d.Why = "no change lies within the interval"
	case d.A.Low == d.A.High && d.B.Low == d.B.High:
		d.Why = "how sure the figures are is not known: each was measured once"
	case math.Abs(d.Change) <= d.Noise:
		d.Why = "it is within the noise floor of " + format.Percent(d.Noise)
	default:
		d.Real = true
	}
	return d
}

// mostRates bounds the number of common rates that are compared. belowLine bounds them to this
// share of a load line.
const (
	mostRates = 4
	belowLine = .9
)

// atCommonRates compares percentiles at rates that both runs held, the highest first. At or beyond
// its line, two steps of one service differ widely, because a queue from the beginning of a step
// stays. Resampling the windows of one step does not show that.
func atCommonRates(a, b *record.Run, noise record.Noise) (all []Difference) {
	x, y := held(a), held(b)
	rates := make([]float64, 0, len(x))
	for rate := range x {
		rates = append(rates, rate)
	}
	slices.Sort(rates)
	slices.Reverse(rates)
	r := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for _, rate := range rates {
		other, ok := nearest(y, rate)
		if !ok {
			continue
		}
		if compared++; compared > mostRates {
			break
		}
		one, two := x[rate], y[other]
		for _, p := range []struct {
			name  string
			q     float64
			noise float64
		}{{"p50", .5, noise.P50}, {"p99", .99, noise.P99}} {
			d, ok := resampled(one, two, p.q, r)
			if !ok {
				continue
			}
			d.Figure, d.Noise = fmt.Sprintf("%s at %s a second", p.name, number(rate)), p.noise
			all = append(all, differ(d))
		}
	}
	return all
}

// held returns the judged windows of each rate that a run held. Below its line these are all steps
// that did not fail, because a gentle step is mostly too short to prove a pass. Without a line they
// are the steps that passed. Steps without a judgement count too.
func held(run *record.Run) map[float64][]measure.Window {
	most := math.Inf(1)
	well := map[int]bool{}
	if run.Result != nil {
		line := run.Result.Line
		if line.Found {
			most = line.Interval.Low * belowLine
		}
		for _, j := range run.Result.Judgements {
			well[j.Step] = j.Verdict == record.Pass || j.Verdict == record.Undecided && line.Found
		}
	}
	all := map[float64][]measure.Window{}
	for i := range run.Steps {
		s := &run.Steps[i]
		if s.Plan.Phase == measure.PhaseWarmUp || s.Plan.Rate <= 0 || s.Plan.Rate > most ||
			s.Totals.Generator.Invalid != "" {
			continue
		}
		if ok, judged := well[s.Plan.Number]; judged && !ok {
			continue
		}
		all[s.Plan.Rate] = append(all[s.Plan.Rate], judged(s)...)
	}
	return all
}

// nearest is the run's rate closest to another rate, within 1 %.
func nearest(of map[float64][]measure.Window, rate float64) (best float64, ok bool) {
	distance := .0101
	for other := range of {
		if d := math.Abs(other/rate - 1); d < distance || d == distance && other < best {
			best, distance, ok = other, d, true
		}
	}
	return best, ok
}

const draws = 300

// resampled is the difference of a quantile between two series of windows. Its interval comes from
// resampling blocks of them. ok is false if a series is too short, or if the quantile lies among
// the failures of either run.
func resampled(a, b []measure.Window, q float64, r *rand.Rand) (d Difference, ok bool) {
	const fewest = 8
	if len(a) < fewest || len(b) < fewest {
		return d, false
	}
	x, y := total(a), total(b)
	p, known := x.Quantile(q)
	s, alsoKnown := y.Quantile(q)
	if !known || !alsoKnown || p <= 0 || s <= 0 {
		return d, false
	}
	as, bs := drawn(a, q, r), drawn(b, q, r)
	changes := make([]float64, draws)
	for i := range changes {
		changes[i] = ratio(bs[i], as[i])
	}
	slices.Sort(changes)
	slices.Sort(as)
	slices.Sort(bs)
	low, high := draws/200, draws-1-draws/200
	d = Difference{
		Unit:   "ns",
		Better: -1,
		Low:    changes[low],
		High:   changes[high],
		A:      model.Interval{Low: as[low], Estimate: float64(p), High: as[high], Confidence: .99},
		B:      model.Interval{Low: bs[low], Estimate: float64(s), High: bs[high], Confidence: .99},
	}
	return d, true
}

// drawn returns the quantiles of resampled series, made of blocks of the windows. A quantile among
// failures counts as the longest possible duration.
func drawn(ws []measure.Window, q float64, r *rand.Rand) []float64 {
	means := make([]float64, len(ws))
	for i := range ws {
		means[i] = ws[i].Response.Mean()
	}
	block := stats.BlockLength(means)
	out := make([]float64, draws)
	var h measure.Histogram
	for i := range out {
		h.Reset()
		var t measure.Totals
		for left := len(ws); left > 0; left -= block {
			at := r.IntN(len(ws))
			for range min(block, left) {
				h.MergeSparse(&ws[at].Response)
				t.Ended.Add(&ws[at].Ended)
				at = (at + 1) % len(ws)
			}
		}
		t.Response = h.Sparse()
		out[i] = measure.Longest
		if ns, ok := t.Quantile(q); ok {
			out[i] = float64(ns)
		}
	}
	return out
}

func sentenceOf(c *Comparison) string {
	if len(c.Figures) == 0 || c.Figures[0].Figure != lineFigure {
		return "The load lines cannot be compared: not both runs found theirs."
	}
	d := c.Figures[0]
	from, to := number(d.A.Estimate), number(d.B.Estimate)
	if !d.Real {
		return fmt.Sprintf("No real change of the load line was seen: "+
			"%s, then %s requests a second.", from, to)
	}
	word := "rose"
	if d.Change < 0 {
		word = "fell"
	}
	return fmt.Sprintf("The load line %s by %s: from %s to %s requests a second.",
		word, format.Percent(math.Abs(d.Change)), from, to)
}

// Compare writes a page with both runs, A first, as one HTML file. It fails as Write does.
func Compare(w io.Writer, a, b *record.Run) error {
	x, y := MakeData(a), MakeData(b)
	x.Timeline, y.Timeline = Timeline{}, Timeline{}
	c := Differences(a, b)
	front := web.Report()
	v := compareView(x, y, c)
	return write(w, &page{
		Title:   v.Title,
		Heading: v.Heading,
		Subject: v.Subject,
		When:    v.When,
		Body:    compareBody(v, front.Script != ""),
	}, struct {
		A          *Data       `json:"a"`
		B          *Data       `json:"b"`
		Comparison *Comparison `json:"comparison"`
	}{x, y, c}, front)
}
