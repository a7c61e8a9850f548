package record_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

func manifest() record.Manifest {
	return record.Manifest{
		Kind:     "survey",
		Tool:     "plimsoll 1.0",
		Command:  []string{"plimsoll", "survey", "http://127.0.0.1:8080/<a>"},
		Started:  time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
		Target:   "http://127.0.0.1:8080/<a>",
		SLO:      "p99<50ms",
		Mix:      "GET /",
		Settings: map[string]string{"runs": "5"},
		Machine: record.Machine{
			Host:        "h",
			Cores:       2,
			MemoryBytes: 1 << 34,
			TargetLocal: true,
			TargetPID:   77,
		},
	}
}

func durations(r *rand.Rand, n int) measure.Sparse {
	var h measure.Histogram
	for range n {
		h.Record(int64(r.ExpFloat64() * 3e6))
	}
	return h.Sparse()
}

func step(number, windows int) *measure.Step {
	r := rand.New(rand.NewPCG(uint64(number), 9))
	s := &measure.Step{
		Plan: measure.StepPlan{
			Number:      number,
			Phase:       "bracket",
			Rate:        1234.5,
			Arrivals:    "poisson",
			Length:      int64(windows) * 250e6,
			Settle:      1e9,
			Connections: 64,
			Why:         "between 1000 (passed) and 1500 (failed)",
		},
		Began: time.Date(2026, 1, 2, 3, 4, 5+number, 250e6, time.UTC),
	}
	for i := range windows {
		w := measure.Window{
			Start:    int64(i) * 250e6,
			Length:   250e6,
			Due:      300,
			Sent:     299,
			Waiting:  2,
			InFlight: i,
			BytesIn:  7,
			BytesOut: 8,
			Response: durations(r, 280),
			Service:  durations(r, 280),
			Lag:      durations(r, 10),
		}
		w.Ended[measure.OK], w.Ended[measure.Timeout] = 280, uint64(i)
		s.Windows = append(s.Windows, w)
		s.Samples = append(s.Samples, measure.Sample{
			At:     w.End(),
			Values: map[string]float64{"target.cpu.seconds": float64(i) * .1, "host.cores": 2},
		})
	}
	t := &s.Totals
	t.Length, t.Drain, t.Due, t.Sent = 1e9, 5e6, 1200, 1196
	t.Ended[measure.OK], t.Ended[measure.BadStatus] = 1190, 10
	t.Response, t.Service, t.Lag = durations(r, 1190), durations(r, 1190), durations(r, 40)
	t.ConnectionsMade, t.Reused, t.Peak = 64, 1100, 70
	t.Requests = []measure.RequestTotals{
		{Name: "list, all", Ended: t.Ended, Response: durations(r, 1000)},
		{Name: "buy", Response: durations(r, 0)},
	}
	t.Examples = map[string]string{"bad_status": "HTTP/1.1 503 <busy>"}
	t.ConcurrencyAtSend = []measure.ConcurrencyAtSend{
		{Found: 0, Count: 7, Sum: 1.5e6, Squares: 2.5e12},
		{Found: 255, Count: 1},
	}
	t.Generator = measure.Generator{Loops: 1, CPU: 12e6, Busy: .2}
	return s
}

func result() *record.Result {
	return &record.Result{
		Ended: time.Date(2026, 1, 2, 3, 9, 0, 0, time.UTC),
		Line: record.Line{
			Found:    true,
			Interval: model.Interval{Low: 1880, Estimate: 1905, High: 1930, Confidence: .95},
			Why:      "12 steps",
		},
		Peak: record.Collapse{
			Found:   true,
			Goodput: 2100,
			Rate:    model.Interval{Low: 2000, Estimate: 2100, High: 2200, Confidence: .95},
		},
		Judgements: []record.Judgement{{
			Step:       1,
			Rate:       1234.5,
			Verdict:    record.Pass,
			Objectives: []record.ObjectiveShare{{Objective: "p99<50ms", Allowed: .01}},
		}},
		Model: model.Model{USL: &model.USL{Lambda: model.Interval{Estimate: 4}}},
	}
}

