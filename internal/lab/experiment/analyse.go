package experiment

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/lab/stats"
)

// confidence is the confidence of the medians' intervals.
const confidence = 0.95

// detectedShare is the probability that a difference of Comparison.Detectable is found.
const detectedShare = 0.9

// rankLoss is how much more data a rank test needs than a test of means, if the values are normal:
// 1 ÷ 0.955.
const rankLoss = 1.047

// Analyse determines what an experiment has shown. It is a pure function of the written record.
// early says why the experiment ended before it was done.
//
// The unit is a run, one value in one round: each start of a service has its own level, which more
// requests do not average out. Two values are compared by their differences within the rounds, so
// that drift from round to round cancels out. See docs/experiment.md.
func Analyse(r *Record, early string) *Result {
	m := &r.Manifest
	out := &Result{
		SchemaVersion: SchemaVersion,
		Early:         early,
		Repeat:        m.Repeat,
		Alpha:         m.Alpha,
		Relevant:      m.Relevant,
		Notes:         slices.Clone(r.Notes),
	}
	a := &analysis{manifest: m, result: out, runs: make([]map[int]*Run, len(m.Values))}
	for i, v := range m.Values {
		a.runs[i] = make(map[int]*Run)
		out.Values = append(out.Values, ValueResult{Name: v.Name, Value: v.Value})
	}
	for i := range r.Runs {
		a.add(&r.Runs[i])
	}
	for _, f := range m.Figures {
		a.figure(f)
	}
	a.judge()
	return out
}

// analysis is the state of an Analyse.
type analysis struct {
	manifest *Manifest
	result   *Result
	runs     []map[int]*Run // of each value, by round: only runs whose figures are used
	tests    []test
}

// test is one comparison before it is judged.
type test struct {
	figure, comparison int
	differences        []float64
	p                  float64
}

// add adds a run to its value.
func (a *analysis) add(run *Run) {
	i := slices.IndexFunc(a.manifest.Values, func(v Value) bool { return v.Name == run.Value })
	if i < 0 {
		return
	}
	v := &a.result.Values[i]
	switch {
	case run.Failed != "":
		v.Failures++
		v.Why, v.Output = fmt.Sprintf("round %d: %s", run.Round, run.Failed), run.Output
	case run.Unused != "":
		v.Unused++
		v.Why = fmt.Sprintf("round %d: %s", run.Round, run.Unused)
	default:
		v.Runs++
		a.runs[i][run.Round] = run
		a.result.Rounds = max(a.result.Rounds, len(a.runs[i]))
	}
	for _, why := range run.Missing {
		a.note("not measured: " + why)
	}
}

// note adds a note, once.
func (a *analysis) note(text string) {
	const most = 20
	if len(a.result.Notes) < most && !slices.Contains(a.result.Notes, text) {
		a.result.Notes = append(a.result.Notes, text)
	}
}

// figure collects one figure's medians and differences.
func (a *analysis) figure(f Figure) {
	out := FigureResult{Figure: f}
	positive := true
	for _, of := range a.runs {
		var values []float64
		for _, run := range of {
			if v, ok := run.Figures[f.Name]; ok {
				values = append(values, v)
				positive = positive && v > leastShare
			}
		}
		var e *Estimate
		if len(values) > 0 {
			in := stats.MedianInterval(values, confidence)
			e = &Estimate{in.Low, in.Point, in.High}
		}
		out.Medians = append(out.Medians, e)
	}
	at := len(a.result.Figures)
	for _, pair := range a.manifest.pairs(len(a.runs)) {
		d := a.differences(f.Name, pair, positive)
		if len(d) == 0 {
			continue
		}
		a.tests = append(a.tests, test{at, len(out.Comparisons), d, stats.SignedRank(d)})
		out.Comparisons = append(out.Comparisons, Comparison{
			Than:  a.manifest.Values[pair[0]].Name,
			Value: a.manifest.Values[pair[1]].Name,
			Pairs: len(d),
			Share: positive,
		})
	}
	a.result.Figures = append(a.result.Figures, out)
}

// differences returns a figure's differences between two values, round by round. If every value is
// above zero, they are differences of logarithms, so that they are shares.
func (a *analysis) differences(figure string, pair [2]int, positive bool) (d []float64) {
	for round := 1; round <= a.manifest.Repeat; round++ {
		than, value := a.runs[pair[0]][round], a.runs[pair[1]][round]
		if than == nil || value == nil {
			continue
		}
		before, ok := than.Figures[figure]
		after, also := value.Figures[figure]
		if !ok || !also {
			continue
		}
		if positive {
			d = append(d, math.Log(after)-math.Log(before))
		} else {
			d = append(d, after-before)
		}
	}
	return d
}

