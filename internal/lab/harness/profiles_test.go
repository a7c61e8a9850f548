package harness

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/measure"
	lab "plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/stacks"
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
	h := new(harness)
	profile := h.profiles(s.URL)
	for phase, want := range map[string]string{
		"warm-up": "", "bracket": "", "refine": "",
		measure.PhaseHalf:     "allocs block goroutine heap mutex profile",
		measure.PhaseAtLine:   "allocs block goroutine heap mutex profile",
		measure.PhaseOverload: "goroutine profile",
		measure.PhaseRecovery: "goroutine profile",
	} {
		asked = nil
		taken := profile(t.Context(), measure.StepPlan{
			Phase:  phase,
			Settle: 1e6,
			Length: int64(profileMaking + 2*time.Millisecond),
		})
		if len(taken) > 0 {
			t.Errorf("%s: %d profiles of a service that has none", phase, len(taken))
		}
		slices.Sort(asked)
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("%s: asked for %q, want %q", phase, got, want)
		}
	}
	want := "cpu, goroutine profile: " + s.URL + "/debug/pprof answers with status 404"
	if len(h.notes) != 2 || !strings.Contains(strings.Join(h.notes, "\n"), want) {
		t.Errorf("each cause is noted once: %q", h.notes)
	}
	if new(harness).profiles("") != nil {
		t.Error("profiles are taken of nothing")
	}
}

// fake is a profiler of the processor.
type fake struct{ fail error }

func (f fake) Take(context.Context, time.Duration) (*profile.Profile, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	b := stacks.NewBuilder(1)
	return b.Profile(), b.Add([]stacks.Frame{{Function: "score"}}, 1, 1e7)
}

func TestTheProcessorsProfileMayComeFromElsewhere(t *testing.T) {
	var asked []string
	var lock sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		asked = append(asked, path.Base(r.URL.Path))
		http.NotFound(w, r)
	}))
	defer s.Close()
	plan := measure.StepPlan{Phase: measure.PhaseAtLine, Length: int64(profileMaking + time.Millisecond)}
	h := &harness{processor: fake{}}
	taken := h.profiles(s.URL)(t.Context(), plan)
	if slices.Contains(asked, "profile") || len(asked) != 5 {
		t.Errorf("the service was asked for %v", asked)
	}
	if p, err := lab.Parse(taken["cpu"]); err != nil || p.Total(lab.CPU) != .01 {
		t.Errorf("the processor's profile: %v", err)
	}
	if alone := h.profiles("")(t.Context(), plan); len(alone) != 1 {
		t.Errorf("without a service's own profiles there are %d", len(alone))
	}
	h = &harness{processor: fake{errors.New("no such process")}}
	if taken := h.profiles("")(t.Context(), plan); len(taken) != 0 || len(h.notes) != 1 ||
		h.notes[0] != "a profile of the processor time: no such process" {
		t.Errorf("one that fails: %d profiles, and %q is said", len(taken), h.notes)
	}
	h = new(harness)
	h.o.ProfileCommand = "py-spy record"
	if _, err := h.openProcessor(); err == nil {
		t.Error("a command without {out} is taken")
	}
}