// written makes a run of some steps and a result.
func written(t *testing.T, steps ...*measure.Step) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deep", "run")
	w, err := record.Create(dir, manifest())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if err := w.Step(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Result(result()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, dir string) *record.Run {
	t.Helper()
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARunIsReadAsItWasWritten(t *testing.T) {
	one, two := step(1, 4), step(2, 0)
	two.Totals = measure.Totals{}
	two.Began = time.Time{}
	r := open(t, written(t, one, two))
	m := manifest()
	m.SchemaVersion = record.SchemaVersion
	if d := cmp.Diff(m, r.Manifest); d != "" {
		t.Error(d)
	}
	want := result()
	want.SchemaVersion = record.SchemaVersion
	if d := cmp.Diff(want, r.Result); d != "" {
		t.Error(d)
	}
	if len(r.Notes) != 0 {
		t.Error(r.Notes)
	}
	if len(r.Steps) != 2 {
		t.Fatalf("%d steps", len(r.Steps))
	}
	emptyIsNil := cmp.Transformer("nil", func(c []measure.Cell) []measure.Cell {
		if len(c) == 0 {
			return nil
		}
		return c
	})
	for i, want := range []*measure.Step{one, two} {
		if d := cmp.Diff(*want, r.Steps[i], emptyIsNil); d != "" {
			t.Errorf("step %d: %s", i, d)
		}
	}
}

func TestEveryBucketGoesToAnHDRLogAndComesBack(t *testing.T) {
	var h measure.Histogram
	for i := range measure.Buckets {
		lowest, highest := measure.Bounds(i)
		h.Record(lowest)
		for range i % 3 {
			h.Record(highest)
		}
	}
	s := step(1, 1)
	s.Windows[0].Response = h.Sparse()
	r := open(t, written(t, s))
	if d := cmp.Diff(h.Sparse(), r.Steps[0].Windows[0].Response); d != "" {
		t.Error(d)
	}
}

func TestOtherProgramsReadTheHDRLog(t *testing.T) {
	s := step(1, 3)
	dir := written(t, s)
	f, err := os.Open(filepath.Join(dir, "steps", "0001", "response.hlog"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := hdrhistogram.NewHistogramLogReader(f)
	for i := range s.Windows {
		h, err := in.NextIntervalHistogram()
		if err != nil || h == nil {
			t.Fatal(h, err)
		}
		want := &s.Windows[i]
		if h.TotalCount() != int64(want.Response.Count()) ||
			h.ValueAtQuantile(99) < want.Response.Quantile(.98) || h.SignificantFigures() != 2 {
			t.Errorf("window %d: %d values, p99 %d", i, h.TotalCount(), h.ValueAtQuantile(99))
		}
		if ms := h.EndTimeMs() - h.StartTimeMs(); ms < 249 || ms > 251 {
			t.Errorf("window %d lasts %d ms", i, ms)
		}
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"#[Histogram log format version 1.3]",
		"#[StartTime: 176732304",
		`"StartTimestamp","Interval_Length","Interval_Max"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%.400s", want, text)
		}
	}
}

func TestFilesAreReadableForPeople(t *testing.T) {
	dir := written(t, step(3, 1))
	line, err := os.ReadFile(filepath.Join(dir, "steps.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"ended":{"bad_status":10,"ok":1190}`,
		`"directory":"steps/0003"`,
		`"name":"list, all"`,
		`503 <busy>`,
	} {
		if !bytes.Contains(line, []byte(want)) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	if bytes.Contains(line, []byte("buckets")) {
		t.Error("histograms belong into the HDR logs")
	}
}

func TestADirectoryThatHoldsSomethingIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := record.Create(dir, manifest())
	wantError(t, err, "is not empty", "thesis.txt")
	if _, err := record.Create(filepath.Join(dir, "thesis.txt"), manifest()); err == nil {
		t.Error("a file was taken for a directory")
	}
	if _, err := record.Create(filepath.Join(dir, "thesis.txt", "run"), manifest()); err == nil {
		t.Error("a file was taken for a parent")
	}
}

func TestAStepIsTakenOnce(t *testing.T) {
	w, err := record.Create(filepath.Join(t.TempDir(), "run"), manifest())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Step(step(1, 1)); err != nil {
		t.Fatal(err)
	}
	wantError(t, w.Step(step(1, 1)), "step 1 is in the run already")
	wantError(t, w.Step(step(-1, 1)), "number is 0 to 9999")
	if err := w.Step(step(2, 1)); err != nil {
		t.Fatal("the writer gave up after a step that was refused:", err)
	}
}

func TestAFigureThatIsNotANumberIsNamed(t *testing.T) {
	w, err := record.Create(filepath.Join(t.TempDir(), "run"), manifest())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	bad := result()
	bad.Judgements[0].Objectives[0].Share.High = math.Inf(1)
	wantError(t, w.Result(bad), "Judgements[0].Objectives[0].Share.High is not a finite number")
	if err := w.Result(result()); err != nil {
		t.Error(err)
	}
}

func TestARunThatWasCutOffIsReadUpToItsLastWholeStep(t *testing.T) {
	for name, cut := range map[string]func(dir string) error{
		"in the step's line": func(dir string) error {
			name := filepath.Join(dir, "steps.jsonl")
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return os.WriteFile(name, text[:len(text)-1], 0o644)
		},
		"in the step's files": func(dir string) error {
			name := filepath.Join(dir, "steps.jsonl")
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return os.WriteFile(name, text[:bytes.IndexByte(text, '\n')+1], 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, step(1, 2), step(2, 2))
			if err := cut(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, "result.json")); err != nil {
				t.Fatal(err)
			}
			r := open(t, dir)
			notes := strings.Join(r.Notes, "\n")
			if len(r.Steps) != 1 || r.Result != nil ||
				!strings.Contains(notes, "while a step was written") ||
				!strings.Contains(notes, "no result.json") {
				t.Errorf("%d steps, result %v, notes %q", len(r.Steps), r.Result, notes)
			}
		})
	}
}

func TestWhatIsNotARunIsRefused(t *testing.T) {
	_, err := record.Open(t.TempDir())
	wantError(t, err, "is not a run directory")
	_, err = record.Open(filepath.Join(t.TempDir(), "none"))
	wantError(t, err, "none cannot be read as a run directory: no such file")
}

func TestDamageIsRefusedAndNamed(t *testing.T) {
	replace := func(from, to string) func([]byte) []byte {
		return func(text []byte) []byte { return bytes.Replace(text, []byte(from), []byte(to), 1) }
	}
	half := func(text []byte) []byte { return text[:len(text)/2] }
	for _, c := range []struct {
		file   string
		damage func([]byte) []byte
		want   []string
	}{
		{
			"run.json", replace(`"schema_version": 2`, `"schema_version": 3`),
			[]string{
				"run.json was written by a newer plimsoll (schema_version 3); this one reads 2",
			},
		},
		{"run.json", replace(`"schema_version": 2`, `"schema_version": 1`), []string{"run.json is damaged: its schema_version is 1"}},
		{
			"run.json", replace(`"schema_version": 2`, `"Format": 1`),
			[]string{"run.json was written by an older plimsoll", "convert_run.py"},
		},
		{"run.json", replace(`"kind": "survey",`, `"kind": ,`), []string{"run.json is damaged: line 3"}},
		{"run.json", half, []string{"run.json is damaged", "unexpected end"}},
		{
			"result.json", replace(`"schema_version": 2`, `"schema_version": 3`),
			[]string{"result.json was written by a newer plimsoll (schema_version 3)"},
		},
		{"result.json", half, []string{"result.json is damaged"}},
		{"result.json", replace(`"found": true`, `"found": 7`), []string{"result.json is damaged: line"}},
		{"steps.jsonl", replace(`"plan"`, `plan`), []string{"steps.jsonl is damaged: line 1"}},
		{"steps.jsonl", replace(`steps/0001`, `../../etc`), []string{"steps.jsonl is damaged: line 1", "steps/0001"}},
		{"steps.jsonl", replace(`"number":1,`, `"number":-1,`), []string{"steps.jsonl is damaged: line 1"}},
		{"steps.jsonl", replace(`"windows":3`, `"windows":99999999999`), []string{"steps.jsonl is damaged: line 1", "windows"}},
		{"steps.jsonl", replace(`"windows":3`, `"windows":4`), []string{"windows.jsonl is damaged: it has 3 entries"}},
		{
			"steps.jsonl", replace(`"found":255`, `"found":256`),
			[]string{"steps.jsonl is damaged: line 1: found of concurrency_at_send is 0 to 255"},
		},
		{"steps.jsonl", replace(`"found":255`, `"found":0`), []string{"steps.jsonl is damaged: line 1: found of"}},
		{"steps.jsonl", replace(`"ok"`, `"fine"`), []string{"steps.jsonl is damaged: line 1", `cannot end as "fine"`}},
		{
			"steps.jsonl", func(text []byte) []byte { return append(text, text...) },
			[]string{"steps.jsonl is damaged: line 2: step 1 is there twice"},
		},
		{
			"steps.jsonl", func([]byte) []byte { return bytes.Repeat([]byte("x"), 2<<20) },
			[]string{"steps.jsonl is damaged: line 1: it is longer than"},
		},
		{"steps/0001/windows.jsonl", half, []string{"windows.jsonl is damaged"}},
		{"steps/0001/windows.jsonl", replace(`"length_ns":250000000`, `"length_ns":-1`), []string{"windows.jsonl is damaged: line 1"}},
		{"steps/0001/samples.jsonl", replace(`{`, ``), []string{"samples.jsonl is damaged: line 1"}},
		{"steps/0001/response.hlog", replace(`HISTF`, `HOSTF`), []string{"response.hlog is damaged: line 5"}},
		{"steps/0001/lag.hlog", half, []string{"lag.hlog is damaged"}},
		{
			"steps/0001/totals.hlog", replace(`Tag=lag`, `Tag=leg`),
			[]string{`totals.hlog is damaged: line 7: the histogram of "lag" is to be here`},
		},
	} {
		dir := written(t, step(1, 3))
		name := filepath.Join(dir, filepath.FromSlash(c.file))
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		changed := c.damage(bytes.Clone(text))
		if bytes.Equal(changed, text) {
			t.Fatalf("%s: nothing was damaged, %v", c.file, c.want)
		}
		if err := os.WriteFile(name, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = record.Open(dir)
		wantError(t, err, c.want...)
	}
}

func TestAFileOfAStepThatIsGoneIsDamage(t *testing.T) {
	dir := written(t, step(1, 1))
	if err := os.Remove(filepath.Join(dir, "steps", "0001", "samples.jsonl")); err != nil {
		t.Fatal(err)
	}
	_, err := record.Open(dir)
	wantError(t, err, "samples.jsonl is damaged: it is not there")
}

func TestAReaderWaitsForNoPipeAndLeavesNoDirectory(t *testing.T) {
	for name, change := range map[string]func(name string) error{
		"a named pipe":      func(name string) error { return syscall.Mkfifo(name, 0o644) },
		"a link to outside": func(name string) error { return os.Symlink("/etc/passwd", name) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, step(1, 1))
			name := filepath.Join(dir, "run.json")
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := change(name); err != nil {
				t.Fatal(err)
			}
			_, err := record.Open(dir)
			wantError(t, err, "run.json cannot be read")
		})
	}
}

func TestTheLineIsExported(t *testing.T) {
	r := open(t, written(t, step(1, 1)))
	r.Steps[0].Totals.ConcurrencyAtSend = []measure.ConcurrencyAtSend{
		{Count: 200, Sum: 200 * 2e6}, {Found: 1, Count: 300, Sum: 300 * 3e6},
	}
	text, err := record.Export(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"schema_version": 2.,
		"tool":           "plimsoll 1.0",
		"target":         "http://127.0.0.1:8080/<a>",
		"slo":            "p99<50ms",
		"mix":            "GET /",
		"measured_at":    "2026-01-02T03:09:00Z",
		"machine": map[string]any{
			"host": "h", "cpu": "", "cores": 2., "target_local": true,
		},
		"uncrowded_seconds": .002,
		"line": map[string]any{
			"found": true,
			"why":   "12 steps",
			"rate_per_second": map[string]any{
				"low":        1880.,
				"estimate":   1905.,
				"high":       1930.,
				"confidence": .95,
			},
		},
		"peak": map[string]any{
			"found":              true,
			"goodput_per_second": 2100.,
			"rate_per_second": map[string]any{
				"low":        2000.,
				"estimate":   2100.,
				"high":       2200.,
				"confidence": .95,
			},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestALineThatWasNotFoundIsExportedWithoutFigures(t *testing.T) {
	r := open(t, written(t))
	r.Result.Line = record.Line{Why: "above 20000, where the generator was the limit"}
	text, err := record.Export(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Line map[string]any }
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{
		"found": false,
		"why":   "above 20000, where the generator was the limit",
	}, got.Line); d != "" {
		t.Error(d)
	}
	r.Result = nil
	_, err = record.Export(r)
	wantError(t, err, "no load line to export")
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; it should say %q", parts)
		return
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	w, err := record.Create(filepath.Join(b.TempDir(), "run"), manifest())
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	number := 0
	for b.Loop() {
		if err := w.Step(step(number, 24)); err != nil {
			b.Fatal(err)
		}
		number++
	}
}

func TestAnUndecidedStepThatHeldSoFarIsShownAsThat(t *testing.T) {
	held := []record.ObjectiveShare{{
		Share:   model.Interval{Estimate: .001, High: .02},
		Allowed: .01,
	}}
	broken := []record.ObjectiveShare{
		held[0],
		{Share: model.Interval{Estimate: .02, High: .04}, Allowed: .01},
	}
	for _, c := range []struct {
		j    record.Judgement
		want record.SLOVerdict
	}{
		{record.Judgement{Rate: 10, Verdict: record.Undecided, Objectives: held}, record.SoFar},
		{record.Judgement{Rate: 10, Verdict: record.Undecided, Objectives: broken}, record.Undecided},
		{record.Judgement{Rate: 10, Verdict: record.Undecided}, record.Undecided},
		// a closed loop
		{record.Judgement{Verdict: record.Undecided, Objectives: held}, record.Undecided},
		{record.Judgement{Rate: 10, Verdict: record.Fail, Objectives: held}, record.Fail},
		{record.Judgement{Rate: 10, Verdict: record.Pass, Objectives: held}, record.Pass},
	} {
		if got := c.j.Shown(); got != c.want {
			t.Errorf("%+v is shown as %s", c.j, got)
		}
	}
}
