package harness

import (
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
