package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// bySystemGC is the cause of a collection that a JVM service asks for itself.
const bySystemGC = "System.gc()"

// mostlyFor is the share of the collections that one cause must have to be reported.
const mostlyFor = .5

// reason is a cause of a JVM's collections, by HotSpot's name for it.
type reason struct {
	cause, says string // says follows a claim
	instead     Action
}

var reasons = []reason{
	{
		bySystemGC,
		"the service asks for them itself (System.gc())",
		Action{
			Text: "take the call of System.gc() or Runtime.gc() out of the path of requests, or have " +
				"it do nothing; the collector runs by itself when the heap has been filled. " +
				"Libraries call it too: RMI each hour, NIO where direct buffers run out",
			Command: "grep -rnE '(System|getRuntime\\(\\))\\.gc\\(' src; java -XX:+DisableExplicitGC …",
		},
	},
	{
		"G1 Humongous Allocation",
		"objects of half a region and more are made, which G1 has to find whole regions for " +
			"(G1 Humongous Allocation)",
		Action{
			Text: "make large arrays and buffers once and use them again, or in pieces; or have " +
				"larger regions, so that they are not humongous",
			Command: "java -XX:G1HeapRegionSize=16m …",
		},
	},
	{
		"Metadata GC Threshold",
		"classes are made again and again (Metadata GC Threshold)",
		Action{
			Text: "make class loaders, scripts, proxies and mappers once, and keep them; see which " +
				"classes there are",
			Command: "jcmd PID VM.classloader_stats; jcmd PID GC.class_histogram",
		},
	},
	{
		"GCLocker Initiated GC",
		"native code holds arrays of the heap (GCLocker Initiated GC)",
		Action{Text: "hold arrays for less in native code (GetPrimitiveArrayCritical): compression " +
			"and image libraries do; copy them, or use direct buffers"},
	},
	{
		"Heap Inspection Initiated GC",
		"somebody asks for them from outside (a histogram of the heap)",
		Action{Text: "look for a monitor that runs jmap -histo:live or GC.class_histogram"},
	},
	{
		"Diagnostic Command",
		"somebody asks for them from outside (jcmd GC.run)",
		Action{Text: "look for a monitor or a timer that runs jcmd PID GC.run"},
	},
}

// collectedFor returns the cause of most of a JVM's collections near the line and beyond it, with
// their share. It returns nil if no cause has most of them, or if causes are not known.
func (e *Evidence) collectedFor() (why *reason, share float64) {
	by, all := map[string]float64{}, 0.0
	for i := range e.Run.Steps {
		m := &Moment{Step: &e.Run.Steps[i]}
		if e.Line == 0 || m.Step.Plan.Rate < nearFrom*e.Line {
			continue
		}
		for name := range m.last() {
			if cause, is := strings.CutPrefix(name, measure.TargetCollectedFor); is {
				n := m.Grown(name)
				by[cause], all = by[cause]+n, all+n
			}
		}
	}
	for i := range reasons {
		if n := by[reasons[i].cause]; all > 0 && n >= mostlyFor*all {
			return &reasons[i], n / all
		}
	}
	return nil, 0
}

// tellReason adds the cause of most collections to a finding about a JVM's collector.
func (e *Evidence) tellReason(f *Finding) {
	why, share := e.collectedFor()
	if why == nil {
		return
	}
	f.Claim += ": " + why.says
	f.Evidence = append(f.Evidence, Fact{
		What:  fmt.Sprintf("collections whose cause is %q, near the line and beyond it", why.cause),
		Value: percent(share) + " of them",
	})
	instead := why.instead
	instead.Command = e.filled(instead.Command)
	f.Advice = slices.Concat([]Action{instead}, f.Advice)
}

// leastKept is the minimum growth of a JVM's old generation in bytes.
const leastKept = 16 << 20

// oldCollectors are words in the names of HotSpot's collectors that go through the old generation.
var oldCollectors = []string{"full", "concurrent", "MSC", "MarkSweep", "PSParallelCompact", "CMS"}

// oldCollected reports whether the old generation was collected while it grew, or is half full.
// Until then it also keeps garbage, which grows with the requests in healthy services too.
func (e *Evidence) oldCollected(after float64) bool {
	var first, last float64
	for i := range e.Run.Steps {
		runs, most := 0.0, 0.0
		m := &Moment{Step: &e.Run.Steps[i]}
		for name, n := range m.last() {
			collector, is := strings.CutPrefix(name, measure.TargetCollections)
			if is && slices.ContainsFunc(oldCollectors, func(word string) bool {
				return strings.Contains(collector, word)
			}) {
				runs += n
			}
			if name == measure.TargetOldMost {
				most = n
			}
		}
		if i == 0 {
			first = runs
		}
		if last = runs; most > 0 && after >= most/2 {
			return true
		}
	}
	return last > first
}

// oldGrown returns the memory that each request adds to a JVM's old generation and that collections
// never free. The size of the process says nothing here, because the heap may grow that far before
// it is collected as a whole.
func (e *Evidence) oldGrown() *grown {
	served, all := e.byRequests(measure.TargetOld, 0, nothing)
	if len(served) < fewestSteps {
		return nil
	}
	each, explained := fitted(served, all)
	before, after := all[0], all[len(all)-1]
	for i := range all[1:] {
		if all[i+1] < .97*all[i] {
			return nil // garbage that grew old has been collected after all
		}
	}
	if explained < straight || each < fewestBytes || after-before < leastKept || after < 1.3*before ||
		!e.oldCollected(after) {
		return nil
	}
	return &grown{"memory", measure.TargetOld, before, after, each, size, nil}
}
