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
