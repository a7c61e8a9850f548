package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// gang is the threads of one name that collect garbage and do hardly anything else.
type gang struct {
	begins string // prefix of their names; the kernel keeps 15 characters of a name
	// stops says that the service stands still while they work. What the other threads do on
	// processors that would be idle slows nothing down.
	stops bool
}

// collectors are the threads that collect garbage, by runtime. V8's workers are left out because
// they also compile. CPython and Ruby are left out because they collect on the thread that
// allocates.
var collectors = map[string][]gang{
	measure.RuntimeJVM: {
		{begins: "GC Thread", stops: true},      // G1 and the parallel collector
		{begins: "GC task thread", stops: true}, // the same, up to Java 8
		{begins: "ParGC", stops: true},
		{begins: serialCollector, stops: true},
		{begins: "G1 "},
		{begins: "Concurrent Mark"},
		{begins: "ZWorker"},
		{begins: "XWorker"},
		{begins: "Shenandoah"},
	},
	measure.RuntimeDotNet: {
		{begins: ".NET Server GC", stops: true},
		{begins: ".NET BGC"},
	},
}

// serialCollector is the HotSpot thread that collects if the serial collector is in use.
const serialCollector = "VM Thread"

// collection is the processor time that garbage-collecting threads used at the line, as shares of
// the target's processor time.
type collection struct {
	share, stopped float64  // in total, and while the service stood still
	atHalf         float64  // in total, at half of the line
	names          []string // threads with at least leastTold of it, the largest first
}

// collecting adds up the threads that collect garbage. It returns nil if the runtime has no threads
// that do only this, or if threads were not sampled.
func (e *Evidence) collecting() *collection {
	gangs := collectors[e.Run.Manifest.Machine.TargetRuntime]
	atLine, half := e.AtLine.PerSecond(measure.TargetCPU), e.Half.PerSecond(measure.TargetCPU)
	if gangs == nil || atLine == 0 || !e.has(measure.ThreadsCPU) {
		return nil
	}
	c, used := &collection{}, map[string]float64{}
	for name := range e.AtLine.last() {
		thread, is := strings.CutPrefix(name, measure.ThreadsCPU)
		i := slices.IndexFunc(gangs, func(g gang) bool {
			return strings.HasPrefix(thread, g.begins)
		})
		if !is || i < 0 {
			continue
		}
		share := e.AtLine.PerSecond(name) / atLine
		c.share += share
		c.atHalf += e.Half.PerSecond(name) / max(half, 1e-9)
		if gangs[i].stops {
			c.stopped += share
		}
		if share >= leastTold {
			used[thread] = share
		}
	}
	c.names = slices.SortedFunc(maps.Keys(used), func(a, b string) int {
		return cmp.Or(cmp.Compare(used[b], used[a]), strings.Compare(a, b))
	})
	return c
}

// blindToCollector says why garbage collection could not have been seen.
func blindToCollector(e *Evidence) string {
	if e.Classes != nil || e.has(measure.GoGCCPU) || e.collecting() != nil ||
		e.has(measure.TargetCollecting) {
		return ""
	}
	return "profile:cpu: this runtime's collector has no threads of its own by which it could be seen"
}

// collectedElsewhere is the finding about the collector of a runtime other than Go's; nil if it
// takes little. Profile and threads measure the same time, so the larger share counts: a profile of
// the language's own functions does not contain the collector, and a profile of a binary without
// symbols does not name it.
func (e *Evidence) collectedElsewhere() *Finding {
	share, c := e.Classes[classCollector], e.collecting()
	facts := []Fact{{
		What:  "garbage collection, at the line",
		Value: percent(share) + " of the processor time, by the profile",
	}}
	if c != nil {
		counts := c.stopped
		if e.waitedFor() {
			counts = c.share
		}
		if counts > share {
			share = counts
			facts = []Fact{
				{
					What: "threads that collect garbage (" + strings.Join(c.names, ", ") +
						"), at the line and at half of it",
					Value: percent(c.share) + " and " + percent(c.atHalf) +
						" of the processor time",
				},
				{
					What:  "of that while the service stands still",
					Value: percent(c.stopped),
				},
			}
		}
	}
	of, used := "processor time", max(share, collectorFair)
	asked, least := e.mayTake()
	if stopped := e.stoppedFor(); stopped > least && share <= least {
		share, of = stopped, "time, in which the service stands still"
		facts = []Fact{{
			What:  "time near the line for which the collector stopped the service",
			Value: percent(stopped),
		}}
	}
	if share <= least {
		return nil
	}
	rank := Cost
	if e.breaks() != nil || asked { // its cost is not all: requests wait for it to end
		rank = e.costRank()
	}
	l := e.runtime()
	f := &Finding{
		Claim: fmt.Sprintf("Garbage collection%s takes %s of the %s", e.whose(), percent(share),
			of),
		Rank:       rank,
		Confidence: .85,
		Where:      e.allocators(),
		Evidence:   facts,
		Advice:     l.collects,
		saves:      &cure{saves: e.roomier(used)},
	}
	if rank == Binding {
		f.Gain, f.saves = e.gain(*f.saves), nil
	}
	f.Evidence = append(f.Evidence, didNear(e.collected(longPause))...)
	f.Evidence = append(f.Evidence, Fact{
		What:  "memory of the process, at half of the line and at it",
		Value: size(e.Half.Mean(measure.TargetRSS)) + ", " + size(e.AtLine.Mean(measure.TargetRSS)),
	})
	if memory, of := e.memory(); memory > 0 {
		f.Evidence = append(f.Evidence, Fact{
			What: "memory that it may use", Value: size(memory) + " (" + of + ")",
		})
	}
	e.tellReason(f)
	if c != nil && len(c.names) > 0 && c.names[0] == serialCollector {
		f.Advice = append([]Action{{
			Text: "the serial collector is in use, which is chosen where the JVM sees fewer than " +
				"two processors or 1,792 MB: choose another one",
			Command: "java -XX:+UseParallelGC …   # or -XX:+UseG1GC, whose pauses are shorter",
		}}, f.Advice...)
	}
	return f
}

