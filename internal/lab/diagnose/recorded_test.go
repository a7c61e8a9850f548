package diagnose

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/record"
)

var update = flag.Bool("update", false,
	"write testdata/recorded/expected.txt again, for a reader to look at")

// recordings are the archives of testdata/recorded: surveys of examples/patients on a real machine,
// reduced in size by bench/golden.
func recordings(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", "recorded", "*.tar.gz"))
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no recorded runs: %v", err)
	}
	return all
}

// unpack returns a recorded run, which is like any other.
func unpack(t *testing.T, archive string) *record.Run {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t)
	for packed := tar.NewReader(zipped); ; {
		head, err := packed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(head.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	run, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// read caches the diagnosis of each recorded run, which takes most of the time of these tests. The
// tests share it, and do not change it.
var read = map[string]*Diagnosis{}

func diagnosis(t *testing.T, archive string) *Diagnosis {
	t.Helper()
	if read[archive] == nil {
		read[archive] = Run(unpack(t, archive))
	}
	return read[archive]
}

// disease is what the diagnosis of a patient must find.
type disease struct {
	half  string
	rules []string // in order
	// place is a word for where the disease is. For a patient without a rule, spot is the function
	// that must be shown as where the time goes.
	place, spot string
}

// diseases returns the diseases of the patients, from the list that they are surveyed by.
func diseases(t *testing.T) map[string]disease {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "patients",
		"patients.json"))
	if err != nil {
		t.Fatal(err)
	}
	var patients []struct {
		Name, Half, Rule, Place string
		Rules                   []string
		HotSpot                 string `json:"hot_spot"`
	}
	if err := json.Unmarshal(text, &patients); err != nil {
		t.Fatal(err)
	}
	all := map[string]disease{}
	for _, p := range patients {
		d := disease{half: p.Half, rules: p.Rules, place: p.Place, spot: p.HotSpot}
		if p.Rule != "" {
			d.rules = []string{p.Rule}
		}
		all[p.Name] = d
	}
	return all
}

// A place that is part of the rule's claim anyway tests nothing. Halves before J were judged with
// such places, and stay as they were judged.
func TestPlacesAreNotInTheClaimsOfTheirRules(t *testing.T) {
	claims := map[string]string{}
	for _, r := range Rules() {
		claims[r.Name] = strings.ToLower(r.Claim)
	}
	for name, d := range diseases(t) {
		if d.place == "" || d.half < "J" || len(d.rules) == 0 {
			continue
		}
		if strings.Contains(claims[d.rules[0]], strings.ToLower(d.place)) {
			t.Errorf("%s: each finding of %s says %q", name, d.rules[0], d.place)
		}
	}
}

// namesPlace reports whether a finding says where the disease is, as names_place of
// bench/patients.py does.
func namesPlace(f *Finding, place string) bool {
	said := []string{f.Claim}
	for _, e := range f.Evidence {
		said = append(said, e.What+e.Value)
	}
	for _, w := range f.Where {
		said = append(said, w.Function)
	}
	for _, a := range f.Advice {
		if !strings.HasPrefix(a.Text, looksFor) {
			said = append(said, a.Text+a.Command)
		}
	}
	return slices.ContainsFunc(said, func(text string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(place))
	})
}

// pprofOnly are patients that show only pprof, with the recorded run of the patient in the same
// folder that also shows metrics. These runs are older than the goroutine profile after the
// overload and the detection of a process's runtime. The places come from these, so only the rules
// are checked.
var pprofOnly = map[string]string{"leakpprof": "leak-sick", "onecorepprof": "onecore-sick"}

// withoutThreads are what is known of recorded runs without thread dumps of their JVM, as of one that
// belongs to another user. Waits for its locks are not seen then.
var withoutThreads = map[string]disease{
	"javaorders": {rules: []string{"concurrency-limited"}, place: "lock"},
}

// withoutMetrics removes from a run what its metrics page reported.
func withoutMetrics(run *record.Run) *record.Run {
	for i := range run.Steps {
		for _, sample := range run.Steps[i].Samples {
			maps.DeleteFunc(sample.Values, func(name string, _ float64) bool {
				return strings.HasPrefix(name, "go.")
			})
		}
	}
	return run
}

