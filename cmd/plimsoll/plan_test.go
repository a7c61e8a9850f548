package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// plannable writes a run whose line is 1000 to 1100 requests a second, with a request of 500 µs of
// processor where it is to be known.
func plannable(t *testing.T, processor bool, line record.Line) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	w, err := record.Create(dir, record.Manifest{Kind: "survey", Target: "http://10.0.0.1/\x1b[2J",
		SLO: "p99<50ms", Mix: "GET /"})
	if err != nil {
		t.Fatal(err)
	}
	for i, rate := range []float64{200, 600, 1000} {
		s := measure.Step{Plan: measure.StepPlan{
			Number: i + 1, Phase: "refine", Rate: rate, Length: 10e9, Connections: 64,
		}}
		s.Totals.Length = 10e9
		s.Totals.Ended[measure.OK] = uint64(10 * rate)
		for at := range 10 {
			values := map[string]float64{"host.cores": 2}
			if processor {
				values["target.cpu.seconds"] = float64(at) * (.1 + rate*.0005)
			}
			s.Samples = append(s.Samples, measure.Sample{At: int64(at) * 1e9, Values: values})
		}
		if err := w.Step(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Result(&record.Result{Line: line}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

var usualLine = record.Line{
	Found:    true,
	Interval: model.Interval{Low: 1000, Estimate: 1050, High: 1100, Confidence: .95},
}

func exitOf(err error) int {
	if err == nil {
		return 0
	}
	if coded, ok := errors.AsType[withExit](err); ok {
		return coded.code
	}
	return exitStart
}

func TestAPlanIsPrintedAndItsManifestWritten(t *testing.T) {
	var out, log bytes.Buffer
	file := filepath.Join(t.TempDir(), "hpa.yaml")
	k := planCommand{Dir: plannable(t, true, usualLine), Rate: 40000, Headroom: .2, Zones: 3,
		Database: 500, Deployment: "shop", Manifest: file, OnHeadroom: file + ".keda"}
	if err := k.Run(t.Context(), &console{out: &out, err: &log}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"INSTANCES  60 for 40,000/s", "with only 50", "would not hold",
		"PROCESSOR  500 µs", "AUTOSCALER  at 62 % of a request of 600 m, 8 to 74 instances",
		"DATABASE  a pool of 5", "manifest  " + file} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("what a run says moves the cursor: %q", out.String())
	}
	manifest, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(manifest), "kind: HorizontalPodAutoscaler") ||
		!strings.Contains(string(manifest), "name: shop") {
		t.Errorf("%s, %v", manifest, err)
	}
	object, err := os.ReadFile(file + ".keda")
	if err != nil || !strings.Contains(string(object), "kind: ScaledObject") {
		t.Errorf("%s, %v", object, err)
	}
	out.Reset()
	k.Manifest, k.JSON = "", true
	if err := k.Run(t.Context(), &console{out: &out, err: &log}); err != nil {
		t.Fatal(err)
	}
	var printed struct {
		Manifest string
		Plan     struct{ Instances struct{ Count int } }
	}
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil ||
		printed.Plan.Instances.Count != 60 || printed.Manifest != string(manifest) {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestAManifestThatIsNotWrittenIsSaid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hpa.yaml")
	if err := os.WriteFile(file, []byte("an older one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{file: "manifest: not written, as no autoscaler " +
		"can be planned; if there is a file " + file, "": ""} {
		var out, log bytes.Buffer
		k := planCommand{Dir: plannable(t, false, usualLine), Rate: 40000, Headroom: .2, Zones: 3,
			Deployment: "shop", Manifest: asked}
		if err := k.Run(t.Context(), &console{out: &out, err: &log}); exitOf(err) != exitUnexpected {
			t.Error(err)
		}
		if said := strings.Contains(out.String(), "anifest"); said != (want != "") ||
			!strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in:\n%s", want, out.String())
		}
		if left, err := os.ReadFile(file); string(left) != "an older one" || err != nil {
			t.Errorf("%s, %v", left, err)
		}
	}
}

func TestWhatCannotBePlannedIsSaidAndIsAnExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		k    planCommand
		code int
		says string
	}{
		"no line": {planCommand{Dir: plannable(t, true, record.Line{Why: "the generator was the limit"}),
			Rate: 40000}, exitUnexpected,
			"the generator was the limit"},
		"no processor": {planCommand{Dir: plannable(t, false, usualLine), Rate: 40000}, exitUnexpected,
			"INSTANCES"},
		"memory": {planCommand{Dir: plannable(t, true, usualLine), Rate: 40000, Idle: 9},
			exitUnexpected, "Not planned: memory for 9 connections"},
		"no run": {planCommand{Dir: t.TempDir(), Rate: 40000}, exitUsage, ""},
		"no further run": {planCommand{Dir: plannable(t, true, usualLine), Rate: 40000,
			Memory: []string{t.TempDir()}}, exitUsage, ""},
		"no rate": {planCommand{Dir: plannable(t, true, usualLine)}, exitUsage, ""},
		"no folder": {planCommand{Dir: plannable(t, true, usualLine), Rate: 40000,
			Manifest: filepath.Join(t.TempDir(), "none", "hpa.yaml")}, exitUsage, ""},
		"no headroom": {planCommand{Dir: plannable(t, true, usualLine), Rate: 40000, Headroom: 1},
			exitUsage, ""},
		"less than one":   {planCommand{Dir: plannable(t, true, usualLine), Rate: 3}, 0, "INSTANCES  2 for 3.00/s"},
		"too many of all": {planCommand{Dir: plannable(t, true, usualLine), Rate: 1e9}, exitUsage, ""},
	} {
		var out, log bytes.Buffer
		err := c.k.Run(t.Context(), &console{out: &out, err: &log})
		if exitOf(err) != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit %d, want %d (%v)\n%s", name, exitOf(err), c.code, err, out.String())
		}
	}
}