// mayTake reports whether the service asks for collections itself, none of which is needed, and
// what share of the time collections may take.
func (e *Evidence) mayTake() (asked bool, share float64) {
	if why, _ := e.collectedFor(); why != nil && why.cause == bySystemGC {
		return true, collectorMuch / 2
	}
	return false, collectorMuch
}

// roomier is the share of the processor time that a larger heap saves. The cost of a collection
// depends on the live data, and the number of collections on the room beside it: twice the heap
// means at most half of the collections. How much is live is not known from outside.
func (e *Evidence) roomier(share float64) float64 {
	times := 2.0
	if memory, _ := e.memory(); memory > 0 {
		times = max(heapShare*memory/max(e.AtLine.Mean(measure.TargetRSS), 1), 1)
	}
	return min(share*(1-1/times), share-collectorFair)
}

const (
	// byCall is how many times as many collections as the heap needs there must be for the service
	// to have asked for them; oftenest is the minimum number of collections a second.
	byCall   = 3
	oftenest = 1
)

// collectsByCall is the finding that a Go service runs the collector itself: there are far more
// collections than the allocations need to fill the room in the heap. It returns nil if this is not
// so, or not known.
func (e *Evidence) collectsByCall(share float64) *Finding {
	cycles := e.AtLine.PerSecond(measure.GoGCCycles)
	allocated := e.AtLine.PerSecond(measure.GoAllocatedBytes)
	room := e.AtLine.Mean(measure.GoHeapGoal) - e.AtLine.Mean(measure.GoHeapLive)
	if allocated <= 0 || room <= 0 || cycles < oftenest || cycles < byCall*allocated/room {
		return nil
	}
	due := allocated / room
	f := &Finding{
		Claim: fmt.Sprintf("The service has the garbage collector run itself (runtime.GC), which "+
			"takes %s of the processor time: %s times a second where the heap needs %s",
			percent(share), number(cycles), number(due)),
		Rank:       Cost,
		Confidence: .9,
		Evidence: []Fact{
			{
				What:  "garbage collection, at the line",
				Value: percent(share) + " of the processor time",
			},
			{What: "collections, at half of the line and at it", Value: perSecond(
				e.Half.PerSecond(measure.GoGCCycles)) + ", " + perSecond(cycles)},
			{
				What: "collections that the heap needs: what is allocated in a second, and the " +
					"room until the next collection",
				Value: perSecond(due) + ": " + size(allocated) + ", " + size(room),
			},
		},
		Advice: []Action{{
			Text: "take the call out of the path of requests: the collector runs by itself when " +
				"the heap has grown, and debug.SetMemoryLimit bounds the heap where that is what " +
				"it is for",
			Command: `grep -rnE 'runtime\.GC\(|FreeOSMemory|SetGCPercent' --include='*.go' .`,
		}},
		saves: &cure{saves: share * (1 - due/cycles)},
	}
	if p := e.Over.Profile(kindGoroutine); p != nil { // the goroutines that wait for it
		f.Where = p.Top(profile.Goroutine, callsCollector, placesTold)
	}
	if p := e.AtLine.Profile(kindCPU); p != nil && len(f.Where) == 0 {
		f.Where = p.Top(profile.CPU, callsCollector, placesTold)
	}
	if len(f.Where) > 0 {
		f.Claim += ", in " + f.Where[0].Function
	}
	return f
}

// collectorCalls are the functions by which a Go service runs the collector.
var collectorCalls = []string{
	"runtime.GC", "runtime/debug.FreeOSMemory", "runtime/debug.SetGCPercent",
}

// callsCollector returns the place in the service's code from which a stack runs the collector.
func callsCollector(stack []profile.Frame) (at profile.Frame, ok bool) {
	if !slices.ContainsFunc(stack, func(f profile.Frame) bool {
		return slices.Contains(collectorCalls, f.Function)
	}) {
		return at, false
	}
	return profile.FirstUser(stack)
}
