package diagnose

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// whileCrowded returns a gauge over all steps in which at least that many requests were under way.
func (e *Evidence) whileCrowded(name string, requests float64) (g gauge) {
	for i := range e.Run.Steps {
		if m := (&Moment{Step: &e.Run.Steps[i]}); requests > 0 && m.inFlight() >= requests {
			g.add(m, name)
		}
	}
	return g
}

// sampledOf returns what follows a prefix in the names of samples, sorted.
func (e *Evidence) sampledOf(prefix string) []string {
	names := map[string]bool{}
	for i := range e.Run.Steps {
		for _, sample := range e.Run.Steps[i].Samples {
			for name := range sample.Values {
				if rest, is := strings.CutPrefix(name, prefix); is {
					names[rest] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// gauge summarizes a gauge over several steps.
type gauge struct {
	least, most, sum float64
	count            int // number of samples
}

func (g *gauge) add(m *Moment, name string) {
	all, _, _ := m.values(name)
	for _, v := range all {
		if g.count++; g.count == 1 {
			g.least = v
		}
		g.least, g.most, g.sum = min(g.least, v), max(g.most, v), g.sum+v
	}
}

func (g *gauge) mean() float64 { return g.sum / max(float64(g.count), 1) }

// fromLine is the share of the line from which on a rate counts as at the line or beyond it.
const fromLine = .95

// fromTheLineOn returns a gauge over all steps near the line and beyond it. A value that is sampled
// rarely may be missing in any single step.
func (e *Evidence) fromTheLineOn(name string) (g gauge) {
	for m := range e.stepsFromTheLine() {
		g.add(m, name)
	}
	return g
}

// stepsFromTheLine yields the steps near the line and beyond it, in their order.
func (e *Evidence) stepsFromTheLine() iter.Seq[*Moment] {
	return func(yield func(*Moment) bool) {
		for i := range e.Run.Steps {
			m := &Moment{Step: &e.Run.Steps[i], near: e.Run.Manifest.Machine.TargetLocal}
			if e.Line > 0 && m.Step.Plan.Rate >= fromLine*e.Line && !yield(m) {
				return
			}
		}
	}
}
