//go:build !race

package experiment_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"plimsoll/internal/lab/experiment"
	"plimsoll/internal/lab/stats"
)

// machine is a simulated one: each start of a service has a level of its own (2 %, and 5 % in the
// tail), and the machine drifts from round to round.
type machine struct {
	rng    *rand.Rand
	rounds int
	drift  float64 // how far the level wanders in a round, as a standard deviation
}

// noise is how much the figures scatter from run to run.
var noise = map[string]float64{"goodput": .02, "p50": .02, "p99": .05, "cpu_per_request": .015}

var judged = []experiment.Figure{
	{Name: "goodput", Unit: "/s", Up: "more", Down: "less", Better: "more"},
	{Name: "p50", Unit: "s", Up: "slower", Down: "faster", Better: "faster"},
	{Name: "p99", Unit: "s", Up: "slower", Down: "faster", Better: "faster"},
	{Name: "cpu_per_request", Unit: "s", Up: "more", Down: "less", Better: "less"},
}

func manifest(rounds int, values ...string) experiment.Manifest {
	m := experiment.Manifest{SchemaVersion: experiment.SchemaVersion, Name: "simulated",
		Variable: "what", Figures: judged, Repeat: rounds, Alpha: .05, Relevant: .01}
	for _, v := range values {
		m.Values = append(m.Values, experiment.Value{Name: v, Value: v})
	}
	return m
}

// run does an experiment in which each figure of each value is changed by a factor.
func (m *machine) run(factor func(value, figure string) float64, values ...string) *experiment.Record {
	r := &experiment.Record{Manifest: manifest(m.rounds, values...)}
	level := 0.0
	for round := 1; round <= m.rounds; round++ {
		level += m.drift * m.rng.NormFloat64()
		for turn, i := range m.rng.Perm(len(values)) {
			run := experiment.Run{Round: round, Turn: turn + 1, Value: values[i], Figures: map[string]float64{}}
			own := m.rng.NormFloat64()
			for _, f := range judged {
				// Figures of a run hang together: half of their scatter is that of the run.
				scatter := noise[f.Name] * (math.Sqrt(.5)*own + math.Sqrt(.5)*m.rng.NormFloat64())
				run.Figures[f.Name] = 1000 * factor(values[i], f.Name) * math.Exp(level+scatter)
			}
			r.Runs = append(r.Runs, run)
		}
	}
	return r
}

func alike(string, string) float64 { return 1 }

func TestOfPairsThatAreAlikeAtMostFiveInAHundredExperimentsSeeADifference(t *testing.T) {
	for _, c := range []struct {
		name        string
		experiments int
		drift       float64
		values      []string
	}{
		{"a pair", 400, .01, []string{"a", "b"}},
		{"a pair on a machine that wanders", 400, .05, []string{"a", "b"}},
		{"four values", 1000, .01, []string{"a", "b", "c", "d"}},
	} {
		m := &machine{rng: rand.New(rand.NewPCG(1, 2)), rounds: 10, drift: c.drift}
		wrong := 0
		for range c.experiments {
			if experiment.Analyse(m.run(alike, c.values...), "").Real > 0 {
				wrong++
			}
		}
		if wrong > c.experiments*5/100 {
			t.Errorf("%s: %d of %d experiments call a difference real that is not", c.name, wrong, c.experiments)
		}
	}
}

// found is in how many of so many experiments a slowdown of b is called real, and right in its
// direction.
func found(m *machine, experiments int, slowdown float64, figure string) int {
	right := 0
	for range experiments {
		r := experiment.Analyse(m.run(func(value, f string) float64 {
			if value == "b" && f == figure {
				return slowdown
			}
			return 1
		}, "a", "b"), "")
		for _, f := range r.Figures {
			if f.Name == figure && f.Comparisons[0].Verdict == experiment.Real &&
				f.Comparisons[0].Better != nil && !*f.Comparisons[0].Better {
				right++
			}
		}
	}
	return right
}

func TestASlowdownOfFivePercentIsFoundNineTimesInTen(t *testing.T) {
	for _, drift := range []float64{0, .01, .05} {
		m := &machine{rng: rand.New(rand.NewPCG(3, 4)), rounds: 10, drift: drift}
		if n := found(m, 300, 1/1.05, "goodput"); n < 270 {
			t.Errorf("with a drift of %v: found in %d of 300 experiments, want 270", drift, n)
		}
		if n := found(m, 300, 1.05, "p50"); n < 270 {
			t.Errorf("with a drift of %v, in p50: found in %d of 300 experiments, want 270", drift, n)
		}
	}
}

// This is why rounds are blocks: it costs next to nothing where nothing drifts, and finds what a
// drift hides from a test of all runs together.
func TestComparingWithinRoundsSeesWhatADriftHidesElsewhere(t *testing.T) {
	const experiments = 200
	for _, c := range []struct {
		drift               float64
		within, mostWithout int
	}{{0, 190, 200}, {.05, 190, 120}} {
		within, without := blocked(&machine{rng: rand.New(rand.NewPCG(5, 6)), rounds: 10, drift: c.drift}, experiments)
		if within < c.within || without > c.mostWithout {
			t.Errorf("with a drift of %v, of %d experiments %d see the difference within rounds "+
				"and %d without them; want %d at least and %d at most",
				c.drift, experiments, within, without, c.within, c.mostWithout)
		}
	}
}

