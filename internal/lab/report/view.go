package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// view is the content of a run's page: readable texts and the rows of tables.
type view struct {
	Title, Heading, Subject, When string
	Verdict                       Headline
	Tiles                         []Tile
	Diagnosis                     *DiagnosisView
	Flames                        []FlameView
	Estimates                     *Estimates
	Steps                         []StepRow
	Failures                      []FailureRow
	Kinds                         []KindRow
	Validity                      []Check
	NotMeasured                   []string
	Notes                         []string
	Facts                         []Fact
	Command                       string
	File                          string // the name of the JSON to download
	// a survey; a run with more than one rate; processor use was measured
	Survey, Rates, Saturated bool
}

// Tile is one headline figure.
type Tile struct{ Label, Value, Unit, Note string }

// Fact is one line of a list of settings.
type Fact struct{ Name, Value string }

// Check is one line of the validity list.
type Check struct {
	OK        bool
	What, Why string
}

// Cell is a cell of a table: its text and its sort key.
type Cell struct {
	Text string
	Sort float64
}

// StepRow is a step in the table of raw numbers.
type StepRow struct {
	Number       int
	Phase        string
	Tone         string
	Verdict      string
	Because, Why string
	Cells        []Cell
}

// stepColumns are the headers of StepRow.Cells.
var stepColumns = []string{
	"offered/s", "goodput/s", "p50", "p90", "p99", "p99.9", "max", "failed", "in target",
	"target CPU", "CPU/request", "generator CPU",
	"send lag p99", "connections", "seconds",
}

// FailureRow is one kind of failure in one step.
type FailureRow struct {
	Step    int
	Rate    string
	Kind    string
	Count   string
	Example string
}

// KindRow is the outcome of one kind of request of the mix, over all steps that are not INVALID.
type KindRow struct{ Name, Count, Share, Failed, P50, P99 string }

func makeView(run *record.Run, d *Data) *view {
	m := &d.Manifest
	v := &view{
		Heading:   heading(m.Kind),
		Subject:   clip(m.Target, 300),
		When:      m.Started.UTC().Format("2 January 2006, 15:04 UTC"),
		Verdict:   verdict(d),
		Tiles:     tiles(d),
		Estimates: estimates(d),
		Validity:  validity(d),
		Notes:     clipped(d.Notes),
		Facts:     facts(m),
		Command:   format.Command(m.Command...),
		Survey:    m.Kind == record.KindSurvey,
		Kinds:     kinds(run),
		File: fmt.Sprintf("plimsoll-%s-%s.json",
			plainName(m.Kind), m.Started.UTC().Format("20060102-150405")),
	}
	v.Title = v.Heading + " of " + v.Subject
	if d.Result != nil {
		v.NotMeasured = clipped(d.Result.NotMeasured)
	}
	if d.Diagnosis != nil {
		line := 0.0
		if d.Result != nil && d.Result.Line.Found {
			line = d.Result.Line.Interval.Estimate
		}
		v.Diagnosis = diagnosisView(d.Diagnosis, line)
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		v.Steps = append(v.Steps, stepRow(s))
		v.Rates = v.Rates || s.Rate != d.Steps[0].Rate
		v.Saturated = v.Saturated || s.Use.Target != nil || s.Use.Host != nil ||
			s.Use.Generator != nil
		for _, f := range s.Failures {
			v.Failures = append(v.Failures, FailureRow{
				s.Number,
				number(s.Rate),
				strings.ReplaceAll(f.Kind, "_", " "),
				number(float64(f.Count)),
				f.Example,
			})
		}
	}
	return v
}

func heading(kind string) string {
	if kind == "load" {
		return "Load run"
	}
	return "Load survey"
}

// plainName keeps the characters of a name that are safe in a file name.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, clip(s, 20))
}

func clipped(texts []string) (out []string) {
	const most = 50
	for i, s := range texts {
		if i == most {
			return append(out, fmt.Sprintf("and %d more", len(texts)-most))
		}
		out = append(out, clip(s, 600))
	}
	return out
}

func tiles(d *Data) []Tile {
	r := d.Result
	if r == nil || d.Manifest.Kind != record.KindSurvey {
		return nil
	}
	peak := Tile{"Peak goodput", "Not seen", "", clip(r.Peak.Why, 200)}
	if r.Peak.Found {
		peak = Tile{
			"Peak goodput",
			number(r.Peak.Goodput),
			"/s",
			"at " + number(r.Peak.Rate.Estimate) + " offered a second",
		}
	}
	falls := Tile{"Collapse", "Not seen", "", clip(r.Collapse.Why, 200)}
	if r.Collapse.Found {
		falls = Tile{
			"Collapse",
			number(r.Collapse.Rate.Estimate),
			"/s",
			"goodput falls beyond; between " + rangeOf(r.Collapse.Rate),
		}
	}
	recovery := Tile{"Recovery", "Not tested", "", clip(r.Recovery.Why, 200)}
	if r.Recovery.Tested && r.Recovery.Recovered {
		recovery.Value, recovery.Unit = short(r.Recovery.After), "s"
	} else if r.Recovery.Tested {
		recovery.Value = "None"
	}
	return []Tile{peak, falls, recovery, predicted(r)}
}

func predicted(r *record.Result) Tile {
	if len(r.Model.Predictions) == 0 {
		return Tile{"The model predicted", "Nothing", "", "there was no prediction in this run"}
	}
	p := r.Model.Predictions[0]
	t := Tile{
		"The model predicted",
		number(p.Line.Estimate),
		"/s",
		"knowing rates up to " + number(p.Upto) + " only",
	}
	if p.Measured.Estimate > 0 {
		t.Note = signed(p.Error) + " from the line; it knew rates up to " + number(p.Upto)
	}
	return t
}

