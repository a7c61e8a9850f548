package diagnose

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// base is the evidence of a healthy service on two cores whose bottleneck is the processor. Each
// case of testdata/rules changes some of it.
const base = `
	all host.cores = 2
	all host.cpu.busy_seconds += .5
	half host.cpu.busy_seconds += .9
	at-line host.cpu.busy_seconds += 1.8
	over host.cpu.busy_seconds += 2
	all target.cpu.seconds += .4
	half target.cpu.seconds += .75
	at-line target.cpu.seconds += 1.5
	over target.cpu.seconds += 1.6
	all service 5ms
	at-line service 12ms
	over service 60ms
`

// stages are the steps of a fixture, in order: a name, the phase it is recorded under, and the
// rate.
var stages = []struct {
	name, phase string
	rate        float64
}{
	{"before", "noise", 400},
	{"half", measure.PhaseHalf, 500},
	{"at-line", measure.PhaseAtLine, 1000},
	{"over", measure.PhaseOverload, 1400},
	{"after", measure.PhaseRecovery, 400},
}

// fixture is a run, described by a text line by line:
//
//	STAGE NAME = VALUE           a gauge; STAGE is before, half, at-line, over, after, or all
//	STAGE NAME = FROM to VALUE   a gauge that changes over the step
//	STAGE NAME += VALUE          a counter that grows by VALUE per second
//	STAGE service DURATION       how long each request takes
//	STAGE failed KIND SHARE      the share of the requests that end in this way
//	STAGE goodput RATE           requests that end well, per second
//	STAGE answers BYTES          what the generator received for each request that ended well
//	STAGE peak N                 the most requests that were under way at once
//	STAGE connections RATE       connections that are made, per second
//	STAGE kept N                 the number of connections that the generator keeps
//	STAGE generator REASON       the generator was the limit
//	STAGE loops N USED           it had N loops, which used USED processors together
//	STAGE profile KIND UNIT VALUE LEAF < CALLER < … < ROOT     a stack
//	no line                      the survey found none
type fixture struct {
	steps    map[string]*measure.Step
	gauges   map[string]map[string][2]float64
	counters map[string]map[string]float64
	profiles map[string]map[string]*profile.Profile
	noLine   bool
	workers  int // of a station that the survey predicted the line from; 0 is none
}

const fixtureSeconds = 4

func newFixture(t *testing.T, lines ...string) *fixture {
	t.Helper()
	f := &fixture{
		map[string]*measure.Step{}, map[string]map[string][2]float64{},
		map[string]map[string]float64{}, map[string]map[string]*profile.Profile{}, false, 0,
	}
	for i, s := range stages {
		step := &measure.Step{
			Plan: measure.StepPlan{
				Number:   i + 1,
				Phase:    s.phase,
				Rate:     s.rate,
				Arrivals: "poisson",
				Length:   fixtureSeconds * 1e9,
				Why:      s.name,
			},
			Began: time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC),
		}
		step.Totals.Length = step.Plan.Length
		step.Totals.Ended[measure.OK] = uint64(s.rate * fixtureSeconds)
		f.steps[s.name] = step
		f.gauges[s.name] = map[string][2]float64{}
		f.counters[s.name] = map[string]float64{}
		f.profiles[s.name] = map[string]*profile.Profile{}
	}
	for _, line := range lines {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if line == "no line" {
			f.noLine = true
			continue
		}
		stage, rest, _ := strings.Cut(line, " ")
		if stage == "station" {
			workers, err := strconv.Atoi(rest)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			f.workers = workers
			continue
		}
		for _, s := range stages {
			if stage == s.name || stage == "all" {
				if err := f.set(s.name, strings.Fields(rest)); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
		}
		if stage != "all" && f.steps[stage] == nil {
			t.Fatalf("%q: there is no stage %q", line, stage)
		}
	}
	return f
}

