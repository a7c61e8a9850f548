package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"plimsoll/internal/lab/measure"
)

// coreRules are about processors that are idle because the service can only use some of them.
var coreRules = []Rule{
	{
		Name:  "single-threaded",
		Claim: "The service uses some processors to the full, and cannot use the others",
		Needs: []string{measure.TargetCPU, measure.HostCores},
		Threshold: "whole processors in use at the line and no more beyond it, while others are " +
			"idle; by single threads, or where a request's time is processor time; or most " +
			"of the few that its affinity leaves it; or one, by threads of Python or Ruby that take " +
			"turns; or half of one, if one thread does the work of " +
			"all requests and they delay each other by it",
		Reason: "a service that waits for something else uses any share of a processor; one " +
			"that stays at whole processors, while more is asked of it and others are " +
			"idle, has no other thread to use",
		Judge: judgeCores,
		Counters: []Counter{
			{"no other processor was idle", func(e *Evidence) (string, bool) {
				return number(e.idleProcessors()) + " idle", e.AtLine.Has(measure.HostCPU) &&
					e.idleProcessors() < leastIdle
			}},
			{"requests wait for a lock instead", func(e *Evidence) (string, bool) {
				waiting := max(e.lockWaits(), e.locked()) / max(e.AtLine.Inside(), 1e-9)
				return percent(min(waiting, 1)) + " of the time that they take",
					waiting > .25 || e.lockInLine() != nil
			}},
			{"requests sleep between tries instead", func(e *Evidence) (string, bool) {
				sleeping := e.sleepers() / max(e.AtLine.Inside(), 1e-9)
				return percent(min(sleeping, 1)) + " of the time that they take", sleeping > .25
			}},
		},
		Unless: []string{"swapping", "major-faults", "cgroup-throttled", "gomaxprocs-low"},
	},
}

// lockWaits returns how many goroutines wait for locks on average at the line.
func (e *Evidence) lockWaits() float64 {
	waiting := e.AtLine.PerSecond(measure.GoMutexWait)
	if p := e.AtLine.Profile("mutex"); p != nil {
		waiting = max(waiting, p.Total("delay"))
	}
	return waiting
}

// locked returns how many more threads wait for a lock at the line than well below the line, if these
// increase most with the load; 0 otherwise. It does not ask the runtimes in which one thread computes
// at a time, whose own lock the others wait for. Those that wait for the one thread which does the
// work, or for one of the few processors, wait for no other lock.
func (e *Evidence) locked() float64 {
	if e.keptToFew() != nil || e.oneWorks() != nil {
		return 0
	}
	c := e.crowd()
	if c == nil || c.means().kind != kindOf(measure.TargetWaitingFutex) || e.fullThreads() >= 1 ||
		slices.Contains(oneByDesign, e.Run.Manifest.Machine.TargetRuntime) {
		return 0
	}
	return c.atLine - c.half
}

// sleepers returns how many more threads sleep at the line than well below the line, if sleeping
// threads increase most with the load: they try again and again for what another thread has. It
// returns 0 otherwise.
func (e *Evidence) sleepers() float64 {
	c := e.crowd()
	if c == nil || c.means().kind != kindOf(measure.TargetWaitingSleep) {
		return 0
	}
	return c.atLine - c.half
}

const (
	// fullCore is the minimum share of whole processors that a service uses if it has no others.
	// The generator and the kernel take the rest if they share the machine.
	fullCore = .87
	// overCore is how much more of a processor it may use, for collectors and I/O.
	overCore = .12
	// mostlyComputing is the minimum share of processor time in a lone request's time. With less,
	// whole processors in use may be a coincidence.
	mostlyComputing = .5
	// onlyComputing is the same share if requests can wait for little else when there are more of
	// them. A lone request is one at a gentle rate, which sometimes waits for another.
	onlyComputing = .6
)