// blocked is how many of so many experiments see 5 % in one figure with the signed ranks of rounds,
// and with Mann and Whitney's test without them.
func blocked(m *machine, experiments int) (within, without int) {
	for range experiments {
		r := m.run(func(value, _ string) float64 {
			if value == "b" {
				return 1 / 1.05
			}
			return 1
		}, "a", "b")
		var a, b, d []float64
		for round := 1; round <= m.rounds; round++ {
			now := map[string]float64{}
			for _, run := range r.Runs {
				if run.Round == round {
					now[run.Value] = math.Log(run.Figures["goodput"])
				}
			}
			a, b, d = append(a, now["a"]), append(b, now["b"]), append(d, now["b"]-now["a"])
		}
		if stats.SignedRank(d) < .05 {
			within++
		}
		if stats.MannWhitney(a, b) < .05 {
			without++
		}
	}
	return within, without
}

func TestTheSmallestDetectableDifferenceIsDetected(t *testing.T) {
	m := &machine{rng: rand.New(rand.NewPCG(7, 8)), rounds: 12, drift: .02}
	var said []float64
	for range 200 {
		for _, f := range experiment.Analyse(m.run(alike, "a", "b"), "").Figures {
			if f.Name == "goodput" {
				said = append(said, f.Comparisons[0].Detectable)
			}
		}
	}
	usual := stats.Median(said)
	if n := found(m, 300, 1/(1+usual), "goodput"); n < 240 || usual > .08 {
		t.Errorf("%.1f %% is said to be detectable, and %d of 300 experiments find it; want 240 "+
			"at least, and not by saying too much", 100*usual, n)
	}
}

func TestTooFewRoundsSaySoAndCallNothingReal(t *testing.T) {
	m := &machine{rng: rand.New(rand.NewPCG(9, 10)), rounds: 4}
	r := experiment.Analyse(m.run(func(value, _ string) float64 {
		if value == "b" {
			return 2
		}
		return 1
	}, "a", "b"), "")
	if r.Real != 0 || r.Needed != 8 || !strings.Contains(strings.Join(r.Notes, "\n"),
		"with 4 rounds no difference can be called real; 8 are needed") {
		t.Errorf("real: %d, needed %d, notes %q", r.Real, r.Needed, r.Notes)
	}
	if c := r.Figures[0].Comparisons[0]; c.Verdict != experiment.TooFew ||
		c.Says != "cannot be determined: 4 rounds with both, and it takes 8" {
		t.Errorf("the verdict is %q: %s", c.Verdict, c.Says)
	}
}

// by makes runs of one figure by hand: rows are rounds, columns the values.
func by(figure experiment.Figure, rows [][]float64, values ...string) *experiment.Record {
	r := &experiment.Record{Manifest: manifest(len(rows), values...)}
	r.Manifest.Figures = []experiment.Figure{figure}
	for i, row := range rows {
		for j, v := range row {
			run := experiment.Run{Round: i + 1, Turn: j + 1, Value: values[j], Figures: map[string]float64{figure.Name: v}}
			if math.IsNaN(v) {
				run.Figures, run.Failed, run.Output = nil, "the service was not ready within 10s", "panic: no"
			}
			r.Runs = append(r.Runs, run)
		}
	}
	return r
}