func (f *fixture) set(stage string, words []string) error {
	step := f.steps[stage]
	// A thread's name has spaces.
	if i := slices.IndexFunc(words, func(w string) bool { return w == "=" || w == "+=" }); i > 1 {
		words = append([]string{strings.Join(words[:i], " ")}, words[i:]...)
	}
	last := words[len(words)-1]
	value, numeric := strconv.ParseFloat(last, 64)
	switch {
	case words[0] == "service":
		d, err := time.ParseDuration(last)
		var h measure.Histogram
		for range step.Totals.Ended[measure.OK] {
			h.Record(d.Nanoseconds())
		}
		step.Totals.Response, step.Totals.Service = h.Sparse(), h.Sparse()
		return err
	case words[0] == "generator":
		step.Totals.Generator.Invalid = strings.Join(words[1:], " ")
		return nil
	case words[0] == "profile":
		return f.stack(stage, words[1:])
	case numeric != nil:
		return numeric
	case words[0] == "loops":
		loops, err := strconv.Atoi(words[1])
		step.Totals.Generator.Loops = loops
		step.Totals.Generator.CPU = int64(value * float64(step.Totals.Length))
		return err
	case words[0] == "goodput":
		step.Totals.Ended[measure.OK] = uint64(value * fixtureSeconds)
	case words[0] == "answers":
		step.Totals.BytesIn = uint64(value * float64(step.Totals.Ended[measure.OK]))
	case words[0] == "kept":
		step.Plan.Connections = int(value)
	case words[0] == "peak":
		step.Totals.Peak = int(value)
	case words[0] == "connections":
		step.Totals.ConnectionsMade = uint64(value * fixtureSeconds)
	case words[0] == "closing":
		step.Totals.Closing = uint64(value * fixtureSeconds)
	case words[0] == "failed":
		for k := range measure.Kinds {
			if measure.Kind(k).String() == words[1] {
				step.Totals.Ended[k] = uint64(value * float64(step.Totals.Ended[measure.OK]))
			}
		}
	case words[1] == "+=":
		f.counters[stage][words[0]] = value
	case words[1] == "=" && len(words) == 5:
		from, err := strconv.ParseFloat(words[2], 64)
		f.gauges[stage][words[0]] = [2]float64{from, value}
		return err
	case words[1] == "=":
		f.gauges[stage][words[0]] = [2]float64{value, value}
	default:
		return fmt.Errorf("not understood")
	}
	return nil
}

// stack adds a stack to a profile: KIND UNIT VALUE LEAF < … < ROOT.
func (f *fixture) stack(stage string, words []string) error {
	kind, unit := words[0], words[1]
	value, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return err
	}
	name := map[string]string{
		"cpu":       "cpu",
		"mutex":     "delay",
		"block":     "delay",
		"goroutine": "goroutine",
		"allocs":    "alloc_space",
	}[kind]
	p := f.profiles[stage][kind]
	if p == nil {
		p = &profile.Profile{
			SampleType:    []*profile.ValueType{{Type: name, Unit: unit}},
			DurationNanos: fixtureSeconds * 1e9,
		}
		f.profiles[stage][kind] = p
	}
	sample := &profile.Sample{Value: []int64{value}}
	for _, function := range strings.Split(strings.Join(words[3:], " "), " < ") {
		id := uint64(len(p.Function) + 1)
		name, file, known := strings.Cut(function, "@")
		if !known {
			file = "x/y.go"
		}
		fn := &profile.Function{ID: id, Name: name, Filename: file}
		l := &profile.Location{ID: id, Line: []profile.Line{{Function: fn, Line: int64(id)}}}
		p.Function, p.Location = append(p.Function, fn), append(p.Location, l)
		sample.Location = append(sample.Location, l)
	}
	p.Sample = append(p.Sample, sample)
	return nil
}

var fixtureManifest = record.Manifest{
	Kind:    "survey",
	Target:  "http://127.0.0.1/",
	SLO:     "p99<50ms",
	Started: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	Machine: record.Machine{TargetLocal: true},
}

