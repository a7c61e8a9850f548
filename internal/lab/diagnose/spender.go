package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// Spender is a function of the service that uses processor time, including what it calls in
// libraries; or a library, if it is not known who calls it, with what it is for instead of a file.
type Spender struct {
	profile.Place
	// PerRequest and AtHalf are the processor seconds per request, at the line and at half of it.
	// An increase from half to the line is overhead. AtHalf is 0 if it is not known.
	PerRequest float64 `json:"seconds_per_request"`
	AtHalf     float64 `json:"seconds_per_request_at_half"`
}

// spendersTold is how many spenders are reported.
const spendersTold = 5

// spenders returns the functions that use the most processor time at the line; nil without a
// profile.
func (e *Evidence) spenders() (all []Spender) {
	atLine, half := e.AtLine.Profile(kindCPU), e.Half.Profile(kindCPU)
	if atLine == nil || e.Classes == nil {
		return nil
	}
	for _, at := range atLine.Top(profile.CPU, spender, spendersTold) {
		if at.Share < leastTold {
			break
		}
		if does := binaryOf(profile.Frame{Function: at.Function}); does != "" {
			at.File, at.Line = does, 0
		}
		all = append(all, Spender{
			Place:      at,
			PerRequest: at.Share * e.AtLine.PerRequest(measure.TargetCPU),
			AtHalf: shareOf(half, profile.CPU, at.Function, spender) *
				e.Half.PerRequest(measure.TargetCPU),
		})
	}
	return all
}

// kernelEvents are what survey --deep has the kernel count: names of samples, and what they mean.
var kernelEvents = []struct {
	name, what string
	request    bool // reported per request, and not per second
}{
	{measure.BPFOffCPURunnable, "its threads could run and waited for a processor", true},
	{measure.BPFOffCPUWaiting, "its threads waited for something else", true},
	{measure.PerfContextSwitches, "its threads left a processor", true},
	{measure.PerfMigrations, "its threads were moved to another processor", true},
	{measure.PerfBranchMisses, "branches guessed wrong", true},
	{measure.BPFRetransmits, "segments sent again in its network namespace", false},
}

// kernel returns what the kernel counted for the target at the line and at half of it; empty if the
// survey did not have it count.
func (e *Evidence) kernel() (all []Fact) {
	tell := func(what, name string, at func(m *Moment) string) {
		f := Fact{What: what, Value: at(e.AtLine)}
		if e.Half.Has(name) {
			f.Value += ", at half of the line " + at(e.Half)
		}
		all = append(all, f)
	}
	for _, v := range kernelEvents {
		if !e.AtLine.Has(v.name) {
			continue
		}
		tell(v.what, v.name, func(m *Moment) string {
			seconds := strings.HasSuffix(v.name, "_seconds")
			switch {
			case seconds:
				return span(m.PerRequest(v.name)) + " a request"
			case v.request:
				return number(m.PerRequest(v.name)) + " a request"
			}
			return perSecond(m.PerSecond(v.name))
		})
	}
	if e.AtLine.PerSecond(measure.PerfCycles) > 0 {
		tell("instructions for each cycle", measure.PerfCycles, func(m *Moment) string {
			return number(m.PerSecond(measure.PerfInstructions) /
				max(m.PerSecond(measure.PerfCycles), 1))
		})
	}
	if e.AtLine.PerSecond(measure.PerfCacheReferences) > 0 {
		tell(
			"accesses to the last cache that missed it",
			measure.PerfCacheReferences,
			func(m *Moment) string {
				return percent(m.PerSecond(measure.PerfCacheMisses) /
					max(m.PerSecond(measure.PerfCacheReferences), 1))
			},
		)
	}
	return append(all, e.lossy()...)
}

// lossy returns the connections with the most retransmitted segments at the line.
func (e *Evidence) lossy() (all []Fact) {
	const told = 3
	type connection struct {
		name  string
		again float64
	}
	var worst []connection
	for name, again := range e.AtLine.last() {
		at, ok := strings.CutPrefix(name, measure.BPFRetransmitsOf)
		if !ok {
			continue
		}
		// A connection that had lost nothing before is not in the first sample.
		if again -= e.AtLine.Step.Samples[0].Values[name]; again > 0 {
			worst = append(worst, connection{at, again})
		}
	}
	slices.SortFunc(worst, func(a, b connection) int {
		return cmp.Or(cmp.Compare(b.again, a.again), cmp.Compare(a.name, b.name))
	})
	for _, c := range worst[:min(len(worst), told)] {
		all = append(all, Fact{
			What:  fmt.Sprintf("segments sent again by the connection %s", c.name),
			Value: number(c.again),
		})
	}
	return all
}
