package probe

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

const (
	// maxKnobs bounds the settings to report per process, and longestKnob the length of each.
	maxKnobs, longestKnob = 32, 80
	maxEnvironment        = 256 << 10
)

// variables are the environment variables that limit what a process uses, as whole names. Other
// variables may be secrets: they never leave this file.
var variables = []string{
	"GOGC", "GOMEMLIMIT", "GOMAXPROCS",
	"UV_THREADPOOL_SIZE", "NODE_ENV",
	"MALLOC_ARENA_MAX", "MALLOC_CONF", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
	"WEB_CONCURRENCY", "RAILS_MAX_THREADS", "RAILS_MIN_THREADS", "PUMA_MAX_THREADS",
	"PUMA_WORKERS", "RAILS_ENV", "RACK_ENV", "PYTHONMALLOC", "PYTHONASYNCIODEBUG",
	"PYTHONDEVMODE", "PYTHONTRACEMALLOC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
	"MKL_NUM_THREADS", "RAYON_NUM_THREADS", "TOKIO_WORKER_THREADS",
	"RUBY_GC_HEAP_FREE_SLOTS", "RUBY_GC_HEAP_GROWTH_FACTOR", "RUBY_GC_HEAP_GROWTH_MAX_SLOTS",
	"RUBY_GC_HEAP_INIT_SLOTS", "RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR", "RUBY_GC_MALLOC_LIMIT",
	"RUBY_GC_MALLOC_LIMIT_MAX", "RUBY_GC_OLDMALLOC_LIMIT", "RUBY_GC_OLDMALLOC_LIMIT_MAX",
	"RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO", "RUBY_MAX_CPU",
	"DOTNET_gcServer", "DOTNET_GCHeapHardLimit", "DOTNET_GCHeapCount", "DOTNET_GCgen0size",
	"DOTNET_GCConserveMemory", "DOTNET_PROCESSOR_COUNT", "DOTNET_ThreadPool_MinThreads",
	"DOTNET_ThreadPool_MaxThreads",
}

// options are the variables that hold command line options.
var options = []string{
	"NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "GUNICORN_CMD_ARGS",
	"RUBYOPT",
}

// The value of an option. Anything longer, or with more dots, is an address, a personal number or a
// secret.
const (
	// amount is a count, a size or a duration, after the full name of an option.
	amount = `[0-9]{1,15}(\.[0-9]{1,6})?[a-zA-Z%]{0,3}`
	// few is a count after a single letter, which other programs use for other options.
	few = `[0-9]{1,6}`
)

// flags are command line options that limit what a process uses. apart are those whose value is a
// separate word.
var (
	flags = regexp.MustCompile(`^(-Xm[xsn]` + amount + `|-Xss` + amount +
		`|-XX:[+-]Use[A-Za-z0-9]+GC|-XX:[+-](AlwaysPreTouch|ExplicitGCInvokesConcurrent|` +
		`DisableExplicitGC)|-XX:(ActiveProcessorCount|MaxRAMPercentage|InitialRAMPercentage|` +
		`MaxHeapSize|NewRatio|NewSize|MaxNewSize|ParallelGCThreads|ConcGCThreads|` +
		`MaxGCPauseMillis|G1HeapRegionSize|SoftMaxHeapSize)=` + amount +
		`|-Xint|-Djava\.util\.concurrent\.ForkJoinPool\.common\.parallelism=` + amount +
		`|-Djdk\.virtualThreadScheduler\.(parallelism|maxPoolSize)=` + amount +
		`|-Dhttp\.(keepAlive=(true|false)|maxConnections=` + amount + `)` +
		`|-Dserver\.tomcat\.(threads\.max|max-connections|accept-count)=` + amount +
		`|--max-(old-space|semi-space|heap)-size=` + amount + `|--(single-threaded|jitless)` +
		`|--(threads|workers|worker-connections|backlog|limit-concurrency|limit-max-requests|` +
		`max-requests|keep-alive|timeout-keep-alive|processes|concurrency|connection-limit)=` +
		amount + `|-[wtij]` + few + `|-t` + few + `:` + few + `)$`)
	apart = regexp.MustCompile(`^(--(threads|workers|worker-connections|backlog|` +
		`limit-concurrency|limit-max-requests|max-requests|keep-alive|timeout-keep-alive|` +
		`processes|concurrency|connection-limit)|-[wtij])$`)
	value   = regexp.MustCompile(`^` + few + `(:` + few + `)?$`)
	plainly = regexp.MustCompile(`^[A-Za-z0-9.,:%_+-]*$`)
)

// KnobsOf returns the limits that a process was started with, from its environment and its command
// line, such as "GOGC=20" and "-Xmx256m". It returns none for a process that may not be inspected.
func KnobsOf(pid int) []string { return knobsOf(procfs.DefaultMountPoint, pid) }

func knobsOf(root string, pid int) (all []string) {
	dir := filepath.Join(root, strconv.Itoa(pid))
	command, _ := readWhole(filepath.Join(dir, "cmdline"), make([]byte, maxCommand))
	environment, _ := readWhole(filepath.Join(dir, "environ"), make([]byte, maxEnvironment))
	put := func(knob string) {
		if len(all) < maxKnobs && len(knob) <= longestKnob && !slices.Contains(all, knob) {
			all = append(all, knob)
		}
	}
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		name, set, is := strings.Cut(string(entry), "=")
		switch {
		case !is:
		case slices.Contains(variables, name) && plainly.MatchString(set):
			put(name + "=" + set)
		case slices.Contains(options, name):
			for _, knob := range flagged(strings.Fields(set)) {
				put(knob)
			}
		}
	}
	for _, knob := range flagged(strings.Split(string(command), "\x00")) {
		put(knob)
	}
	return all
}

// flagged returns the words of a command line that limit what a process uses.
func flagged(words []string) (all []string) {
	for i, word := range words {
		switch {
		case flags.MatchString(word):
			all = append(all, word)
		case apart.MatchString(word) && i+1 < len(words) && value.MatchString(words[i+1]):
			all = append(all, word+" "+words[i+1])
		}
	}
	return all
}
