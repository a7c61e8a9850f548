package experiment

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// short is a manifest of two values and a figure that commands print.
func short() *Manifest {
	return &Manifest{SchemaVersion: SchemaVersion, Values: []Value{{"a", "1"}, {"b", "2"}},
		Figures: []Figure{{Name: "command.x", Up: "more", Down: "less"}},
		Repeat:  10, Alpha: .05, Relevant: .01}
}

// kept writes runs, and closes their directory.
func kept(t *testing.T, runs ...*Run) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "out")
	w, err := create(dir, short())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if err := w.run(r); err != nil {
			t.Errorf("round %d: %v", r.Round, err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// series are as many as a page may have, and as long.
func series(letter string) map[string]float64 {
	page := make(map[string]float64)
	for i := range 1700 {
		page[fmt.Sprintf("metrics.%d%s", i, strings.Repeat(letter, 340))] = 1
	}
	return page
}

func TestWhatAPageHoldsDoesNotEndAnExperiment(t *testing.T) {
	for _, c := range []struct {
		letter string
		kept   bool
	}{{"<", true}, {"&", true}, {"x", true}, {`"`, false}} {
		run := &Run{Round: 1, Value: "a", Figures: map[string]float64{"command.x": 3}, Before: series(c.letter), After: series(c.letter)}
		dir := kept(t, run)
		r, err := Open(dir)
		if err != nil || len(r.Runs) != 1 || r.Runs[0].Figures["command.x"] != 3 {
			t.Errorf("%s: %+v, %v", c.letter, r, err)
			continue
		}
		if c.kept != (run.Before != nil) || c.kept != (len(r.Runs[0].Missing) == 0) {
			t.Errorf("%s: the page is kept: %v, want %v; missing: %q", c.letter, run.Before != nil, c.kept, r.Runs[0].Missing)
		}
	}
}

func TestAnExperimentThatCannotBeWrittenAnyMoreIsNotCalledDone(t *testing.T) {
	run := Run{Round: 1, Value: "a", Figures: map[string]float64{"command.x": 3}}
	dir := filepath.Join(t.TempDir(), "out")
	w, err := create(dir, short())
	if err == nil {
		err = w.run(&run)
	}
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	d := &doing{writer: w, record: Record{Manifest: *short(), Runs: []Run{run}}}
	if _, err := d.conclude(t.Context(), full); !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
	r, err := Open(dir)
	if err != nil || r.Again().Early != "a run could not be written" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheTimeLeftCountsTheRunsOfValuesThatAreNotGivenUp(t *testing.T) {
	var left time.Duration
	d := &doing{experiment: &Experiment{Values: make([]Value, 3), Repeat: 10}, options: Options{Tell: func(e Event) { left = e.Left }},
		failures: []int{0, givenUp, 1}, done: []int{4, givenUp, 4}, spent: 20 * time.Second}
	// Ten runs in 20 s, and six of each of the two values that are still tried are to come.
	if d.tell(Event{}); left != 24*time.Second {
		t.Errorf("%v are said to be left, want 24s", left)
	}
}