// folder returns a new folder, in memory if Linux has a file system there. A run's files are synced
// one by one, which would take most of the time of these tests on a disk.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "diagnose-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// open writes the run directory, and reads it like any other.
func (f *fixture) open(t *testing.T) *record.Run {
	t.Helper()
	dir := filepath.Join(folder(t), "run")
	w, err := record.Create(dir, fixtureManifest)
	if err != nil {
		t.Fatal(err)
	}
	result := &record.Result{
		Line: record.Line{
			Found:    !f.noLine,
			Interval: model.Interval{Low: 980, Estimate: 1000, High: 1020, Confidence: .95},
		},
	}
	if f.noLine {
		result.Line.Interval = model.Interval{Low: 1000}
	}
	for _, s := range stages {
		step := f.steps[s.name]
		for i := range fixtureSeconds * 4 {
			share := float64(i) / (fixtureSeconds*4 - 1)
			values := map[string]float64{}
			for name, g := range f.gauges[s.name] {
				values[name] = g[0] + share*(g[1]-g[0])
			}
			for name, perSecond := range f.counters[s.name] {
				values[name] = 100 + perSecond*float64(i)/4
			}
			step.Samples = append(step.Samples, measure.Sample{
				At:     int64(i) * 250e6,
				Values: values,
			})
		}
		step.Profiles = map[string][]byte{}
		for kind, p := range f.profiles[s.name] {
			var out bytes.Buffer
			if err := p.Write(&out); err != nil {
				t.Fatal(err)
			}
			step.Profiles[kind] = out.Bytes()
		}
		if err := w.Step(step); err != nil {
			t.Fatal(err)
		}
		verdict := record.Pass
		if step.Totals.Generator.Invalid != "" {
			verdict = record.Invalid
		}
		result.Judgements = append(result.Judgements, record.Judgement{
			Step:    step.Plan.Number,
			Rate:    step.Plan.Rate,
			Verdict: verdict,
		})
	}
	if f.workers > 0 {
		p := model.Prediction{
			Line:  result.Line.Interval,
			Limit: "workers",
			Station: &model.Station{
				Workers:     f.workers,
				WorkersLow:  f.workers,
				WorkersHigh: f.workers + 1,
				Service:     .004,
			},
		}
		model.Score(&p, result.Line.Interval)
		result.Model.Predictions = []model.Prediction{p}
	}
	if err := w.Result(result); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// The cases of a rule. All of them measure what the rule needs, so that a rule which is not judged
// does not pass as quiet.
const (
	caseFires = "fires"
	caseQuiet = "does not fire"
	caseHeld  = "is held back"
)

// TestEveryRule takes each rule through the cases of testdata/rules/NAME.txt. A case is a heading
// and indented lines: the differences from the base, and "says TEXT", which the claim, or the
// reason for holding it back, must contain.
func TestEveryRuleFiresOnItsEvidenceAndIsHeldBackByWhatSpeaksAgainstIt(t *testing.T) {
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "rules", rule.Name+".txt"))
			if err != nil {
				t.Fatalf("a rule needs its evidence: %v", err)
			}
			cases := casesOf(t, string(text))
			for _, heading := range []string{caseFires, caseQuiet, caseHeld} {
				if cases[heading] == nil {
					t.Errorf("there is no case %q", heading)
					continue
				}
				t.Run(heading, func(t *testing.T) { try(t, &rule, heading, cases[heading]) })
			}
		})
	}
}

func casesOf(t *testing.T, text string) map[string][]string {
	cases, heading := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case line[0] != '\t':
			heading = line
			if heading != caseFires && heading != caseQuiet && heading != caseHeld {
				t.Fatalf("no case is called %q", heading)
			}
		default:
			cases[heading] = append(cases[heading], line[1:])
		}
	}
	return cases
}

func try(t *testing.T, rule *Rule, heading string, lines []string) {
	says := ""
	for i, line := range lines {
		if text, ok := strings.CutPrefix(line, "says "); ok {
			says = text
			lines = slices.Delete(slices.Clone(lines), i, i+1)
			break
		}
	}
	d := Run(newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t))
	at := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Rule == rule.Name })
	held := slices.IndexFunc(d.HeldBack, func(h HeldBack) bool { return h.Rule == rule.Name })
	for _, n := range d.NotJudged {
		if n.Rule == rule.Name {
			t.Fatalf("not judged: %s", n.Missing)
		}
	}
	switch {
	case heading == caseFires && at < 0:
		t.Errorf("it does not fire; found %+v, held back %+v", names(d), d.HeldBack)
	case heading == caseFires:
		f := d.Findings[at]
		if !strings.Contains(f.Claim, says) || says == "" {
			t.Errorf("it claims %q, want %q", f.Claim, says)
		}
		if len(f.Evidence) == 0 || len(f.Advice) == 0 || f.Verify.Text == "" || f.Gain.Factor < 1 ||
			f.Gain.Low > f.Gain.Factor || f.Gain.High < f.Gain.Factor || f.Gain.Why == "" ||
			f.Confidence <= 0 || f.Confidence > 1 || f.Evidence[0].Threshold == "" {
			t.Errorf("the finding lacks something: %+v", f)
		}
	case heading == caseQuiet && (at >= 0 || held >= 0):
		t.Errorf("it fires: %+v %+v", names(d), d.HeldBack)
	case heading == caseHeld && (at >= 0 || held < 0):
		t.Errorf("it is not held back: found %+v, held back %+v", names(d), d.HeldBack)
	case heading == caseHeld && (!strings.Contains(d.HeldBack[held].Why, says) || says == ""):
		t.Errorf("it is held back as %q, want %q", d.HeldBack[held].Why, says)
	}
}