func validity(d *Data) (all []Check) {
	r := d.Result
	if r == nil {
		return nil
	}
	for _, c := range r.Validity {
		all = append(all, Check{c.OK, clip(c.What, 300), clip(c.Why, 600)})
	}
	if n := r.Noise; n.Measured {
		all = append(all, Check{
			true,
			"The noise floor is known",
			fmt.Sprintf("two equal steps differed by %s in p50, %s in p99, %s in goodput and %s "+
				"in processor time",
				format.Percent(n.P50), format.Percent(n.P99), format.Percent(n.Goodput),
				format.Percent(n.CPU)),
		})
	}
	return append(all, physics(r.Model.Checks)...)
}

// physics sums up the checks of each law and names the breaches.
func physics(checks []model.Check) (all []Check) {
	var laws []string
	for _, c := range checks {
		if !slices.Contains(laws, c.Law) {
			laws = append(laws, c.Law)
		}
	}
	for _, law := range laws {
		held, broken := 0, []string{}
		for _, c := range checks {
			if c.Law != law {
				continue
			}
			if !c.Breach {
				held++
			} else if len(broken) < 6 {
				broken = append(broken, fmt.Sprintf("step %d: %s", c.Step, clip(c.Sentence, 300)))
			}
		}
		what := fmt.Sprintf("%s held in %d of %d steps", lawName(law), held, countLaw(checks, law))
		all = append(all, Check{len(broken) == 0, what, strings.Join(broken, "; ")})
	}
	return all
}

func countLaw(checks []model.Check, law string) (n int) {
	for _, c := range checks {
		if c.Law == law {
			n++
		}
	}
	return n
}

func lawName(law string) string {
	switch law {
	case "Little":
		return "Little's law"
	case "utilization":
		return "The utilization law"
	}
	return clip(law, 60)
}

func facts(m *record.Manifest) []Fact {
	all := []Fact{
		{"Target", clip(m.Target, 600)},
		{"SLO", clip(m.SLO, 300)},
		{"Mix", clip(m.Mix, 600)},
		{"Tool", clip(m.Tool, 100)},
	}
	where := "on another machine"
	if m.Machine.TargetLocal {
		where = "on this machine, sharing its cores with the generator"
		if m.Machine.Apart {
			where = "on this machine, and the generators on others"
		}
	}
	all = append(all, Fact{"Generator ran on", clip(machine(&m.Machine), 300)},
		Fact{"Target ran", where})
	names := make([]string, 0, len(m.Settings))
	for name := range m.Settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), 60)] {
		all = append(all, Fact{clip(name, 60), clip(m.Settings[name], 300)})
	}
	return slices.DeleteFunc(all, func(f Fact) bool { return f.Value == "" })
}

func stepRow(s *Step) StepRow {
	row := StepRow{
		Number:  s.Number,
		Phase:   clip(s.Phase, 30),
		Tone:    tone(s.Verdict),
		Verdict: string(s.Verdict),
		Because: clip(s.Because, 300),
		Why:     clip(s.Why, 300),
	}
	if s.Invalid != "" && (s.Verdict == "" || s.Verdict == record.Invalid) {
		row.Because = clip(s.Invalid, 300)
	}
	if row.Verdict == "" {
		row.Verdict = "–"
	}
	ns := func(v *int64) Cell {
		if v == nil {
			return Cell{latency(v), math.MaxInt64}
		}
		return Cell{latency(v), float64(*v)}
	}
	share := func(v *float64) Cell {
		if v == nil {
			return Cell{"–", -1}
		}
		return Cell{format.Percent(*v), *v}
	}
	per := Cell{"–", -1}
	if p := s.Use.PerRequest; p != nil {
		per = Cell{format.Duration(*p * 1e9), *p}
	}
	row.Cells = []Cell{
		{number(s.Rate), s.Rate},
		{number(s.Goodput.Estimate), s.Goodput.Estimate},
		ns(s.P50),
		ns(s.P90),
		ns(s.P99),
		ns(s.P999),
		{format.Duration(float64(s.Max)), float64(s.Max)},
		{format.Percent(s.Errors), s.Errors},
		{number(s.Concurrency), s.Concurrency},
		share(s.Use.Target),
		per,
		share(s.Use.Generator),
		{format.Duration(float64(s.LagP99)), float64(s.LagP99)},
		{number(float64(s.Connections)), float64(s.Connections)},
		{short(s.Seconds), s.Seconds},
	}
	return row
}

// kinds adds up the outcomes of each kind of request of the mix, over the steps that are not
// INVALID.
func kinds(run *record.Run) (rows []KindRow) {
	var names []string
	sums := map[string]*measure.Totals{}
	total := 0.0
	for i := range run.Steps {
		if run.Steps[i].Totals.Generator.Invalid != "" {
			continue
		}
		for _, r := range run.Steps[i].Totals.Requests {
			if sums[r.Name] == nil {
				if len(names) == 100 {
					continue
				}
				names = append(names, r.Name)
				sums[r.Name] = &measure.Totals{}
			}
			t := sums[r.Name]
			t.Ended.Add(&r.Ended)
			t.Response = measure.Merged(&t.Response, &r.Response)
			total += float64(r.Ended.Total())
		}
	}
	for _, name := range names {
		t := sums[name]
		n := float64(t.Ended.Total())
		if n == 0 {
			continue
		}
		rows = append(rows, KindRow{
			clip(name, 200),
			number(n),
			format.Percent(n / total),
			format.Percent(float64(t.Ended.Failed()) / n),
			latency(quantile(t, .5)),
			latency(quantile(t, .99)),
		})
	}
	return rows
}
