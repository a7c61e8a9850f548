package diagnose

import (
	"math"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// Reserve is a resource of which each request uses a known amount.
type Reserve struct {
	What string // its name, for a person
	// Used is how much of it was in use at the line, and Capacity is how much there is, in
	// processors.
	Used, Capacity float64
	// target says that processor time saved by the target is saved here.
	target bool
}

// Share is how much of it was in use at the line, 0 to 1.
func (r *Reserve) Share() float64 { return r.Used / r.Capacity }

// The names of the reserves.
const (
	targetProcessor = "the target's processor time"
	hostProcessor   = "the machine's processor time"
	sharedLock      = "the lock that its threads share"
)

// saturated is the share of processors in use from which on they are the bottleneck. Requests that
// arrive at random already wait for a processor as long as they are served when 80 % of two
// processors are in use.
const saturated = .8

// waited is the share of processors in use from which on they may be the bottleneck if no other one
// is found: about every other request then waits for a processor. It is 60 % for two processors,
// and higher for more.
func (r *Reserve) waited() float64 { return max(.4, min(1-.57/math.Sqrt(r.Capacity), saturated)) }

// waitedFor reports whether requests wait for the busiest of the processors.
func (e *Evidence) waitedFor() bool {
	r := e.busiest()
	return r != nil && r.Share() >= r.waited()
}

// busiest returns the reserve with the largest share in use; nil if there is none.
func (e *Evidence) busiest() (most *Reserve) {
	for i := range e.Reserves {
		if r := &e.Reserves[i]; most == nil || r.Share() > most.Share() {
			most = r
		}
	}
	return most
}

// ofTheThread is the minimum share of the target's processor time that its busiest thread uses if
// that thread is an event loop, and not one thread of a pool.
const ofTheThread = .6

// busiestThread returns the processor of the target's busiest thread as a reserve: an event loop,
// or an interpreter's lock, leaves the target no more than that. It returns nil if that is not
// known, for threads that share the work or are as busy at half of the line, and for Go, whose
// runtime moves work between threads.
func (e *Evidence) busiestThread() *Reserve {
	used := e.AtLine.Median(measure.TargetThreadsHottest)
	if e.movesWork() || used == 0 || used < ofTheThread*e.AtLine.PerSecond(measure.TargetCPU) ||
		e.Half.Has(measure.TargetThreadsHottest) &&
			used < 1.2*e.Half.Median(measure.TargetThreadsHottest) {
		return nil
	}
	return &Reserve{What: "the processor of its busiest thread", Used: min(used, 1), Capacity: 1}
}

// threadWaitedFor reports whether requests wait for the busiest thread.
func (e *Evidence) threadWaitedFor() bool {
	r := e.busiestThread()
	return r != nil && r.Share() >= r.waited()
}

// computesAlone reports whether requests wait for a thread that computes, and the runtime has no
// setting such as GOMAXPROCS that gives it further threads.
func (e *Evidence) computesAlone() bool {
	return !e.movesWork() && (e.threadWaitedFor() || e.waitsToCompute() || e.sharesItsLock())
}

// movesWork reports whether the target's runtime moves work between threads, or is not known.
func (e *Evidence) movesWork() bool {
	r := e.Run.Manifest.Machine.TargetRuntime
	return r == "" || r == measure.RuntimeGo
}

// reserves returns the resources that the samples at the line show.
func reserves(e *Evidence) (all []Reserve) {
	m := e.AtLine
	cores := m.Last(measure.HostCores)
	if cores == 0 {
		return nil
	}
	if m.Has(measure.TargetCPU) {
		all = append(all, Reserve{
			What:     targetProcessor,
			Used:     m.PerSecond(measure.TargetCPU),
			Capacity: e.allowed(cores),
			target:   true,
		})
	}
	if m.Has(measure.HostCPU) {
		all = append(all, Reserve{
			What:     hostProcessor,
			Used:     m.PerSecond(measure.HostCPU),
			Capacity: cores,
			target:   m.Has(measure.TargetCPU),
		})
	}
	return all
}

// allowed returns how many processors the target may use at once.
func (e *Evidence) allowed(cores float64) float64 {
	cores = e.granted(cores)
	if n := e.maxProcs(); n > 0 {
		cores = min(cores, n)
	}
	return cores
}

// granted returns how many of the machine's processors the system lets the target use: by affinity
// and cpusets, and by its cgroup's quota.
func (e *Evidence) granted(cores float64) float64 {
	cores = e.pinned(cores)
	if quota := e.AtLine.Last(measure.TargetCgroupCPUQuota); quota > 0 {
		cores = min(cores, quota)
	}
	return cores
}

// pinned returns how many of the machine's processors the target may run on.
func (e *Evidence) pinned(cores float64) float64 {
	if n := e.AtLine.Last(measure.TargetCoresAllowed); n > 0 {
		cores = min(cores, n)
	}
	return cores
}

// reserve returns the reserve with a name; nil if it is not known.
func (e *Evidence) reserve(what string) *Reserve {
	for i := range e.Reserves {
		if e.Reserves[i].What == what {
			return &e.Reserves[i]
		}
	}
	return nil
}

// busy returns the share of a reserve that was in use at the line; 0 if it is not known.
func (e *Evidence) busy(what string) float64 {
	if r := e.reserve(what); r != nil {
		return r.Share()
	}
	return 0
}

// fullBeyond reports whether beyond the line, where about as much ends well as at it or more, all
// processors of the machine are busy.
func (e *Evidence) fullBeyond() bool {
	const full = .95
	return e.busyBeyond() >= full && e.Over.Goodput() >= .8*e.AtLine.Goodput()
}

// busyBeyond returns the share of the machine's processors in use beyond the line; 0 if unknown.
func (e *Evidence) busyBeyond() float64 {
	if cores := e.Over.Last(measure.HostCores); cores > 0 {
		return e.Over.PerSecond(measure.HostCPU) / cores
	}
	return 0
}

// processorBound reports whether the line is where it is because processors were busy: those that
// the target may use, or all of the machine's.
func (e *Evidence) processorBound() bool {
	return e.busy(targetProcessor) >= saturated || e.busy(hostProcessor) >= saturated
}

// idle reports whether neither the target's nor the machine's processors were busy at the line, so
// that requests were waiting for something else. It is false if no line was found, because then
// nothing was seen to saturate.
func (e *Evidence) idle() bool { return e.found() && len(e.Reserves) > 0 && !e.processorBound() }

// found reports whether the survey found the line, or at least a rate that was too much. Only then
// do the steps below it show the state in which something saturates.
func (e *Evidence) found() bool {
	r := e.Run.Result
	return r != nil &&
		(r.Line.Found || slices.ContainsFunc(r.Judgements, func(j record.Judgement) bool {
			return j.Verdict == record.Fail
		}))
}

// others returns how many processors were used at the line by processes other than the target and
// the generator; 0 if that is not known.
func (e *Evidence) others() float64 {
	host, target := e.reserve(hostProcessor), e.reserve(targetProcessor)
	if host == nil || target == nil {
		return 0
	}
	t := &e.AtLine.Step.Totals
	generator := float64(t.Generator.CPU) / max(float64(t.Length+t.Drain), 1)
	if e.Run.Manifest.Machine.Apart {
		generator = 0
	}
	return max(host.Used-target.Used-generator, 0)
}

// full is the use of processors that a service reaches at its line when nothing else limits it. It
// is higher if the service was seen to use more.
func (e *Evidence) full() float64 {
	most := .95
	for i := range e.Reserves {
		most = max(most, min(e.Reserves[i].Share(), 1))
	}
	return most
}

// most bounds every predicted gain: beyond it, something that was not measured is the bottleneck.
const most = 20

// cheaper is how a request's processor time falls with the rate: as the rate to the power of
// -cheaper. A thread or loop finds more to do each time that it wakes up, so at twice the rate a
// request costs a tenth less. This is the median of 25 services between half of their line and the
// line, where it was 0.145. With 0, the gain of cured services was predicted 17 % too low on
// average, and was off by more than 1.5 times for five of 25; with this value, for two. Fitting it
// to the two steps of each run is too noisy: four were off.
const cheaper = .15

// cure is what following advice changes.
type cure struct {
	// saves is the share of the target's processor time that is saved, 0 to 1. elsewhere is how
	// many processors other processes of the machine save.
	saves, elsewhere float64
	// allowed is how many processors the target may use afterwards; 0 leaves it as it is.
	allowed float64
	// turns says that the target still computes for one request at a time.
	turns bool
}

// headroom returns how many times as much the existing processors can do after a cure, at a
// request's cost then, and which of them saturates first. The factor is infinite if no use of
// processors is known.
func (e *Evidence) headroom(c cure) (factor float64, next string) {
	factor = math.Inf(1)
	saved := 0.0
	if t := e.reserve(targetProcessor); t != nil {
		saved = c.saves * t.Used
	}
	for i := range e.Reserves {
		r := &e.Reserves[i]
		used, capacity := r.Used, r.Capacity
		if r.target {
			used -= saved
		}
		switch {
		case r.What == hostProcessor:
			used -= c.elsewhere
		case c.allowed > 0:
			capacity = c.allowed
		}
		if f := e.full() * capacity / max(used, 1e-3); f < factor {
			factor, next = f, r.What
		}
	}
	// The busiest thread, or the lock of an interpreter, saves what the target does. If the cure is to
	// use more processors, other threads take work from it.
	r := e.busiestThread()
	switch {
	case r != nil:
	case e.sharesItsLock():
		r = &Reserve{What: sharedLock, Capacity: 1,
			Used: min(e.AtLine.PerSecond(measure.TargetCPUUser), 1)}
	case c.turns:
		r = &Reserve{What: sharedLock, Capacity: 1,
			Used: min(e.AtLine.PerSecond(measure.TargetCPU), 1)}
	}
	if r != nil && c.allowed == 0 {
		if f := e.full() / max(r.Used*(1-c.saves), 1e-3); f < factor {
			factor, next = f, r.What
		}
	}
	return factor, next
}

// gain returns the factor by which the line grows after a cure, if everything else that limited
// requests is gone. The next bottleneck is then the processor that saturates first.
func (e *Evidence) gain(c cure) Gain {
	factor, next := e.headroom(c)
	if math.IsInf(factor, 1) {
		return Gain{
			Factor: 1,
			Low:    1,
			High:   most,
			Why:    "the next bottleneck is not known, because no processor time was sampled",
		}
	}
	factor = min(math.Pow(max(factor, 1), 1/(1-cheaper)), most)
	return Gain{
		Factor: factor,
		Low:    max(factor/1.5, 1),
		High:   min(factor*1.5, most),
		Why:    "the next bottleneck is then " + next,
	}
}