// leastIdle is how much of a processor must be idle, at the line or beyond it, for the machine to
// have one that the service could use.
const leastIdle = .25

// idleProcessors returns how many of the machine's processors are idle, at the line or beyond it,
// whichever is more: what else runs on a machine comes and goes.
func (e *Evidence) idleProcessors() (most float64) {
	for _, m := range []*Moment{e.AtLine, e.Over} {
		if m.Has(measure.HostCPU) {
			most = max(most, m.Last(measure.HostCores)-m.PerSecond(measure.HostCPU))
		}
	}
	return most
}

// keptFull is the minimum share of its processors that a service uses which may not run on the
// others. Requests wait for each other before they are in use to the full: bollards met its objectives
// up to 60 % of its one processor, and used 74 % beyond the line.
const keptFull = .7

// keptToFew is the finding that the service uses most of the few processors on which it may run,
// while others are idle; nil otherwise.
func (e *Evidence) keptToFew() *Finding {
	all := e.AtLine.Last(measure.HostCores)
	few := e.pinned(all)
	line, over := e.AtLine.PerSecond(measure.TargetCPU), e.Over.PerSecond(measure.TargetCPU)
	r := Reserve{Used: line, Capacity: few}
	if few >= all || e.granted(all) < few || r.Share() < r.waited() ||
		max(line, over) < keptFull*few || e.idleProcessors() < leastIdle {
		return nil
	}
	return &Finding{
		Claim: fmt.Sprintf("The service%s may run on %.0f of the machine's %.0f processors (its CPU "+
			"affinity), and uses %s of them at the line, %s beyond it", e.whose(), few, all,
			number(line), number(over)),
		Rank:       Binding,
		Confidence: .9,
		Evidence: []Fact{
			{
				What: "processors that its processes may run on (affinity, cpuset), and those that " +
					"the machine has",
				Value: fmt.Sprintf("%.0f, %.0f", few, all),
			},
			{
				What:  "processors in use by the service, at the line and beyond it",
				Value: number(line) + ", " + number(over),
			},
			{
				What:  "processors idle, at the line or beyond it",
				Value: number(e.idleProcessors()),
			},
		},
		Advice: []Action{{
			Text: "let it run on all of them: look for taskset, sched_setaffinity, CPUAffinity= of " +
				"systemd, worker_cpu_affinity of nginx and a container's cpuset; a process " +
				"inherits the affinity of the one that starts it, so workers are to be placed " +
				"after they were forked, each by itself",
			Command: e.filled("taskset -pc PID; grep Cpus_allowed_list /proc/PID/task/*/status"),
		}},
		Gain:     e.gain(cure{allowed: all}),
		whatever: true,
	}
}

const (
	// mostOfIt is the minimum share of the service's processor time that one thread uses if it does
	// the work alone.
	mostOfIt = .9
	// halfBusy is how busy that thread is at least. Requests that come while it computes wait for
	// it, so a tail that the objectives bound may be too long when it is half idle: mates met its
	// objectives up to 55 %.
	halfBusy = .5
)

// oneByDesign are the runtimes in which one thread of a process computes at a time. This is not worth
// a finding until that processor is used to the full.
var oneByDesign = []string{measure.RuntimeNode, measure.RuntimeCPython, measure.RuntimeRuby}

