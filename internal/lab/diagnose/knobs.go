package diagnose

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/lab/measure"
)

// The settings that a process may be started with, by what they limit: prefixes of what the
// manifest reports of them.
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

// knobsFor are the settings that matter to a rule's finding.
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

// waitsBy reports whether -t is a time, as for gunicorn, uWSGI and Daphne, and not threads, as for
// Puma.
func (e *Evidence) waitsBy(knob string) bool {
	server := e.Run.Manifest.Machine.TargetServer
	return strings.HasPrefix(knob, "-t") && server != "" && server != "puma"
}

// startedWith returns advice about the settings that the process was started with, if some of them
// matter to a rule.
func (e *Evidence) startedWith(rule string) (all []Action) {
	var set []string
	for _, knob := range e.Run.Manifest.Machine.TargetKnobs {
		if e.waitsBy(knob) {
			continue
		}
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

// knob returns what the process was started with under a name; false if it was not.
func (e *Evidence) knob(name string) (set string, is bool) {
	for _, knob := range e.Run.Manifest.Machine.TargetKnobs {
		if set, is = strings.CutPrefix(knob, name+"="); is {
			return set, true
		}
	}
	return "", false
}

// ofGo returns a setting if the process is known to be Go's, which obeys it; false otherwise.
func (e *Evidence) ofGo(name string) (set string, is bool) {
	if e.Run.Manifest.Machine.TargetRuntime != measure.RuntimeGo {
		return "", false
	}
	return e.knob(name)
}

// overProcs is the largest ratio of processors used to GOMAXPROCS, because threads in the kernel do
// not count against it. A process that uses more has set another GOMAXPROCS by itself, or is
// several processes.
const overProcs = 1.1

// maxProcs returns GOMAXPROCS from the service's metrics page or from its environment; 0 if it is
// not known.
func (e *Evidence) maxProcs() float64 {
	if n := e.AtLine.Last(measure.GoMaxProcs); n >= 1 && !math.IsInf(n, 0) && n == math.Trunc(n) {
		return n
	}
	set, _ := e.ofGo("GOMAXPROCS")
	n, err := strconv.ParseUint(set, 10, 31) // as the runtime does
	used := max(e.AtLine.PerSecond(measure.TargetCPU), e.Over.PerSecond(measure.TargetCPU))
	if err != nil || used > overProcs*float64(n) {
		return 0
	}
	return float64(n)
}

// percentSet returns the GOGC that is set, from the metrics page or from the environment. It is
// negative for "off".
func (e *Evidence) percentSet() (percent float64, is bool) {
	if e.AtLine.Has(measure.GoGCPercent) {
		return e.AtLine.Last(measure.GoGCPercent), true
	}
	set, _ := e.ofGo("GOGC")
	if set == "off" {
		return -1, true
	}
	n, err := strconv.ParseInt(set, 10, 32) // as the runtime does; others leave it at 100
	return float64(n), err == nil
}

// memoryUnits are the units that the runtime accepts after the number of GOMEMLIMIT.
var memoryUnits = []struct {
	name  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// memoryLimit returns the GOMEMLIMIT that is set, in bytes, from the metrics page or from the
// environment; 0 if there is none, or if it is off.
func (e *Evidence) memoryLimit() float64 {
	if limit := e.AtLine.Last(measure.GoMemoryLimit); limit > 0 {
		return limit
	}
	set, _ := e.ofGo("GOMEMLIMIT")
	for _, unit := range memoryUnits {
		if text, is := strings.CutSuffix(set, unit.name); is {
			n, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				return 0
			}
			return float64(n) * unit.bytes
		}
	}
	return 0
}
