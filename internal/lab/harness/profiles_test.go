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
	"plimsoll/internal/lab/profiler"
	"plimsoll/internal/lab/stacks"
	"plimsoll/internal/lab/symbols"
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

// fakeThreads is a profiler of threads.
type fakeThreads struct {
	profiler.Threads
	fail error
}

func (f fakeThreads) Take(context.Context, time.Duration) (profiler.Threads, error) {
	return f.Threads, f.fail
}

// one returns a profile with a sample of this function.
func one(t *testing.T, function string) *profile.Profile {
	b := stacks.NewBuilder(1)
	if err := b.Add([]stacks.Frame{{Function: function}}, 1, 1e7); err != nil {
		t.Fatal(err)
	}
	return b.Profile()
}

// compiled is a profiler of the processor whose samples are of code without names.
type compiled struct{ t *testing.T }

func (c compiled) Take(context.Context, time.Duration) (*profile.Profile, error) {
	return one(c.t, symbols.Unnamed), nil
}

func TestThreadsShowWhatNoOtherProfileNames(t *testing.T) {
	plan := func(phase string) measure.StepPlan {
		return measure.StepPlan{Phase: phase, Length: int64(profileMaking + time.Millisecond)}
	}
	threads := fakeThreads{Threads: profiler.Threads{
		Processor: one(t, "shop.Cart.total"), Waits: one(t, "shop.Rates.of"),
	}}
	for name, c := range map[string]struct {
		processor processorProfiler
		want      string
	}{
		"nothing else":  {nil, "shop.Cart.total"},
		"names":         {fake{}, "score"},
		"without names": {compiled{t}, "shop.Cart.total"},
		"a failure":     {fake{errors.New("not allowed")}, "shop.Cart.total"},
	} {
		h := &harness{threads: threads, processor: c.processor}
		taken := h.profiles("")(t.Context(), plan(measure.PhaseAtLine))
		p, err := profile.ParseData(taken["cpu"])
		if err != nil || p.Function[0].Name != c.want {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		waits, err := profile.ParseData(taken["mutex"])
		if err != nil || waits.Function[0].Name != "shop.Rates.of" {
			t.Errorf("%s: waits for locks: %v, %v", name, waits, err)
		}
	}
	h := &harness{threads: threads}
	if taken := h.profiles("")(t.Context(), plan(measure.PhaseOverload)); len(taken) != 1 {
		t.Errorf("%d profiles beyond the line, want that of the processor", len(taken))
	}
	h = &harness{threads: fakeThreads{fail: errors.New("it refuses")}}
	if taken := h.profiles("")(t.Context(), plan(measure.PhaseAtLine)); len(taken) != 0 ||
		len(h.notes) != 1 || h.notes[0] != "it refuses" {
		t.Errorf("one that refuses: %d profiles, and %q is noted", len(taken), h.notes)
	}
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
