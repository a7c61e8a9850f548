package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestWhatTheProcessWasStartedWithIsToldWhereItMatters(t *testing.T) {
	started := func(runtime, knob string, lines ...string) *Diagnosis {
		run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t)
		run.Manifest.Machine.TargetRuntime = runtime
		run.Manifest.Machine.TargetKnobs = []string{"NODE_ENV=test", knob}
		return Run(run)
	}
	one := []string{
		"all host.cores = 4", "half target.cpu.seconds += .5", "at-line target.cpu.seconds += .93",
		"over target.cpu.seconds += .97",
	}
	f := started(measure.RuntimeGo, "GOMAXPROCS=1", one...).found("gomaxprocs-low")
	if f == nil || !f.says("it was started with GOMAXPROCS=1,") {
		t.Errorf("without a page: %+v", f)
	}
	collects := []string{
		"at-line profile cpu nanoseconds 3000000000 runtime.scanobject < runtime.gcBgMarkWorker",
		"at-line profile cpu nanoseconds 3000000000 main.handle < net/http.(*conn).serve",
	}
	f = started(measure.RuntimeGo, "GOGC=20", collects...).found("gc-heavy")
	if f == nil || !f.says("GOGC=20") || f.says("NODE_ENV") ||
		!slices.ContainsFunc(f.Evidence, func(fact Fact) bool { return fact.Value == "20.0" }) {
		t.Errorf("without a page: %+v", f)
	}
	lines := append([]string{"all target.outgoing.to.192.0.2.7:80 = 4"}, stuck...)
	f = started(measure.RuntimeNode, "UV_THREADPOOL_SIZE=2", lines...).found("concurrency-limited")
	if f == nil || !f.says("it was started with UV_THREADPOOL_SIZE=2,") {
		t.Errorf("of libuv: %+v", f)
	}
}

// started is the diagnosis of a fixture whose process was started with some settings, and has no
// metrics page.
func started(t *testing.T, runtime string, knobs []string, lines ...string) *Diagnosis {
	t.Helper()
	run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t)
	run.Manifest.Machine.TargetRuntime, run.Manifest.Machine.TargetKnobs = runtime, knobs
	return Run(run)
}

func TestGOMAXPROCSOfTheEnvironmentIsBelievedOfGoAlone(t *testing.T) {
	one := []string{
		"all host.cores = 4", "half target.cpu.seconds += .5", "at-line target.cpu.seconds += .93",
		"over target.cpu.seconds += .97", "all target.cgroup.cpu_quota_cores = 4",
		"all host.numa_nodes = 2",
	}
	all := []string{"gomaxprocs-low", "gomaxprocs-high", "numa-spread"}
	for _, c := range []struct {
		runtime, knob string
		lines         []string
	}{
		{measure.RuntimeNode, "GOMAXPROCS=1", nil},
		{measure.RuntimeCPython, "GOMAXPROCS=1", nil},
		{"", "GOMAXPROCS=1", nil},
		{measure.RuntimeGo, "GOMAXPROCS=0", nil},
		{measure.RuntimeGo, "GOMAXPROCS=NaN", nil},
		{measure.RuntimeGo, "GOMAXPROCS=0.5", nil},
		{measure.RuntimeGo, "GOMAXPROCS=-1", nil},
		// The process uses more than GOMAXPROCS: it has set another by itself, or is several
		// processes.
		{measure.RuntimeGo, "GOMAXPROCS=1", []string{"over target.cpu.seconds += 1.9"}},
	} {
		d := started(t, c.runtime, []string{c.knob}, append(one, c.lines...)...)
		for _, rule := range all {
			if !slices.ContainsFunc(d.NotJudged, func(n NotJudged) bool {
				return n.Rule == rule
			}) || d.found(rule) != nil {
				t.Errorf("%s with %s %v: %s is judged", c.runtime, c.knob, c.lines, rule)
			}
		}
	}
	d := started(t, measure.RuntimeGo, []string{"GOMAXPROCS=1"}, one...)
	if d.found("gomaxprocs-low") == nil {
		t.Errorf("of Go: found %v", names(d))
	}
}

func TestGOGCThatIsOffLeavesCollectionsToTheMemoryLimit(t *testing.T) {
	collects := []string{
		"at-line profile cpu nanoseconds 3000000000 runtime.scanobject < runtime.gcBgMarkWorker",
		"at-line profile cpu nanoseconds 3000000000 main.handle < net/http.(*conn).serve",
		"all target.memory.rss_bytes = 66000000",
	}
	const usual = "100, unless it is set"
	for name, c := range map[string]struct {
		knobs   []string
		gogc    string
		limited bool
	}{
		"off":            {[]string{"GOGC=off", "GOMEMLIMIT=64MiB"}, "off", true},
		"at the limit":   {[]string{"GOGC=300", "GOMEMLIMIT=67108864"}, "300", true},
		"far below it":   {[]string{"GOGC=20", "GOMEMLIMIT=1GiB"}, "20.0", false},
		"no limit":       {[]string{"GOGC=20", "GOMEMLIMIT=off"}, "20.0", false},
		"not a number":   {[]string{"GOGC=1e2", "GOMEMLIMIT=1.5GiB"}, usual, false},
		"no environment": {nil, usual, false},
	} {
		f := started(t, measure.RuntimeGo, c.knobs, collects...).found("gc-heavy")
		if f == nil {
			t.Errorf("%s: it is not found", name)
			continue
		}
		if !slices.ContainsFunc(f.Evidence, func(fact Fact) bool {
			return fact.What == "GOGC" && fact.Value == c.gogc
		}) || f.says("the memory limit leaves so little room") != c.limited {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestATimeThatAServerWaitsForIsNoNumberOfThreads(t *testing.T) {
	for server, told := range map[string]bool{
		"gunicorn": false, "uwsgi": false, "puma": true, "": true,
	} {
		run := newFixture(t, slices.Concat(strings.Split(base, "\n"), stuck,
			[]string{"all target.outgoing.to.192.0.2.7:80 = 4"})...).open(t)
		run.Manifest.Machine.TargetRuntime = measure.RuntimeCPython
		run.Manifest.Machine.TargetServer = server
		run.Manifest.Machine.TargetKnobs = []string{"-t 30", "-w 2"}
		f := Run(run).found("concurrency-limited")
		if f == nil || f.says("-t 30") != told || !f.says("-w 2") {
			t.Errorf("%q: %+v", server, f)
		}
	}
}
