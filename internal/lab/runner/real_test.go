package runner_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/probe"
	"plimsoll/internal/lab/runner"
)

// bench is what a survey asks for.
type bench interface {
	Step(ctx context.Context, p measure.StepPlan, stop func(w *measure.Window) (reason string)) (s *measure.Step, stopped string, err error)
	Settle(ctx context.Context) (took time.Duration, err error)
}

func realRig(t *testing.T, url string) bench {
	t.Helper()
	target, err := load.Resolve(t.Context(), url, load.TLSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request, err := load.Prepare(target, "GET", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return runner.New(runner.Options{Target: target, Script: load.Static("GET /", request, false),
		Sampler: probe.New(probe.Options{PID: os.Getpid()}), Seed: 1})
}

func TestStepsOnARealServer(t *testing.T) {
	defer goleak.VerifyNone(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("ok")) }))
	closed := false
	defer func() {
		if !closed {
			server.Close()
		}
	}()
	b := realRig(t, server.URL)
	s, stopped, err := b.Step(t.Context(), measure.StepPlan{Number: 1, Rate: 400, Arrivals: "constant", Length: 3e9, Connections: 8}, nil)
	if err != nil || stopped != "" {
		t.Fatal(stopped, err)
	}
	if s.Totals.Due != 1200 || s.Totals.Ended[measure.OK] != 1200 || s.Totals.Ended.Total() != 1200 || len(s.Windows) < 3 {
		t.Errorf("%d due, %v, %d windows", s.Totals.Due, s.Totals.Ended, len(s.Windows))
	}
	if len(s.Samples) < 3 || s.Samples[0].Values["target.cpu.seconds"] <= 0 || s.Samples[0].At < 240e6 {
		t.Errorf("%+v", s.Samples)
	}
	if _, err := b.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	s, stopped, err = b.Step(t.Context(), measure.StepPlan{Number: 2, Length: 60e9, Connections: 2},
		func(w *measure.Window) string { return "enough" })
	if err != nil || stopped != "enough" || s.Totals.Ended[measure.OK] == 0 {
		t.Error(stopped, err, s)
	}
	server.CloseClientConnections()
	server.Close()
	closed = true
	if _, _, err := b.Step(t.Context(), measure.StepPlan{Number: 3, Rate: 10, Length: 1e9},
		nil); err == nil || strings.Contains(err.Error(), "\n") {
		t.Error("a target that is gone:", err)
	}
}