// judge corrects all tests together and gives each a verdict.
func (a *analysis) judge() {
	out := a.result
	p := make([]float64, len(a.tests))
	for i, t := range a.tests {
		p[i] = t.p
	}
	out.Tests = len(a.tests)
	out.Needed = stats.LeastPairs(out.Alpha, out.Tests)
	corrected, level := stats.Holm(p, out.Alpha)
	for i, t := range a.tests {
		f := &out.Figures[t.figure]
		c := &f.Comparisons[t.comparison]
		c.P, c.Corrected = t.p, corrected[i]
		a.estimate(f, c, t.differences, out.Alpha*level[i])
		c.Says = says(f, c, stats.LeastPairs(out.Alpha, int(math.Round(1/level[i]))))
		if c.Verdict == Real {
			out.Real++
		}
	}
	if out.Tests > 0 && out.Rounds < out.Needed {
		a.note(fmt.Sprintf("with %s no difference can be called real; %d are needed for %s",
			many(out.Rounds, "round"), out.Needed,
			many(out.Tests, "comparison")))
	}
	if out.Tests == 0 {
		a.note("nothing can be compared: there is no round in which both of two " +
			"values were measured")
	}
}

// estimate determines how large a difference is, how certain it is, and what it means. alpha is the
// level that the test's probability was compared with.
func (a *analysis) estimate(f *FigureResult, c *Comparison, d []float64, alpha float64) {
	in := stats.Shift(d, 1-alpha)
	relevant, detectable := a.result.Relevant, detectable(d, alpha)
	if c.Share {
		c.Shift = math.Expm1(in.Point)
		c.Low = math.Expm1(in.Low)
		c.High = math.Expm1(in.High)
		detectable = math.Expm1(detectable)
	} else {
		c.Shift, c.Low, c.High = in.Point, in.Low, in.High
		if of := a.median(f, c.Than); of > 0 {
			relevant *= of
		} else {
			relevant = 0
		}
	}
	few := stats.LeastPairs(alpha, 1) > len(d)
	if !few && !math.IsInf(detectable, 0) {
		c.Detectable = max(detectable, relevant)
	}
	switch {
	case c.Corrected < a.result.Alpha && math.Abs(c.Shift) >= relevant && c.Shift != 0:
		c.Verdict = Real
	case c.Corrected < a.result.Alpha:
		c.Verdict = Small
	case few:
		c.Verdict = TooFew
	case c.Low >= -relevant && c.High <= relevant:
		c.Verdict = Same
	default:
		c.Verdict = NotSeen
	}
	if c.Verdict == Real && f.Better != "" {
		better := (c.Shift > 0) == (f.Better == f.Up)
		c.Better = &better
	}
}

// median is a value's median, 0 if it has none.
func (a *analysis) median(f *FigureResult, name string) float64 {
	i := slices.IndexFunc(a.manifest.Values, func(v Value) bool { return v.Name == name })
	if i < 0 || f.Medians[i] == nil {
		return 0
	}
	return math.Abs(f.Medians[i].Median)
}

// detectable is the difference that a test at level alpha finds nine times in ten among runs with
// this scatter.
func detectable(d []float64, alpha float64) float64 {
	n := float64(len(d))
	if n < 2 {
		return math.Inf(1)
	}
	mean, squares := 0.0, 0.0
	for _, v := range d {
		mean += v / n
	}
	for _, v := range d {
		squares += (v - mean) * (v - mean)
	}
	spread := math.Sqrt(squares / (n - 1) * rankLoss / n)
	return spread * (stats.StudentQuantile(1-alpha/2, n-1) +
		stats.StudentQuantile(detectedShare, n-1))
}

// says describes a comparison in words. needed is the number of pairs that its test requires.
func says(f *FigureResult, c *Comparison, needed int) string {
	switch c.Verdict {
	case Real:
		return "real: " + amount(f, c, c.Shift)
	case Small:
		return "real, but too small to matter: " + amount(f, c, c.Shift)
	case TooFew:
		return fmt.Sprintf("cannot be determined: %s with both, and it takes %d",
			many(c.Pairs, "round"), needed)
	case Same:
		return "the same, as far as it matters"
	}
	if c.Detectable == 0 {
		return "no difference seen"
	}
	one := *c
	one.Shift = c.Detectable
	return fmt.Sprintf("no difference seen; one of %s would have been", size(f, &one, c.Detectable))
}

// many is "1 round" or "2 rounds".
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// amount describes a difference in words: "12 % slower".
func amount(f *FigureResult, c *Comparison, shift float64) string {
	word := f.Up
	if shift < 0 {
		word = f.Down
	}
	return size(f, c, shift) + " " + word
}

// size is the size of a difference, without its sign.
func size(f *FigureResult, c *Comparison, shift float64) string {
	shift = math.Abs(shift)
	switch {
	case c.Share && shift >= .095:
		return fmt.Sprintf("%.0f %%", 100*shift)
	case c.Share:
		return fmt.Sprintf("%.1f %%", 100*shift)
	case f.Unit == "share":
		return fmt.Sprintf("%.2g percentage points", 100*shift)
	}
	return fmt.Sprintf("%.3g %s", shift, f.Unit)
}
