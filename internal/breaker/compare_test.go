//go:build !race

package breaker_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "plimsoll/internal/breaker"
)

var update = flag.Bool("update", false, "write the tables of testdata again")

type contender struct {
	name string
	o    Options
}

// contenders are the modes that are compared; what they do not set is the default. The recorded
// survey has objectives of 50 ms and steps of some seconds, so its breakers are set to those.
func contenders(set string) []contender {
	slow := 500 * time.Millisecond
	if set == "recorded" {
		slow = 50 * time.Millisecond
	}
	adaptive := &Adaptive{LatencyOver: slow}
	slowRatio := fmt.Sprintf("over 50 %% slower than %d ms", slow.Milliseconds())
	all := []contender{
		{"5 failures in a row", Options{ConsecutiveFailures: 5}},
		{"over 40 % failures", Options{FailureRatio: 0.4}},
		{slowRatio, Options{SlowRatio: 0.5, SlowOver: slow}},
		{"adaptive", Options{Adaptive: adaptive}},
		{"failures, slow calls and adaptive", Options{
			FailureRatio: 0.4, SlowRatio: 0.5, SlowOver: slow, Adaptive: adaptive,
		}},
	}
	for i := range all {
		all[i].o.Ramp = 10 * time.Second
		if set == "recorded" {
			all[i].o.OpenFor, all[i].o.Ramp = time.Second, time.Second
		}
	}
	return all
}

// run plays a trace and gives what a mode made of it.
func run(t *testing.T, tr trace, o Options) (score, []Transition) {
	t.Helper()
	var transitions []Transition
	o.OnTransition = func(tr Transition) { transitions = append(transitions, tr) }
	b, err := New(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := play(tr, b, seedOf(tr.name))
	s.judge(tr, transitions)
	return s, transitions
}

func (s *score) add(o score) {
	s.spells, s.found, s.wrong = s.spells+o.spells, s.found+o.found, s.wrong+o.wrong
	s.stuck += o.stuck
	s.toOpen, s.toRecover = append(s.toOpen, o.toOpen...), append(s.toRecover, o.toRecover...)
	s.good, s.refused = s.good+o.good, s.refused+o.refused
	s.bad, s.forwarded = s.bad+o.bad, s.forwarded+o.forwarded
}

// TestModesOnTraces plays the traces against each mode. The tables stand in docs/breaker.md too.
// The defaults were chosen with the set "tuning"; "held" was kept back and run once they stood, and
// so was "recorded".
func TestModesOnTraces(t *testing.T) {
	for _, set := range []string{"tuning", "held", "recorded"} {
		t.Run(set, func(t *testing.T) {
			var whole, each strings.Builder
			fmt.Fprintln(&whole, "| mode | bad spells found | time to open: median, longest "+
				"| wrongly opened | time to recover: median, longest | stuck | good calls refused | bad calls let through |")
			fmt.Fprintln(&whole, "|---|---|---|---|---|---|---|---|")
			fmt.Fprintln(&each, "| trace | mode | found | wrongly opened | time to open | time to recover |")
			fmt.Fprintln(&each, "|---|---|---|---|---|---|")
			traces := readTraces(t, set)
			for _, c := range contenders(set) {
				var sum score
				for _, tr := range traces {
					s, _ := run(t, tr, c.o)
					sum.add(s)
					fmt.Fprintf(&each, "| %s | %s | %d of %d | %d | %s | %s |\n", tr.name, c.name, s.found, s.spells,
						s.wrong, both(s.toOpen), both(s.toRecover))
				}
				fmt.Fprintf(&whole, "| %s | %d of %d | %s | %d | %s | %d | %.1f %% | %.1f %% |\n", c.name, sum.found, sum.spells,
					both(sum.toOpen), sum.wrong, both(sum.toRecover), sum.stuck,
					100*float64(sum.refused)/float64(sum.good), 100*float64(sum.forwarded)/float64(sum.bad))
			}
			golden(t, "testdata/"+set+".md", whole.String()+"\n"+each.String())
			page, err := os.ReadFile("../../docs/breaker.md")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(page), whole.String()) {
				t.Errorf("docs/breaker.md does not hold the table of the set %s:\n%s", set, whole.String())
			}
		})
	}
}

// both is the median and the longest of times.
func both(times []int64) string {
	if len(times) == 0 {
		return "–"
	}
	slices.Sort(times)
	seconds := func(ns int64) string { return fmt.Sprintf("%.1f s", float64(ns)/1e9) }
	if len(times) == 1 {
		return seconds(times[0])
	}
	return seconds(times[len(times)/2]) + ", " + seconds(times[len(times)-1])
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the modes do something else now than %s says; if that is meant, run with -update "+
			"and copy the first table to docs/breaker.md:\n%s", name, got)
	}
}