// oneWorks is the finding that one thread does the work of all requests, and that they wait for it
// before it is busy all the time; nil otherwise. It needs a second sign: requests delay each other
// as behind one worker, each for the processor time that it takes. A burst may miss the objectives
// at a far lower rate than that worker's, so the line need not be where it was predicted.
func (e *Evidence) oneWorks() *Finding {
	s := e.delays()
	line, over := e.AtLine.Median(measure.TargetThreadsHottest), e.Over.Median(measure.TargetThreadsHottest)
	if !e.found() || slices.Contains(oneByDesign, e.Run.Manifest.Machine.TargetRuntime) ||
		s == nil || s.Workers != 1 || e.computing() < onlyComputing ||
		!near(s.Service, e.AtLine.PerRequest(measure.TargetCPU), 1.3) ||
		line < mostOfIt*e.AtLine.PerSecond(measure.TargetCPU) || max(line, over) < halfBusy ||
		e.idleProcessors() < .5 || e.granted(e.AtLine.Last(measure.HostCores)) < 2 {
		return nil
	}
	return &Finding{
		Claim: fmt.Sprintf("One thread does the work of all requests%s, and the others wait for it: "+
			"it uses %s of a processor at the line, %s beyond it, and %s processors are idle",
			e.whose(), percent(line), percent(over), number(e.idleProcessors())),
		Rank:       Binding,
		Confidence: .8,
		Evidence: []Fact{
			{
				What:  "processors in use by the service, and by its busiest thread, at the line",
				Value: number(e.AtLine.PerSecond(measure.TargetCPU)) + ", " + number(line),
			},
			{
				What:  "requests that it serves at a time, from how they delay each other",
				Value: fmt.Sprintf("1, for %s each: %s at most", span(s.Service), rate(1/s.Service)),
			},
			{
				What: "processor time of a request, and the time that it takes alone",
				Value: fmt.Sprintf("%s of %s (%s)", span(e.gentleCost()), span(e.alone()),
					percent(e.computing())),
			},
		},
		Advice: e.runtime().cores,
		Gain:   e.gain(cure{allowed: e.granted(e.AtLine.Last(measure.HostCores))}),
	}
}

func judgeCores(e *Evidence) *Finding {
	if f := e.keptToFew(); f != nil && e.found() {
		return f
	}
	if f := e.oneWorks(); f != nil {
		return f
	}
	cores := e.granted(e.AtLine.Last(measure.HostCores))
	line, over := e.AtLine.PerSecond(measure.TargetCPU), e.Over.PerSecond(measure.TargetCPU)
	if !e.found() || e.neverAsked() || e.waitsForHelper() != nil || e.waitsForChild() ||
		e.busy(targetProcessor) >= saturated && e.allowed(cores) == cores {
		return nil
	}
	used := max(line, over)
	full := e.fullThreads()
	turns := full < 1 && e.sharesItsLock()
	if turns { // what the kernel does for them takes no turn
		full, used = 1, min(used, 1+overCore)
	}
	k := max(full, math.Round(used))
	computing := e.computing()
	// A tail that the objectives bound is too long well before the processors are full.
	rises := 1.35
	if computing >= onlyComputing {
		rises = 1.6
	}
	// A service that uses a whole processor, and still answers all as quickly as ever, would use more.
	whole := used >= fullCore*k && used <= k+overCore && over <= line*rises && e.queues()
	idle := cores - used
	if k < 1 || k > math.Floor(cores)-1 || idle < .5 || full < 1 && (e.sharesOut() || e.spread()) ||
		full < 1 && !(whole && computing >= mostlyComputing) {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("The service%s uses %.0f of %s processors to the full, and cannot use "+
			"the others: %s at the line, %s beyond it", e.whose(), k, number(cores),
			number(line), number(over)),
		Rank:       Binding,
		Confidence: .75,
		Evidence: []Fact{
			{
				What: "processors in use, at half of the line, at it and beyond",
				Value: number(e.Half.PerSecond(measure.TargetCPU)) + ", " + number(line) + ", " +
					number(over),
			},
			{What: "processors that it may use", Value: number(cores)},
			{
				What: "processor time of a request, and the time that it takes alone",
				Value: fmt.Sprintf("%s of %s (%s)", span(e.gentleCost()), span(e.alone()),
					percent(computing)),
			},
		},
		Advice: e.runtime().cores,
		Gain:   e.gain(cure{allowed: cores}),
		// The other processors may have been idle only beyond the line.
		whatever: e.idleProcessors() >= leastIdle,
	}
	if e.AtLine.Has(measure.TargetThreadsHottest) {
		f.Evidence = append(f.Evidence, Fact{
			What: "share of a processor that its busiest thread uses, at the line and beyond",
			Value: percent(e.AtLine.Median(measure.TargetThreadsHottest)) + ", " +
				percent(e.Over.Median(measure.TargetThreadsHottest)),
		})
	}
	if full >= 1 {
		f.Confidence = .9
	}
	if turns {
		f.Claim += fmt.Sprintf("; its threads take turns, as one of a process computes at a time: "+
			"outside of the kernel they use %s, %s", number(e.AtLine.PerSecond(measure.TargetCPUUser)),
			number(e.Over.PerSecond(measure.TargetCPUUser)))
	}
	if e.poolOfNode(k) {
		f.Claim += "; as many as libuv's pool has threads"
		f.Advice = slices.Concat(e.runtime().widens[:1], f.Advice)
	}
	f.Evidence = append(f.Evidence, e.standFacts()...)
	return f
}

