package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// runsOn is a diagnosis of a service of a runtime.
func runsOn(t *testing.T, runtime string, lines ...string) *Diagnosis {
	t.Helper()
	run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t)
	run.Manifest.Machine.TargetRuntime, run.Manifest.Machine.TargetPID = runtime, 77
	return Run(run)
}

const usedBy = " target.threads.cpu_seconds."

func TestACollectorIsSeenByItsThreads(t *testing.T) {
	room := []string{
		"all target.memory.rss_bytes = 300000000", "all host.memory.available_bytes = 4000000000",
	}
	for name, c := range map[string]struct {
		runtime string
		lines   []string
		says    []string // empty: no finding
	}{
		"HotSpot's parallel threads": {
			measure.RuntimeJVM,
			[]string{
				"half" + usedBy + "GC Thread += .1", "at-line" + usedBy + "GC Thread += .6",
				"at-line" + usedBy + "http-nio- += .8",
			},
			[]string{"(the JVM) takes 40.0 %", "MaxRAMPercentage", "GC.heap_dump", "jstat -gcutil 77"},
		},
		"the serial collector": {
			measure.RuntimeJVM,
			[]string{"at-line" + usedBy + "VM Thread += .45"},
			[]string{"takes 30.0 %", "UseParallelGC", "MaxRAMPercentage"},
		},
		"one that works beside the service, and takes the processors": {
			measure.RuntimeJVM,
			[]string{"at-line" + usedBy + "ZWorkerYoung += .3", "at-line" + usedBy + "ZWorkerOld += .15"},
			[]string{"takes 30.0 %"},
		},
		"one that takes what requests wait for": {
			measure.RuntimeJVM,
			[]string{
				"at-line host.cpu.busy_seconds += 1.4", "at-line target.cpu.seconds += 1.2",
				"at-line" + usedBy + "G1 Conc += .6",
			},
			[]string{"takes 50.0 %"},
		},
		".NET's server collector": {
			measure.RuntimeDotNet,
			[]string{"at-line" + usedBy + ".NET Server GC += .6"},
			[]string{"(.NET) takes 40.0 %", "DOTNET_GCHeapHardLimit", "DOTNET_gcServer"},
		},
		"little of it":        {measure.RuntimeJVM, []string{"at-line" + usedBy + "GC Thread += .2"}, nil},
		"the compiler's":      {measure.RuntimeJVM, []string{"at-line" + usedBy + "C2 CompilerThre += .9"}, nil},
		"V8's do other work":  {measure.RuntimeNode, []string{"at-line" + usedBy + "V8 Worker += .9"}, nil},
		"another's of a name": {measure.RuntimeRust, []string{"at-line" + usedBy + "GC Thread += .9"}, nil},
		"one that works on processors that are idle": {
			measure.RuntimeJVM,
			[]string{
				"all host.cores = 8", "at-line" + usedBy + "ZWorker += .6",
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := runsOn(t, c.runtime, append(room, c.lines...)...)
			f := d.found("gc-heavy")
			if c.says == nil {
				if f != nil {
					t.Errorf("it is claimed: %s", f.Claim)
				}
				return
			}
			if f == nil {
				t.Fatalf("found %v, held back %+v, not judged %+v", names(d), d.HeldBack, d.NotJudged)
			}
			for _, words := range c.says {
				if !f.says(words) {
					t.Errorf("%q is not said: %+v", words, f)
				}
			}
			if f.says("GOGC") || f.Gain.Factor <= 1 || f.Gain.Factor > 2.5 ||
				f.Evidence[0].Threshold == "" || f.Verify.Text == "" {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestACollectorThatHasNoThreadsIsNotJudgedByThem(t *testing.T) {
	for runtime, judged := range map[string]bool{
		measure.RuntimeJVM: true, measure.RuntimeCPython: false, measure.RuntimeNode: false,
		measure.RuntimeGo: false,
	} {
		d := runsOn(t, runtime, "at-line"+usedBy+"main += .5")
		lacks := slices.ContainsFunc(d.NotJudged, func(n NotJudged) bool {
			return n.Rule == "gc-heavy"
		})
		if lacks == judged {
			t.Errorf("%s: not judged %+v", runtime, d.NotJudged)
		}
	}
}

func TestACollectorInAProfileIsAdvisedInItsRuntimesWords(t *testing.T) {
	d := runsOn(t, measure.RuntimeNode,
		"at-line profile cpu nanoseconds 2000000000 (garbage collector) < (root)",
		"at-line profile cpu nanoseconds 2000000000 render < (root)")
	f := d.found("gc-heavy")
	if f == nil || !f.says("max-semi-space-size") || f.says("GOGC") {
		t.Errorf("found %v: %+v", names(d), f)
	}
}

func TestACollectorThatAServiceCallsIsNotBlamedOnItsGarbage(t *testing.T) {
	calls := []string{
		"all go.allocated_bytes += 6000000", "all go.heap.live_bytes = 20000000",
		"all go.heap.goal_bytes = 40000000",
		"at-line profile cpu cpu 300000000 runtime.gcDrain < runtime.gcBgMarkWorker",
		"at-line profile cpu cpu 700000000 main.work < main.handle < net/http.(*conn).serve",
		"over profile goroutine goroutines 9 runtime.gopark < runtime.GC < main.tidy < main.handle",
		"at-line target.cpu.seconds += 1", "half target.cpu.seconds += .5",
	}
	f := runsOn(t, measure.RuntimeGo, append(calls, "all go.gc.cycles += 100")...).found("gc-heavy")
	if f == nil || !f.says("main.tidy") || !f.says("runtime") || f.says("GOGC=") {
		t.Errorf("%+v", f)
	}
	// Garbage alone explains collections that are only as frequent as the heap fills.
	f = runsOn(t, measure.RuntimeGo, append(calls, "all go.gc.cycles += .3")...).found("gc-heavy")
	if f == nil || f.says("main.tidy") || !f.says("GOGC=") {
		t.Errorf("%+v", f)
	}
}

func TestWhatMostCollectionsOfAJVMComeForIsSaid(t *testing.T) {
	lines := []string{
		"at-line" + usedBy + "GC Thread += .6",
		"at-line target.gc.collected_for.G1 Evacuation Pause += 2",
	}
	asked := append(lines, "at-line target.gc.collected_for.System.gc() += 30")
	f := runsOn(t, measure.RuntimeJVM, asked...).found("gc-heavy")
	if f == nil || !f.says("the service asks for them itself (System.gc())") ||
		!namesPlace(f, "DisableExplicitGC") {
		t.Errorf("found %+v", f)
	}
	large := append(lines, "at-line target.gc.collected_for.G1 Humongous Allocation += 30")
	if f := runsOn(t, measure.RuntimeJVM, large...).found("gc-heavy"); f == nil ||
		!namesPlace(f, "HeapRegionSize") {
		t.Errorf("found %+v", f)
	}
	// Collections that the service asks for are not needed, so a smaller share is enough.
	asked[0] = "at-line" + usedBy + "GC Thread += .2"
	if f := runsOn(t, measure.RuntimeJVM, asked...).found("gc-heavy"); f == nil {
		t.Error("a seventh of the processor time for System.gc() is not found")
	}
	lines[0] = asked[0]
	if f := runsOn(t, measure.RuntimeJVM, lines...).found("gc-heavy"); f != nil {
		t.Errorf("a seventh for what is needed: %s", f.Claim)
	}
}