func TestVerdictsSayWhatTheyMean(t *testing.T) {
	p99, errors := judged[2], experiment.Figure{Name: "errors", Unit: "share", Up: "more", Down: "less", Better: "less"}
	no := math.NaN()
	rows := func(f func(i float64) []float64) (all [][]float64) {
		for i := range 10 {
			all = append(all, f(float64(i)))
		}
		return all
	}
	for _, c := range []struct {
		name    string
		figure  experiment.Figure
		rows    [][]float64
		verdict experiment.DifferenceVerdict
		says    string
	}{
		{"clearly slower", p99, rows(func(i float64) []float64 {
			return []float64{10 + i,
				(10 + i) * (1.12 + i/1e4)}
		}), experiment.Real, "real: 12 % slower"},
		{"clearly faster", p99, rows(func(i float64) []float64 {
			return []float64{10 + i,
				(10 + i) * (.95 + i/1e4)}
		}), experiment.Real, "real: 5.0 % faster"},
		{"a hair slower", p99, rows(func(i float64) []float64 { return []float64{10 + i, (10 + i) * (1.004 + i/1e5)} }), experiment.Small,
			"real, but too small to matter: 0.4 % slower"},
		{"now more, now less, by nothing", p99,
			rows(func(i float64) []float64 { return []float64{10, 10 + .001*math.Pow(-1, i)} }),
			experiment.Same,
			"the same, as far as it matters"},
		{"now more, now less", p99, rows(func(i float64) []float64 {
			return []float64{10, 10 +
				(1+i/10)*math.Pow(-1, i)}
		}), experiment.NotSeen,
			"no difference seen; one of"},
		{"equal", p99, rows(func(float64) []float64 { return []float64{10, 10} }), experiment.Same, "the same"},
		{"errors where there were none", errors, rows(func(i float64) []float64 { return []float64{0, .02 + i/1e4} }), experiment.Real,
			"real: 2 percentage points more"},
		{"one that failed too often", p99, rows(func(i float64) []float64 {
			if i > 3 {
				return []float64{10 + i, no}
			}
			return []float64{10 + i, 20 + i}
		}), experiment.TooFew, "cannot be determined: 4 rounds with both, and it takes 6"},
	} {
		r := experiment.Analyse(by(c.figure, c.rows, "a", "b"), "")
		got := r.Figures[0].Comparisons[0]
		if got.Verdict != c.verdict || !strings.HasPrefix(got.Says, c.says) {
			t.Errorf("%s: %q, %q; want %q, %q", c.name, got.Verdict, got.Says, c.verdict, c.says)
		}
		if got.Verdict == experiment.Real && (got.Low > got.Shift || got.Shift > got.High || got.Low <= 0 && got.High >= 0) {
			t.Errorf("%s: the interval %v to %v does not go with a real difference of %v", c.name, got.Low, got.High, got.Shift)
		}
	}
}

func TestAValueThatFailedIsMarkedAndTheOthersAreCompared(t *testing.T) {
	var rows [][]float64
	for i := range 8 {
		rows = append(rows, []float64{10 + float64(i), math.NaN(), 13 + float64(i)*1.3})
	}
	r := experiment.Analyse(by(judged[2], rows, "a", "b", "c"), "")
	if v := r.Values[1]; v.Failures != 8 || v.Runs != 0 ||
		!strings.Contains(v.Why, "round 8: the service was not ready") || v.Output != "panic: no" {
		t.Errorf("the value that failed: %+v", v)
	}
	if c := r.Figures[0].Comparisons; len(c) != 1 || c[0].Value != "c" || c[0].Verdict != experiment.Real || r.Tests != 1 {
		t.Errorf("the others: %+v", c)
	}
	if r.Figures[0].Medians[1] != nil || r.Figures[0].Medians[0] == nil {
		t.Errorf("medians: %v", r.Figures[0].Medians)
	}
}

func TestEachIsComparedWithEachWhenThatWasAsked(t *testing.T) {
	m := &machine{rng: rand.New(rand.NewPCG(11, 12)), rounds: 10}
	record := m.run(alike, "a", "b", "c", "d")
	record.Manifest.AllPairs = true
	r := experiment.Analyse(record, "")
	if n := len(r.Figures[0].Comparisons); n != 6 || r.Tests != 24 {
		t.Errorf("%d comparisons, %d tests; want 6 and 24", n, r.Tests)
	}
}

func TestEachIsComparedWithTheOneBeforeItWhenThatWasAsked(t *testing.T) {
	m := &machine{rng: rand.New(rand.NewPCG(13, 14)), rounds: 12}
	record := m.run(func(value, figure string) float64 {
		// The second step brings something, and the third keeps it.
		if figure == "goodput" && value >= "c" {
			return 1.5
		}
		return 1
	}, "a", "b", "c", "d")
	record.Manifest.Previous = true
	r := experiment.Analyse(record, "")
	got := r.Figures[0].Comparisons
	if len(got) != 3 || r.Tests != 12 || r.Real != 1 {
		t.Fatalf("%d comparisons, %d tests, %d real; want 3, 12 and 1", len(got), r.Tests, r.Real)
	}
	for i, c := range got {
		if want := []string{"a", "b", "c"}[i]; c.Than != want || (c.Verdict == experiment.Real) != (c.Value == "c") {
			t.Errorf("%s against %s: %s", c.Value, c.Than, c.Says)
		}
	}
}

func TestFiguresAtTheEndOfWhatThereIsAreJudgedToo(t *testing.T) {
	printed := experiment.Figure{Name: "command.x", Up: "more", Down: "less"}
	for _, c := range []struct {
		name          string
		before, after float64
	}{
		{"from nothing to everything", 1e-300, 1e100},
		{"from everything to nothing", 1e100, 1e-300},
		{"a small one and a large one", 1e-99, 1e100},
		{"from the least to the most", -1e100, 1e100},
	} {
		var rows [][]float64
		for i := range 10 {
			rows = append(rows, []float64{c.before, c.after * (1 - float64(i)/100)})
		}
		r := experiment.Analyse(by(printed, rows, "a", "b"), "")
		if _, err := json.Marshal(r); err != nil || r.Figures[0].Comparisons[0].Verdict != experiment.Real {
			t.Errorf("%s: %+v (%v)", c.name, r.Figures[0].Comparisons[0], err)
		}
	}
}
