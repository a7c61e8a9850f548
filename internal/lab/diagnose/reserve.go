package diagnose

import (
	"math"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// Reserve is a resource that a known amount of is used for each request.
type Reserve struct {
	What string // for a person
	// Used is how much of it was in use at the line, and Capacity how much there is: processors.
	Used, Capacity float64
	// target says that what the target saves is saved here.
	target bool
}

// Share is how much of it was in use at the line, 0 to 1.
func (r *Reserve) Share() float64 { return r.Used / r.Capacity }

// The names of the reserves.
const (
	targetProcessor = "the target's processor time"
	hostProcessor   = "the machine's processor time"
)

// saturated is the share of processors in use from which on they are the bottleneck. Requests that
// come at random wait for a processor for as long as they are served already at 80 % of two.
const saturated = .8

// waited is the share from which on a reserve of processors may be the bottleneck where no other
// one is found: with so much of it in use about every other request waits for one. That is 60 % of
// two, and more of many.
func (r *Reserve) waited() float64 { return max(.4, min(1-.57/math.Sqrt(r.Capacity), saturated)) }

// waitedFor says that requests wait for the busiest of the processors.
func (e *Evidence) waitedFor() bool {
	r := e.busiest()
	return r != nil && r.Share() >= r.waited()
}

// busiest is the reserve of which the largest share was in use; nil without any.
func (e *Evidence) busiest() (most *Reserve) {
	for i := range e.Reserves {
		if r := &e.Reserves[i]; most == nil || r.Share() > most.Share() {
			most = r
		}
	}
	return most
}

// ofTheThread is the part of the target's processor time that its busiest thread uses at least where
// that thread is an event loop, and not one of those of a pool.
const ofTheThread = .6

// busiestThread is the processor that the target's busiest thread has at most: what an event loop,
// or an interpreter's lock, leaves it. Nil where that is not known, for threads that share the work
// or are as busy without it, and for Go, whose runtime moves work from one thread to another.
func (e *Evidence) busiestThread() *Reserve {
	used := e.AtLine.Median(measure.TargetThreadsHottest)
	if e.movesWork() || used == 0 || used < ofTheThread*e.AtLine.PerSecond(measure.TargetCPU) ||
		e.Half.Has(measure.TargetThreadsHottest) &&
			used < 1.2*e.Half.Median(measure.TargetThreadsHottest) {
		return nil
	}
	return &Reserve{What: "the processor of its busiest thread", Used: min(used, 1), Capacity: 1}
}

// threadWaitedFor says that requests wait for the busiest thread.
func (e *Evidence) threadWaitedFor() bool {
	r := e.busiestThread()
	return r != nil && r.Share() >= r.waited()
}

// computesAlone says that requests wait for a thread that computes, and that no knob of the runtime
// gives it company, as GOMAXPROCS does.
func (e *Evidence) computesAlone() bool {
	return !e.movesWork() && (e.threadWaitedFor() || e.waitsToCompute())
}

// movesWork says that the target's runtime moves work from one thread to another, or is not known.
func (e *Evidence) movesWork() bool {
	r := e.Run.Manifest.Machine.TargetRuntime
	return r == "" || r == measure.RuntimeGo
}

// reserves are the resources that the samples at the line show.
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

// allowed is how many processors the target may use at once.
func (e *Evidence) allowed(cores float64) float64 {
	cores = e.granted(cores)
	if n := e.maxProcs(); n > 0 {
		cores = min(cores, n)
	}
	return cores
}

// granted is how many of the machine's processors the system lets the target use: by affinity and
// cpusets, and by its cgroup's quota.
func (e *Evidence) granted(cores float64) float64 {
	cores = e.pinned(cores)
	if quota := e.AtLine.Last(measure.TargetCgroupCPUQuota); quota > 0 {
		cores = min(cores, quota)
	}
	return cores
}

// pinned is how many of the machine's processors the target may run on.
func (e *Evidence) pinned(cores float64) float64 {
	if n := e.AtLine.Last(measure.TargetCoresAllowed); n > 0 {
		cores = min(cores, n)
	}
	return cores
}

// reserve is one of them by its name; nil where it is not known.
func (e *Evidence) reserve(what string) *Reserve {
	for i := range e.Reserves {
		if e.Reserves[i].What == what {
			return &e.Reserves[i]
		}
	}
	return nil
}

// busy is the share of a reserve that was in use at the line; 0 where it is not known.
func (e *Evidence) busy(what string) float64 {
	if r := e.reserve(what); r != nil {
		return r.Share()
	}
	return 0
}

// processorBound says that the line is where it is because processors were busy: the target's own
// share of them, or all of the machine.
func (e *Evidence) processorBound() bool {
	return e.busy(targetProcessor) >= saturated || e.busy(hostProcessor) >= saturated
}

// idle says that neither was busy at the line, so that requests were waiting for something else.
// Where no line was found nothing was seen to give.
func (e *Evidence) idle() bool { return e.found() && len(e.Reserves) > 0 && !e.processorBound() }

// found says whether the survey found the line, or at least a rate that was too much, so that what
// is seen below it is what it is like when something gives.
func (e *Evidence) found() bool {
	r := e.Run.Result
	return r != nil &&
		(r.Line.Found || slices.ContainsFunc(r.Judgements, func(j record.Judgement) bool {
			return j.Verdict == record.Fail
		}))
}

// others is how many processors other processes than the target and the generator used at the line;
// 0 where it is not known.
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

// full is the use of processors that a service reaches at its line when nothing else limits it;
// more where it has already been seen to.
func (e *Evidence) full() float64 {
	most := .95
	for i := range e.Reserves {
		most = max(most, min(e.Reserves[i].Share(), 1))
	}
	return most
}

// most bounds every predicted gain: beyond it something that nobody has measured is the bottleneck.
const most = 20

// cheaper is how a request's processor time falls with the rate: as rate to the power of -cheaper.
// There is more to do each time that a thread or a loop wakes up, so that twice the rate costs a
// tenth less for each request. That is the median of 25 services between half of their line and the
// line, where it was 0.145; with 0 the gain of cured ones was predicted 17 % too low on average, and
// off by more than 1.5 times in five of 25, with this in two. What a run shows between its own two
// steps is too noisy: four were off.
const cheaper = .15

// cure is what advice changes.
type cure struct {
	// saves is the share of the target's processor time that is no longer needed, 0 to 1; elsewhere
	// is how many processors other processes of the machine no longer use.
	saves, elsewhere float64
	// allowed is how many processors the target may use then; 0 leaves that as it is.
	allowed float64
}

// headroom is how many times as much can be done with the processors that there are when a cure is
// taken, at what a request costs then, and which is saturated first; infinite where no use of them
// is known.
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
	// A thread saves what the target does. Where the cure is to use more processors, others take
	// over from it.
	if r := e.busiestThread(); r != nil && c.allowed == 0 {
		if f := e.full() / max(r.Used*(1-c.saves), 1e-3); f < factor {
			factor, next = f, r.What
		}
	}
	return factor, next
}

// gain is what the line is multiplied by when a cure is taken, and what else limited requests is
// gone: the next bottleneck is then the processor that is saturated first.
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