// judged compares the diagnosis of a patient in a state with the diseases that remain in that
// state.
func judged(t *testing.T, d *Diagnosis, has disease, state string) {
	t.Helper()
	want := has.rules
	switch state {
	case "healthy", "cured":
		want = nil
	case "first-cured":
		want = want[1:]
	case "sick":
	default:
		t.Fatalf("%q is not a state of a patient", state)
	}
	found := names(d)
	if has.spot != "" && state == "sick" &&
		(len(d.First.Where) == 0 || d.First.Where[0].Function != has.spot) {
		t.Errorf("%s is not where the time goes: %+v", has.spot, d.First)
	}
	inOrder := slices.DeleteFunc(slices.Clone(found), func(n string) bool {
		return !slices.Contains(want, n)
	})
	if !slices.Equal(inOrder, want) || len(want) > 0 && found[0] != want[0] ||
		len(want) == 0 && len(found) > 0 {
		t.Errorf("found %v, and its diseases are %v", found, want)
	}
	if has.place != "" && state == "sick" && len(found) > 0 &&
		!namesPlace(&d.Findings[0], has.place) {
		t.Errorf("nothing is said of %q: %+v", has.place, d.Findings[0])
	}
}

func TestTheDiseaseOfEachRecordedPatientIsFoundAndNothingOnTheCured(t *testing.T) {
	known := diseases(t)
	seen := map[string]bool{}
	for _, archive := range recordings(t) {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		patient, state, _ := strings.Cut(name, "-")
		has, there := known[patient]
		if !there {
			t.Errorf("there is no patient %q", patient)
			continue
		}
		if without, is := withoutThreads[patient]; is {
			has = without
		}
		t.Run(name, func(t *testing.T) { judged(t, diagnosis(t, archive), has, state) })
		for _, rule := range has.rules {
			seen[rule] = seen[rule] || state == "sick"
		}
	}
	for patient, recorded := range pprofOnly {
		t.Run(patient, func(t *testing.T) {
			archive := filepath.Join("testdata", "recorded", recorded+".tar.gz")
			d := Run(withoutMetrics(unpack(t, archive)))
			judged(t, d, disease{rules: known[patient].rules}, "sick")
		})
		for _, rule := range known[patient].rules {
			seen[rule] = true
		}
	}
	for patient, has := range known {
		for _, rule := range has.rules {
			if !seen[rule] {
				t.Errorf("%s of the patient %s is in no recorded run", rule, patient)
			}
		}
	}
}

// A recorded run must not pass with the right rule in the wrong place.
func TestAFindingThatNamesAnotherPlaceIsNotTheDisease(t *testing.T) {
	f := Finding{
		Claim:    "Requests wait for a lock",
		Evidence: []Fact{{What: "waits ", Value: "8 s"}},
		Where:    []profile.Place{{Function: "main.(*shop).get"}},
		Advice: []Action{
			{Text: "hold it for less", Command: "go test"}, bounds("a semaphore"),
		},
	}
	for place, named := range map[string]bool{
		"A LOCK": true, "waits 8 s": true, "main.(*shop).get": true, "for less": true,
		"go test": true, "main.(*shop).put": false, "a semaphore": false,
	} {
		if namesPlace(&f, place) != named {
			t.Errorf("%q is named: %v", place, !named)
		}
	}
}

// TestWhatIsSaidOfTheRecordedRuns shows what changing a rule does to real evidence. -update
// rewrites expected.txt, whose difference must be reviewed like that of the code.
func TestWhatIsSaidOfTheRecordedRunsIsWhatIsExpected(t *testing.T) {
	var said strings.Builder
	for _, archive := range recordings(t) {
		d := diagnosis(t, archive)
		fmt.Fprintf(&said, "%s\n\tbottleneck: %s\n",
			strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), d.First.What)
		for _, f := range d.Findings {
			fmt.Fprintf(&said, "\tfound %s, gain %.2f: %s\n", f.Rule, f.Gain.Factor, f.Claim)
		}
		for _, h := range d.HeldBack {
			fmt.Fprintf(&said, "\theld back %s: %s\n", h.Rule, h.Why)
		}
	}
	file := filepath.Join("testdata", "recorded", "expected.txt")
	if *update {
		if err := os.WriteFile(file, []byte(said.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expected, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if said.String() != string(expected) {
		t.Errorf("it is said:\n%s\nand expected:\n%s", &said, expected)
	}
}
