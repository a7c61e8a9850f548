package survey

import (
	"fmt"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// A machine may run at a tenth of its speed for a tenth of a second, again and again, because its
// hypervisor gives its processors to others without counting that as steal. One request in a hundred
// is then late at any rate, so no line would be the service's. Windows in which that happened are not
// judged.

const (
	// leastSlowed is how many seconds between two samples have to be slow. Less is hardly noticed by
	// a request.
	leastSlowed = .01
	// leastCalm is the minimum share of a step's windows that are left to judge it by. If there are
	// fewer, all count: the machine is like that.
	leastCalm = 1. / 3
	// littleSlowed is the largest share of the time that may be slow in a survey whose results are
	// the service's.
	littleSlowed = .005
)

// calm reports for each window of a step whether to judge it. A window is left out if the processors
// were slowed down in it, as far as samples tell, or in the one before, from which requests are left
// over.
func calm(s *measure.Step) []bool {
	keep := make([]bool, len(s.Windows))
	for i := range keep {
		keep[i] = true
	}
	for i := 1; i < len(s.Samples); i++ {
		from, to := &s.Samples[i-1], &s.Samples[i]
		if to.Values[measure.HostCPUSlowed]-from.Values[measure.HostCPUSlowed] < leastSlowed {
			continue
		}
		for j := range s.Windows {
			w := &s.Windows[j]
			// Samples are taken a little after a window's end, which is not in the next window.
			if min(w.End(), to.At)-max(w.Start, from.At) > w.Length/5 {
				keep[j] = false
				if j+1 < len(keep) {
					keep[j+1] = false
				}
			}
		}
	}
	return keep
}

// withoutSlow returns the view without the windows that are not calm, and how many these are. keep has
// a value for each of its windows.
func (v *view) withoutSlow(keep []bool) (calm view, left int) {
	for i, k := range keep {
		if !k {
			left++
			continue
		}
		calm.windows = append(calm.windows, v.windows[i])
		if i < len(v.net) {
			calm.net, calm.due = append(calm.net, v.net[i]), append(calm.due, v.due[i])
			calm.ok, calm.seconds = append(calm.ok, v.ok[i]), append(calm.seconds, v.seconds[i])
		}
	}
	if left == 0 || len(calm.net) == 0 || float64(left) > (1-leastCalm)*float64(len(keep)) {
		return *v, 0
	}
	return calm, left
}

// steady checks that the machine kept its speed. ok is false if that was not measured.
func (s *surveyor) steady() (v record.Validity, ok bool) {
	v = record.Validity{What: "the machine kept its speed", OK: true}
	slowed, seconds, left, windows := 0.0, 0.0, 0, 0
	for _, t := range s.trials {
		n := len(t.step.Samples)
		if n < 2 {
			continue
		}
		first, last := &t.step.Samples[0], &t.step.Samples[n-1]
		if _, told := last.Values[measure.HostCPUSlowed]; !told {
			continue
		}
		slowed += last.Values[measure.HostCPUSlowed] - first.Values[measure.HostCPUSlowed]
		seconds += float64(last.At-first.At) / float64(second)
		left, windows = left+t.left, windows+len(t.step.Windows)
	}
	share := slowed / max(seconds, 1e-9)
	v.OK = share <= littleSlowed
	v.Why = fmt.Sprintf("for %s of the time its processors ran at less than a quarter of their speed",
		format.Percent(share))
	if left > 0 {
		v.Why += fmt.Sprintf("; %d of %d windows, in which they did or just had, were not counted",
			left, windows)
	}
	if !v.OK {
		v.Why += "; a hypervisor gives them to others, or they are too hot: survey on a machine, or at a " +
			"time, where they are the service's own"
	}
	return v, seconds > 0
}
