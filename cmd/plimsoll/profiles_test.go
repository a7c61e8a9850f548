package main

import (
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"plimsoll/internal/lab/measure"
)

func TestProfilesAreTakenInTheStepsThatTheLineIsNotMadeOf(t *testing.T) {
	var lock sync.Mutex
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		asked = append(asked, path.Base(r.URL.Path))
		http.NotFound(w, r)
	}))
	defer s.Close()
	b := new(surveySetup)
	profile := b.profiles(s.URL)
	for phase, want := range map[string]string{
		"warm-up": "", "bracket": "", "refine": "",
		measure.PhaseHalf: "allocs block goroutine heap mutex profile", measure.PhaseAtLine: "allocs block goroutine heap mutex profile",
		measure.PhaseOverload: "goroutine profile", measure.PhaseRecovery: "goroutine profile",
	} {
		asked = nil
		if taken := profile(t.Context(), measure.StepPlan{Phase: phase, Settle: 1e6, Length: int64(profileMaking + 2*time.Millisecond)}); len(taken) > 0 {
			t.Errorf("%s: %d profiles of a service that has none", phase, len(taken))
		}
		slices.Sort(asked)
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("%s: asked for %q, want %q", phase, got, want)
		}
	}
	if len(b.notes) != 2 || !strings.Contains(strings.Join(b.notes, "\n"), "cpu, goroutine profile: "+s.URL+"/debug/pprof answers with status 404") {
		t.Errorf("each cause is noted once: %q", b.notes)
	}
	if new(surveySetup).profiles("") != nil {
		t.Error("profiles are taken of nothing")
	}
}

func TestSeveralMetricsPagesCanBeGiven(t *testing.T) {
	var c commandLine
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"http://a/metrics?match[]=x,y", "http://b/debug/vars"}
	if _, err := parser.Parse([]string{"survey", "http://a/", "--slo", "p99<50ms", "--metrics", want[0], "--metrics", want[1]}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Survey.Metrics, want) {
		t.Errorf("%q", c.Survey.Metrics)
	}
}