// waitsForChild reports whether a child that the service asks over the network does half of the work, and
// has no further thread.
func (e *Evidence) waitsForChild() bool {
	return slices.ContainsFunc(e.dependencies(), func(d dependency) bool {
		return d.child && d.used >= .5*e.AtLine.PerSecond(measure.TargetCPU) && e.wholeThread(d)
	})
}

// lesserThread is the maximum share of a processor that each of the threads uses which take turns: of
// two processes with a thread each, one uses more.
const lesserThread = .4

// alwaysTaken is the minimum share of the connections to one address that lone requests would take
// if requests wait for these.
const alwaysTaken = .85

// sharesItsLock reports whether one process of Python or Ruby uses one processor to the full with
// threads of which none does so: one of them computes at a time, however much each waits besides. A
// known server may have a second process, which starts the other. What the kernel does for them needs
// no turn. Threads that wait for their turn stand in a futex, as those of a pool that is too small may
// too. Where requests of different sizes wait for their turn, the line is well before it is always
// somebody's.
func (e *Evidence) sharesItsLock() bool {
	m := &e.Run.Manifest.Machine
	if m.TargetRuntime != measure.RuntimeCPython && m.TargetRuntime != measure.RuntimeRuby {
		return false
	}
	n := e.AtLine.Median(measure.TargetProcesses)
	if n == 2 && m.TargetServer != "" {
		n = 1
	}
	hottest := max(e.AtLine.Median(measure.TargetThreadsHottest),
		e.Over.Median(measure.TargetThreadsHottest))
	// Threads that keep a connection each are not a pool of them, if these are not always taken.
	pool := e.places().to != "" && e.places().full >= alwaysTaken
	line, over := e.AtLine.PerSecond(measure.TargetCPUUser), e.Over.PerSecond(measure.TargetCPUUser)
	turns := max(line, over)
	used := max(e.AtLine.PerSecond(measure.TargetCPU), e.Over.PerSecond(measure.TargetCPU))
	rises := 1.35
	if over >= fullCore && over <= 1+overCore {
		rises = 1.8
	}
	return n == 1 && !pool && e.waitsForTurns() &&
		(used <= 1+overCore && line >= .7*e.AtLine.PerSecond(measure.TargetCPU) ||
			turns >= fullCore && turns <= 1+overCore) && used >= fullCore &&
		e.Over.inFlight() >= 4 &&
		hottest > 0 && hottest < lesserThread &&
		e.Over.PerSecond(measure.TargetCPU) <= rises*e.AtLine.PerSecond(measure.TargetCPU)
}

