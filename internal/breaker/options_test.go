package breaker_test

import (
	"math"
	"strings"
	"testing"
	"time"

	. "plimsoll/internal/breaker"
)

func TestOptionsThatCannotBe(t *testing.T) {
	row := func(o Options) Options { o.ConsecutiveFailures = 5; return o }
	adaptive := func(a Adaptive) Options { return Options{Adaptive: &a} }
	for _, c := range []struct {
		name string
		o    Options
		want []string // fields that the error names
	}{
		{"no mode", Options{}, []string{"ConsecutiveFailures", "FailureRatio", "SlowRatio", "Adaptive"}},
		{"a negative row", Options{ConsecutiveFailures: -1}, []string{"ConsecutiveFailures is -1"}},
		{"all must fail and more", Options{FailureRatio: 1}, []string{"FailureRatio is 1"}},
		{"no number", Options{FailureRatio: math.NaN()}, []string{"FailureRatio is NaN"}},
		{"too fine a share", Options{FailureRatio: 1e-9}, []string{"FailureRatio", "millionths"}},
		{"too near 1", Options{FailureRatio: 1 - 1e-9}, []string{"FailureRatio", "millionths"}},
		{"slow without how slow", Options{SlowRatio: 0.5}, []string{"SlowRatio", "SlowOver"}},
		{"how slow without slow", row(Options{SlowOver: time.Second}), []string{"SlowOver", "SlowRatio"}},
		{"a window of nothing", row(Options{Window: time.Second}), []string{"Window", "FailureRatio"}},
		{"a number of nothing", row(Options{MinRequests: 5}), []string{"MinRequests", "FailureRatio"}},
		{"too long a window", Options{FailureRatio: 0.4, Window: 2 * time.Hour}, []string{"Window is 2h0m0s", "1h0m0s"}},
		{"too short a window", Options{FailureRatio: 0.4, Window: 1}, []string{"Window is 1ns", "10ms"}},
		{"open for longer than the clock", row(Options{OpenFor: math.MaxInt64}), []string{"OpenFor", "720h0m0s"}},
		{"open for less than nothing", row(Options{OpenFor: -1}), []string{"OpenFor is -1ns"}},
		{"too many trials", row(Options{Trials: 65}), []string{"Trials is 65", "64"}},
		{"too many successes", row(Options{Successes: math.MaxInt}), []string{"Successes"}},
		{"too long a trial", row(Options{TrialFor: 10000 * time.Hour}), []string{"TrialFor"}},
		{"a start without a ramp", row(Options{RampFrom: 0.5}), []string{"RampFrom", "Ramp"}},
		{"more than everything", row(Options{Ramp: time.Second, RampFrom: 1.5}), []string{"RampFrom is 1.5"}},
		{"a negative ramp", row(Options{Ramp: -time.Second}), []string{"Ramp is -1s"}},
		{"weights of 1.1", adaptive(Adaptive{LatencyWeight: 0.5, ErrorWeight: 0.6}),
			[]string{"LatencyWeight", "ErrorWeight", "SaturationWeight", "1.1"}},
		{"a negative weight", adaptive(Adaptive{LatencyWeight: -1, ErrorWeight: 2}), []string{"LatencyWeight is -1", "ErrorWeight is 2"}},
		{"weights of no number", adaptive(Adaptive{LatencyWeight: math.NaN()}), []string{"LatencyWeight is NaN"}},
		{"saturation above the top", adaptive(Adaptive{SaturationFrom: 1}), []string{"SaturationFrom is 1"}},
		{"a threshold out of its bounds", adaptive(Adaptive{Threshold: 0.7}), []string{"Threshold is 0.7", "ThresholdMin", "ThresholdMax"}},
		{"a threshold that nothing exceeds", adaptive(Adaptive{ThresholdMax: 1}), []string{"ThresholdMax is 1"}},
		{"too long a latency", adaptive(Adaptive{LatencyOver: time.Hour}), []string{"Adaptive.LatencyOver is 1h0m0s"}},
		{"two at once", row(Options{OpenFor: -1, Trials: -1}), []string{"OpenFor", "Trials"}},
	} {
		b, err := New(c.o, 0)
		if err == nil || b != nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q:\n%v", c.name, want, err)
			}
		}
	}
}

func TestOptionsThatMayBe(t *testing.T) {
	for name, o := range map[string]Options{
		"the widest": {
			ConsecutiveFailures: 1e9, FailureRatio: 0.999999, SlowRatio: 0.000001, SlowOver: 30 * 24 * time.Hour,
			Window: time.Hour, MinRequests: 1e9, OpenFor: 30 * 24 * time.Hour, Trials: MaxTrials, Successes: 1e9,
			TrialFor: 30 * 24 * time.Hour, Ramp: 30 * 24 * time.Hour, RampFrom: 1,
		},
		"the narrowest": {ConsecutiveFailures: 1, OpenFor: time.Millisecond, TrialFor: time.Millisecond, Ramp: time.Millisecond},
		"one signal":    {Adaptive: &Adaptive{ErrorWeight: 1}},
	} {
		if _, err := New(o, math.MinInt64); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