func names(d *Diagnosis) (all []string) {
	for _, f := range d.Findings {
		all = append(all, f.Rule)
	}
	return all
}

func TestAHealthyServiceHasNoFindingAndIsToldItsBottleneck(t *testing.T) {
	d := Run(newFixture(t, strings.Split(base, "\n")...).open(t))
	if len(d.Findings) != 0 || len(d.HeldBack) != 0 ||
		d.First.What != hostProcessor && d.First.What != targetProcessor || d.First.Share < .7 {
		t.Errorf("%+v", d)
	}
}

func TestAProfileThatCannotBeReadIsSaidAndTheRestIsJudged(t *testing.T) {
	run := newFixture(t, append(strings.Split(base, "\n"),
		"at-line profile cpu nanoseconds 1000000 main.a < main.main")...).open(t)
	if err := os.WriteFile(filepath.Join(run.Dir, "steps", "0003", "cpu.pb.gz"), []byte("<html>"),
		0o644); err != nil {
		t.Fatal(err)
	}
	d := Run(run)
	at := slices.IndexFunc(d.NotJudged, func(n NotJudged) bool {
		return strings.Contains(n.Missing, "the cpu profile of step 3")
	})
	if at < 0 || d.First.What == "unknown" {
		t.Errorf("%+v", d)
	}
}

func TestAGeneratorThatWasTheLimitFromTheFirstRateOnIsFound(t *testing.T) {
	f := newFixture(t, append(strings.Split(base, "\n"), "no line",
		"all generator the send lag was 3 ms")...)
	run := f.open(t)
	run.Result.Line.Interval = model.Interval{}
	if d := Run(run); len(d.Findings) != 1 || d.Findings[0].Rule != "generator-limit" ||
		d.First.What != "unknown" {
		t.Errorf("%+v", d)
	}
}

func TestWhereThereIsNoLineTheHighestGoodRateStandsForIt(t *testing.T) {
	run := newFixture(t, append(strings.Split(base, "\n"), "no line")...).open(t)
	run.Result.Line.Interval = model.Interval{}
	for i := range run.Result.Judgements {
		if j := &run.Result.Judgements[i]; j.Rate > 1000 {
			j.Verdict = record.Fail
		}
	}
	if e := newEvidence(run); e.Line != 1000 {
		t.Errorf("%v stands for the line; 400, 500 and 1000 passed and 1400 failed", e.Line)
	}
}

func TestTheGeneratorsMachineIsNotTakenForThatOfATargetElsewhere(t *testing.T) {
	run := newFixture(t, append(strings.Split(base, "\n"), "all host.swap.in_bytes += 20000000",
		"all target.cpu.seconds += .2", "all host.cpu.busy_seconds += .4")...).open(t)
	if d := Run(run); len(d.Findings) != 1 {
		t.Fatalf("on the same machine: %v", names(d))
	}
	run.Manifest.Machine.TargetLocal = false
	d := Run(run)
	if len(d.Findings) != 0 ||
		!slices.ContainsFunc(d.NotJudged, func(n NotJudged) bool { return n.Rule == "swapping" }) ||
		d.First.What != "unknown" {
		t.Errorf("elsewhere: %v, %+v", names(d), d.First)
	}
}

func TestARunWithoutAGoodStepSaysSo(t *testing.T) {
	run := newFixture(t, strings.Split(base, "\n")...).open(t)
	run.Steps = run.Steps[:0]
	if d := Run(run); d.First.What != "unknown" || len(d.Findings) != 0 {
		t.Errorf("%+v", d)
	}
}
