package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// outpaced returns the steps near the line and beyond it in which the generator was the limit. If
// the generator kept up at the same rate or a higher one, it was late by chance, and the step is
// left out.
func (e *Evidence) outpaced() (all []*measure.Step) {
	kept := 0.0
	for _, j := range e.Run.Result.Judgements {
		if j.Verdict != record.Invalid {
			kept = max(kept, j.Rate)
		}
	}
	for i := range e.Run.Steps {
		if s := &e.Run.Steps[i]; s.Totals.Generator.Invalid != "" && s.Plan.Rate > .9*e.Line &&
			s.Plan.Rate > kept {
			all = append(all, s)
		}
	}
	return all
}

// lowest returns the lowest rate of some steps.
func lowest(steps []*measure.Step) float64 {
	return slices.MinFunc(steps, func(a, b *measure.Step) int {
		return cmp.Compare(a.Plan.Rate, b.Plan.Rate)
	}).Plan.Rate
}

// taken is who used the processors of a generator's machine in a step, each in processors.
type taken struct {
	of                string // the machine, for a person
	busy, cores       float64
	generator, target float64 // target includes what it asks on the same machine
	steal             float64
	loops             float64
	names             []string // other processes seen, with what each used, the largest first
}

// others returns what was used by neither the generator, nor the target, nor what the target asks.
func (t *taken) others() float64 { return max(t.busy-t.generator-t.target, 0) }

const (
	// muchTaken is the minimum share of a machine's processors that others take if they are the
	// limit. The kernel's work for the network, which belongs to no process, takes less.
	muchTaken = .25
	// fullLoops is the share of a processor that each of the generator's loops uses if the loops
	// are the limit.
	fullLoops = .8
)

// byOthers reports whether others took processors that the generator, or the target, would have
// needed.
func (t *taken) byOthers() bool {
	return t.busy >= saturated*t.cores && t.others() >= muchTaken*t.cores &&
		(t.loops == 0 || t.generator < fullLoops*t.loops)
}

// taken looks at the machine whose generator was the limit in a step. It returns nil if nothing is
// known about its processors.
func (e *Evidence) taken(s *measure.Step) *taken {
	length := max(float64(s.Totals.Length+s.Totals.Drain), 1)
	g := &s.Totals.Generator
	for i := range g.Remote {
		if r := &g.Remote[i]; r.Invalid != "" && r.HostBusy > 0 {
			return &taken{
				of:        "the machine of the generator " + r.Name,
				busy:      r.HostBusy * float64(r.Cores),
				cores:     float64(r.Cores),
				generator: float64(r.CPU) / length,
				loops:     float64(r.Loops),
			}
		}
	}
	// The machine is the generator's, wherever the target is.
	m := &Moment{Step: s, near: true}
	if len(g.Remote) > 0 || !m.Has(measure.HostCPU) || !m.Has(measure.HostCores) {
		return nil
	}
	t := &taken{
		of:        "the generator's machine",
		busy:      m.PerSecond(measure.HostCPU),
		cores:     m.Last(measure.HostCores),
		generator: float64(g.CPU) / length,
		loops:     float64(g.Loops),
		steal:     m.PerSecond(measure.HostCPUSteal),
		names:     m.othersNamed(),
	}
	if e.Run.Manifest.Machine.TargetLocal {
		t.target = m.PerSecond(measure.TargetCPU)
		for name := range m.last() {
			if strings.HasPrefix(name, measure.Behind) {
				t.target += m.PerSecond(name)
			}
		}
	}
	return t
}

// othersTold is how many other processes are named, and leastOthers is the minimum number of
// processors that each of them uses.
const (
	othersTold  = 3
	leastOthers = .05
)

// othersNamed returns the other processes of the machine that used the most, such as "compile
// 0.81". They are sampled once a second or less often, so the part of a step that is not judged
// counts too.
func (m *Moment) othersNamed() (names []string) {
	if m == nil || !m.near {
		return nil
	}
	type span struct {
		from, to int64
		grown    float64
	}
	spans, first := map[string]*span{}, map[string]float64{}
	for _, s := range m.Step.Samples {
		for name, v := range s.Values {
			process, is := strings.CutPrefix(name, measure.OthersCPU)
			if !is {
				continue
			}
			if spans[process] == nil {
				spans[process], first[process] = &span{from: s.At}, v
			}
			spans[process].to, spans[process].grown = s.At, v-first[process]
		}
	}
	used := map[string]float64{}
	for process, s := range spans {
		used[process] = s.grown / max(float64(s.to-s.from)/1e9, 1e-9)
	}
	for _, process := range slices.SortedFunc(maps.Keys(used), func(a, b string) int {
		return cmp.Or(cmp.Compare(used[b], used[a]), strings.Compare(a, b))
	}) {
		if used[process] >= leastOthers && len(names) < othersTold {
			names = append(names, fmt.Sprintf("%s %s", process, number(used[process])))
		}
	}
	return names
}

// named returns " (compile 0.81, link 0.20)"; empty without names.
func named(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

func judgeTaken(e *Evidence) *Finding {
	if e.Run.Result == nil || e.Run.Result.Line.Found {
		return nil
	}
	var worst *taken
	steps, n := e.outpaced(), 0
	for _, s := range steps {
		t := e.taken(s)
		if t == nil || !t.byOthers() {
			continue
		}
		if n++; worst == nil || t.others() > worst.others() {
			worst = t
		}
	}
	if 2*n <= len(steps) {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("Other processes took %s of the %s processors of %s%s: at %s neither "+
			"the generator nor the service was the limit", number(worst.others()), number(worst.cores),
			worst.of, named(worst.names), rate(lowest(steps))),
		Rank:       Reach,
		Confidence: .9,
		Evidence: []Fact{
			{
				What: "processors in use; by the generator, by the service and what it asks " +
					"there, by others",
				Value: fmt.Sprintf("%s of %s; %s, %s, %s", number(worst.busy), number(worst.cores),
					number(worst.generator), number(worst.target), number(worst.others())),
			},
			{What: "steps that the generator could not offer", Value: fmt.Sprint(len(steps))},
		},
		Gain: Gain{
			Factor: 1,
			Low:    1,
			High:   most,
			Why:    "the service's line was not reached",
		},
	}
	if worst.steal >= leastOthers {
		f.Evidence = append(f.Evidence, Fact{
			What:  "of that for other guests of the hypervisor (steal)",
			Value: number(worst.steal) + " processors",
		})
	}
	return f
}
