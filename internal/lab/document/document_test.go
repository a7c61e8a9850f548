//go:build !race

// One goroutine: the race detector finds nothing here, and takes several times as long.

package document

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/doctor"
	"plimsoll/internal/lab/experiment"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/plan"
	"plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/replay"
	"plimsoll/internal/lab/report"
	"plimsoll/internal/lab/stacks"
	"plimsoll/internal/lab/text"
	"plimsoll/internal/lab/wrkcheck"
)

// recorded is a survey of a real service that diagnose keeps for its own tests.
func recorded(t *testing.T, name string) *record.Run {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "diagnose", "testdata", "recorded", name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		content, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// some is the totals of a load in which requests have ended in several ways.
func some() *measure.Totals {
	var h measure.Histogram
	for ns := range int64(1000) {
		h.Record(ns * 1e4)
	}
	t := &measure.Totals{
		Length: 1e9, Drain: 1e6, Due: 1010, Sent: 1010, Response: h.Sparse(), Service: h.Sparse(), Lag: h.Sparse(),
		Ended: measure.Tally{measure.OK: 1000, measure.Timeout: 10}, Examples: map[string]string{"timeout": "none in 1s"},
		ConcurrencyAtSend: []measure.ConcurrencyAtSend{{Found: 2, Count: 3, Sum: 4, Squares: 5}},
	}
	t.Requests = []measure.RequestTotals{{Name: "list", Ended: t.Ended, Response: t.Response}}
	return t
}

// parsed is a profile of another tool, from stacks' own tests.
func parsed(t *testing.T, name string) *profile.Profile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "stacks", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := stacks.Read(data, stacks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := made.Write(&out); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// printed is a document of each kind, made of what rooms really find.
func printed(t *testing.T) map[string]any {
	t.Helper()
	a, b := recorded(t, "lock-sick"), recorded(t, "lock-cured")
	made, err := plan.Make(b, nil, plan.Options{Rate: 5000, Headroom: .2, PodStart: time.Minute, Zones: 3, DatabaseConnections: 500})
	if err != nil {
		t.Fatal(err)
	}
	examined, err := doctor.Examine(t.Context(), doctor.Options{Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	fitted := model.Fit(a.Steps, model.Options{Seed: 1})
	where := profile.Summarize(parsed(t, "py-spy.folded"), parsed(t, "node.cpuprofile"), profile.CPU,
		diagnose.Classes, 15)
	real := true
	return map[string]any{
		"survey":   NewSurvey(a, "report.html", diagnose.Run(a)),
		"diagnose": NewDiagnose(a.Dir, diagnose.Run(a)),
		"compare":  NewCompare(a.Dir, b.Dir, "compare.html", report.Differences(a, b)),
		"plan":     NewDeploymentPlan(b.Dir, []byte("kind: HorizontalPodAutoscaler\n"), made),
		"doctor":   NewDoctor(examined),
		"model":    NewModel(a.Dir, &fitted),
		"profile":  NewProfile("a.folded", "folded stacks", "b.cpuprofile", where),
		"load":     NewLoad("http://127.0.0.1/", map[string]string{"connections": "2"}, some(), "it was stopped"),
		"replay": NewReplay("http://127.0.0.1/", map[string]string{}, some(), "",
			Log{&replay.Stats{Lines: 7, Examples: []string{"line 3: no path"}, First: time.Now(), Length: time.Second}, &text.Kept{}}),
		"experiment": NewExperiment("dir", &experiment.Manifest{Name: "pool"}, &experiment.Result{
			SchemaVersion: experiment.SchemaVersion,
			Values:        []experiment.ValueResult{{Name: "a", Value: "1"}},
			Figures: []experiment.FigureResult{{
				Figure:      experiment.Figure{Name: "p50", Unit: "s"},
				Medians:     []*experiment.Estimate{nil, {Low: 1, Median: 2, High: 3}},
				Comparisons: []experiment.Comparison{{Than: "a", Value: "b", Share: true, Better: &real}},
			}},
		}),
		"verify-against-wrk":    NewVerify(&wrkcheck.Report{Wrk: &wrkcheck.Side{}, Lines: []wrkcheck.Line{{What: "mean"}}}),
		"verify-against-h2load": NewVerify(&wrkcheck.Report{H2load: &wrkcheck.Side{}, Lines: []wrkcheck.Line{{What: "mean"}}}),
	}
}

// plain is a value as a reader of its JSON gets it.
func plain(t *testing.T, v any) any {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(content, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The strict schema refuses keys that it does not name, the one that is printed allows them.
func TestWhatIsPrintedIsAsItsSchemaSays(t *testing.T) {
	documents, all := documents(), printed(t)
	for name, of := range documents {
		if _, ok := all[name]; !ok && !strings.Contains(name, ".json") {
			t.Errorf("%s is not tried", name)
		}
		if _, ok := Schema(name); !ok {
			t.Errorf("%s has no schema", name)
		}
		resolved, err := schemaOf(of).Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := all[name]; ok {
			got := plain(t, v)
			if err := resolved.Validate(got); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			head := got.(map[string]any)
			if head["command"] != name || head["schema_version"] != float64(SchemaVersion) {
				t.Errorf("%s begins with %v, %v", name, head["schema_version"], head["command"])
			}
			head["schema_version"] = "one"
			if resolved.Validate(got) == nil {
				t.Errorf("%s is allowed a version that is a text", name)
			}
		}
	}
}

func TestTheFilesOfARunAreAsTheirSchemasSay(t *testing.T) {
	// What is recorded has no windows, to be small.
	runs := []string{recorded(t, "lock-sick").Dir, measured(t)}
	for name, of := range record.Files() {
		resolved, err := schemaOf(of).Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		checked := 0
		for _, path := range found(t, runs, name) {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			decoder := json.NewDecoder(strings.NewReader(string(content)))
			for decoder.More() {
				var v any
				if err := decoder.Decode(&v); err != nil {
					t.Fatal(err)
				}
				if err := resolved.Validate(v); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				checked++
			}
		}
		if checked == 0 {
			t.Errorf("the run has no %s", name)
		}
	}
}

func TestAnExportedLineIsAsItsSchemaSays(t *testing.T) {
	text, err := record.Export(recorded(t, "lock-sick"))
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := schemaOf(documents()["line.json"]).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(line); err != nil {
		t.Error(err)
	}
	line["line"].(map[string]any)["rate"] = 1.
	if resolved.Validate(line) == nil {
		t.Error("a line with an unknown key is allowed")
	}
}

func TestTheKeysOfSettingsAreInSnakeCase(t *testing.T) {
	for name := range documents() {
		s := schemaOf(documents()[name])
		settings := s.Properties["settings"]
		if settings == nil {
			continue
		}
		resolved, err := settings.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(map[string]any{"new_connections": "true"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if resolved.Validate(map[string]any{"new-connections": "true"}) == nil {
			t.Errorf("%s allows a setting with a dash in its key", name)
		}
	}
}

// measured is the run directory of a load with a step.
func measured(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w, err := record.Create(dir, record.Manifest{Kind: record.KindLoad})
	if err != nil {
		t.Fatal(err)
	}
	totals := some()
	step := measure.Step{Plan: measure.StepPlan{Number: 1, Phase: "load"}, Totals: *totals, Windows: []measure.Window{{
		Length: totals.Length, Due: totals.Due, Ended: totals.Ended,
		Response: totals.Response, Service: totals.Service, Lag: totals.Lag,
	}}}
	if err := errors.Join(w.Step(&step), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// found are the files of a name in run directories.
func found(t *testing.T, dirs []string, name string) (paths []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == name {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// The units that a key may end in, and the keys of figures that need none: what they are in is said
// by the key above them or by a key "unit" beside them, or they are plain numbers.
var (
	units    = []string{"_ns", "_ms", "_seconds", "_bytes", "_per_second", "_per_minute", "_share", "_percent", "_cores", "_factor", "_ns2"}
	unitless = []string{
		"low", "estimate", "median", "high", "confidence", // an interval
		"mean", "p50", "p75", "p90", "p99", "p99_9", "p99_99", "max", // percentiles
		"value", "share", "factor", "capacity", "p", "corrected", "shift", "detectable", "alpha", "r2", "speed",
		"peak_concurrency", "reach_concurrency", "seconds_per_request", "seconds_per_request_at_half",
		"connections", "active", "bytes", "wrk", "h2load", "own", "difference", "allowed", "rounding_included",
		"expected", "found", // of a law of physics, whose sentence says the unit
	}
)

func TestEveryKeyIsInSnakeCaseAndSaysItsUnit(t *testing.T) {
	snake := regexp.MustCompile(snakeCase)
	for name, of := range documents() {
		eachSchema(schemaOf(of), func(s *jsonschema.Schema) {
			for key, property := range s.Properties {
				if !snake.MatchString(key) {
					t.Errorf("%s: the key %s is not in snake case", name, key)
				}
				number := property.Type == "number" || slices.Contains(property.Types, "number")
				ends := func(unit string) bool { return strings.HasSuffix(key, unit) }
				if number && !slices.ContainsFunc(units, ends) && !slices.Contains(unitless, key) {
					t.Errorf("%s: the key %s does not say its unit", name, key)
				}
			}
		})
	}
}

func TestPercentilesCountWhatFailedAsSlow(t *testing.T) {
	l := NewLoad("http://127.0.0.1/", nil, some(), "")
	if got := *l.Response.P50; got < 5 || got > 5.2 {
		t.Errorf("p50 is %v ms, want 5.05: 10 of 1,010 requests failed", got)
	}
	if l.Response.P999 != nil {
		t.Errorf("p99.9 is %v ms, and lies among the requests that failed", *l.Response.P999)
	}
	if l.Response.Max < 9.9 || l.Response.Max > 10 {
		t.Errorf("the longest is %v ms, want 9.99", l.Response.Max)
	}
}

func TestThereIsNoSchemaOfWhatIsNotThere(t *testing.T) {
	if content, ok := Schema("lode"); ok {
		t.Errorf("%s", content)
	}
}
