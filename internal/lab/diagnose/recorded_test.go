package diagnose

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/record"
)

var update = flag.Bool("update", false,
	"write testdata/recorded/expected.txt again, for a reader to look at")

// recordings are the archives of testdata/recorded: surveys of examples/patients on a real machine,
// made small by bench/golden.
func recordings(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", "recorded", "*.tar.gz"))
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no recorded runs: %v", err)
	}
	return all
}

// unpack is a recorded run as any other.
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
	dir := t.TempDir()
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

// diseases are the rules that each patient has to be found by, in order, from the list that the
// patients are surveyed by, and hot the functions that have to be shown as where the time goes.
func diseases(t *testing.T) (all map[string][]string, hot map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "patients",
		"patients.json"))
	if err != nil {
		t.Fatal(err)
	}
	var patients []struct {
		Name, Rule string
		Rules      []string
		HotSpot    string `json:"hot_spot"`
	}
	if err := json.Unmarshal(text, &patients); err != nil {
		t.Fatal(err)
	}
	all, hot = map[string][]string{}, map[string]string{}
	for _, p := range patients {
		all[p.Name], hot[p.Name] = p.Rules, p.HotSpot
		if p.Rule != "" {
			all[p.Name] = []string{p.Rule}
		}
	}
	return all, hot
}

func TestTheDiseaseOfEachRecordedPatientIsFoundAndNothingOnTheCured(t *testing.T) {
	known, hot := diseases(t)
	seen := map[string]bool{}
	for _, archive := range recordings(t) {
		name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		t.Run(name, func(t *testing.T) {
			patient, state, _ := strings.Cut(name, "-")
			want, there := known[patient]
			if !there {
				t.Fatalf("there is no patient %q", patient)
			}
			switch state {
			case "healthy", "cured":
				want = nil
			case "first-cured":
				want = want[1:]
			case "sick":
				for _, rule := range want {
					seen[rule] = true
				}
			default:
				t.Fatalf("%q is not a state of a patient", state)
			}
			d := Run(unpack(t, archive))
			found := names(d)
			if spot := hot[patient]; spot != "" && state == "sick" &&
				(len(d.First.Where) == 0 || d.First.Where[0].Function != spot) {
				t.Errorf("%s is not where the time goes: %+v", spot, d.First)
			}
			inOrder := slices.DeleteFunc(slices.Clone(found), func(n string) bool {
				return !slices.Contains(want, n)
			})
			if !slices.Equal(inOrder, want) || len(want) > 0 && found[0] != want[0] ||
				len(want) == 0 && len(found) > 0 {
				t.Errorf("found %v, and its diseases are %v", found, want)
			}
		})
	}
	for patient, rules := range known {
		for _, rule := range rules {
			if !seen[rule] {
				t.Errorf("%s of the patient %s is in no recorded run", rule, patient)
			}
		}
	}
}

// TestWhatIsSaidOfTheRecordedRuns shows what a change of a rule does to real evidence: -update
// rewrites expected.txt, and its difference is to be looked at like that of the code.
func TestWhatIsSaidOfTheRecordedRunsIsWhatIsExpected(t *testing.T) {
	var said strings.Builder
	for _, archive := range recordings(t) {
		d := Run(unpack(t, archive))
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
