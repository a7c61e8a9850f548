package diagnose

import (
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/lab/measure"
)

// The bounds that a process was started with, by what they bound: how what is told of them begins.
var (
	heapKnobs = []string{
		"GOGC=", "GOMEMLIMIT=", "-Xm", "-XX:", "-Xss", "--max-", "MALLOC_", "RUBY_GC_", "DOTNET_gc",
		"DOTNET_GC", "PYTHONMALLOC", "PYTHONTRACEMALLOC",
	}
	coreKnobs = []string{
		"GOMAXPROCS=", "-XX:ActiveProcessorCount", "-Xint", "--single-threaded", "--jitless",
		"--workers", "--processes", "-w", "-i", "-j", "WEB_CONCURRENCY", "PUMA_WORKERS",
		"RUBY_MAX_CPU", "DOTNET_PROCESSOR_COUNT", "TOKIO_WORKER_THREADS", "RAYON_NUM_THREADS",
		"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONASYNCIODEBUG",
		"PYTHONDEVMODE", "-Djdk.virtualThreadScheduler.",
	}
	placeKnobs = []string{
		"UV_THREADPOOL_SIZE", "RAILS_MAX_THREADS", "PUMA_MAX_THREADS", "--threads", "-t",
		"--worker-connections", "--limit-concurrency", "--concurrency", "--connection-limit",
		"DOTNET_ThreadPool", "-Dhttp.maxConnections", "-Dserver.tomcat.",
		"-Djava.util.concurrent.ForkJoinPool.",
	}
	keptKnobs = []string{
		"--keep-alive", "--timeout-keep-alive", "--max-requests", "--limit-max-requests",
	}
	modeKnobs = []string{"NODE_ENV", "RAILS_ENV", "RACK_ENV", "PYTHONDEVMODE"}
)

// knobsFor are those that matter to a finding of a rule.
var knobsFor = map[string][]string{
	"gc-heavy":                        heapKnobs,
	"gc-pauses":                       heapKnobs,
	"leak":                            heapKnobs,
	"single-threaded":                 coreKnobs,
	"cgroup-throttled":                coreKnobs,
	"gomaxprocs-low":                  coreKnobs,
	"gomaxprocs-high":                 coreKnobs,
	"scheduler-latency":               coreKnobs,
	"concurrency-limited":             slices.Concat(coreKnobs, placeKnobs),
	"accept-queue-overflow":           {"--backlog"},
	"backlog-small":                   {"--backlog"},
	"client-connections-closed":       keptKnobs,
	"upstream-connections-not-reused": {"-Dhttp."},
	"files-reopened":                  modeKnobs,
	"logging-hot":                     modeKnobs,
}

// startedWith is what to say of the bounds that the process was started with, where some of them
// matter to a rule.
func (e *Evidence) startedWith(rule string) (all []Action) {
	var set []string
	for _, knob := range e.Run.Manifest.Machine.TargetKnobs {
		if slices.ContainsFunc(knobsFor[rule], func(begins string) bool {
			return strings.HasPrefix(knob, begins)
		}) {
			set = append(set, knob)
		}
	}
	if len(set) == 0 {
		return nil
	}
	return []Action{{
		Text: "it was started with " + strings.Join(set, ", ") + ", by its environment or " +
			"command line: see whether that is what is meant",
	}}
}

// knob is a number that the process was started with; false where it was not, or something else.
func (e *Evidence) knob(name string) (value float64, is bool) {
	for _, knob := range e.Run.Manifest.Machine.TargetKnobs {
		if set, has := strings.CutPrefix(knob, name+"="); has {
			value, err := strconv.ParseFloat(set, 64)
			return value, err == nil
		}
	}
	return 0, false
}

// maxProcs is GOMAXPROCS, as the service's page has it or as the environment does; 0 where it is
// not known.
func (e *Evidence) maxProcs() float64 {
	if n := e.AtLine.Last(measure.GoMaxProcs); n > 0 {
		return n
	}
	if e.Run.Manifest.Machine.TargetRuntime != measure.RuntimeGo {
		return 0
	}
	n, _ := e.knob("GOMAXPROCS")
	return max(n, 0)
}

// percentSet is the GOGC that is set, less than 0 for off, as the page has it or as the environment
// does.
func (e *Evidence) percentSet() (percent float64, is bool) {
	if e.AtLine.Has(measure.GoGCPercent) {
		return e.AtLine.Last(measure.GoGCPercent), true
	}
	if e.Run.Manifest.Machine.TargetRuntime != measure.RuntimeGo {
		return 0, false
	}
	return e.knob("GOGC")
}