// waitsForTurns reports whether threads stand in a futex because requests do. Either more of them do
// with more load, or beyond the line there are twice as many requests as threads, so that none of a
// pool has nothing to do, and half of them stand there all the same.
func (e *Evidence) waitsForTurns() bool {
	futex := kindOf(measure.TargetWaitingFutex)
	if c := e.crowd(); c != nil && c.means().kind == futex {
		return true
	}
	threads := e.Over.Median(measure.TargetThreads)
	if threads < 3 || e.Over.inFlight() < 2*threads {
		return false
	}
	standing := meanWhere(e.looks()[beyondLine], func(at *stand) bool { return at.kind == futex })
	return standing >= max(threads/2, 2)
}

// farFromFull is the maximum share of a processor that the busiest thread uses if its process is
// one of several that share the work.
const farFromFull = .7

// poolOfNode reports whether a Node process uses as many whole processors as libuv's pool has
// threads. What they compute, such as hashes of passwords and compressed answers, is not on the
// event loop, so further loops are not what it lacks.
func (e *Evidence) poolOfNode(used float64) bool {
	threads := 4.0 // unless it is set
	if set, is := e.knob("UV_THREADPOOL_SIZE"); is {
		threads, _ = strconv.ParseFloat(set, 64)
	}
	return e.Run.Manifest.Machine.TargetRuntime == measure.RuntimeNode && used >= 2 &&
		used == threads && e.AtLine.Median(measure.TargetProcesses) == 1
}

// sharesOut reports whether several processes share the work, and none is near the end of its
// processor: that they use a whole one together is a coincidence. Threads of one process may share
// a lock, as those of Python and Ruby do, and the other process may be a shell that started it; the
// workers of a known server, and processes of Node, compute on one thread each.
func (e *Evidence) sharesOut() bool {
	switch m := &e.Run.Manifest.Machine; m.TargetRuntime {
	case measure.RuntimeNode:
	case measure.RuntimeC, measure.RuntimeCpp, measure.RuntimeRust:
		if m.TargetServer == "" {
			return false
		}
	default:
		return false
	}
	hottest := max(e.AtLine.Median(measure.TargetThreadsHottest),
		e.Over.Median(measure.TargetThreadsHottest))
	return e.AtLine.Median(measure.TargetProcesses) >= 2 && hottest > 0 && hottest < farFromFull
}

// spread reports whether a runtime whose threads are the kernel's has its work in many of them, none
// of which is near the end of its processor: that they use a whole one together is a coincidence, as
// nothing but a lock has them take turns, which another rule sees.
func (e *Evidence) spread() bool {
	switch e.Run.Manifest.Machine.TargetRuntime {
	case measure.RuntimeJVM, measure.RuntimeDotNet:
	default:
		return false
	}
	hottest := max(e.AtLine.Median(measure.TargetThreadsHottest),
		e.Over.Median(measure.TargetThreadsHottest))
	return hottest > 0 && hottest < farFromFull
}

// fullThreads returns how many threads have a processor to themselves, at the line or beyond it. One
// that has little to do at the line, and far more for each request beyond it, is busy with the crowd:
// with tries for a lock, say.
func (e *Evidence) fullThreads() float64 {
	const little, farMore = .35, 2
	line, over := e.AtLine.laterMedian(measure.TargetThreadsFull),
		e.Over.laterMedian(measure.TargetThreadsFull)
	if hottest := e.AtLine.Median(measure.TargetThreadsHottest); over > line && hottest > 0 &&
		hottest < little && e.computing() < onlyComputing &&
		e.Over.PerRequest(measure.TargetCPU) >= farMore*e.AtLine.PerRequest(measure.TargetCPU) {
		return line
	}
	return max(line, over)
}

// computing returns the share of a lone request's time that is processor time, 0 to 1.
func (e *Evidence) computing() float64 { return min(e.gentleCost()/max(e.alone(), 1e-9), 1) }

// gentleCost returns the processor time of a request in seconds at the gentlest rate.
func (e *Evidence) gentleCost() float64 {
	for _, m := range []*Moment{e.Before, e.Half, e.AtLine} {
		if cost := m.PerRequest(measure.TargetCPU); cost > 0 {
			return cost
		}
	}
	return 0
}
