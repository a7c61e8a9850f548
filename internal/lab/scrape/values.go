package scrape

import (
	"math"

	"plimsoll/internal/lab/measure"
)

// Values are the names that this package gives besides "metrics." and a series' own. Times are in
// seconds, sizes in bytes.
var Values = []measure.SampleName{
	measure.Gauge("go.goroutines", "goroutines"),
	measure.Gauge("go.gomaxprocs", "threads that may run Go code at once"),
	measure.Gauge("go.gogc_percent", "GOGC; -1 where it is off"),
	measure.Gauge("go.memory_limit_bytes", "GOMEMLIMIT; absent where there is none"),
	measure.Gauge("go.heap.live_bytes", "what the last garbage collection found in use"),
	measure.Gauge("go.heap.goal_bytes",
		"the size of the heap at which the next one is to end; absent where none is to come"),
	measure.Counter("go.allocated_bytes", "memory that was allocated on the heap"),
	measure.Counter("go.allocated_objects", "objects that were allocated on the heap"),
	measure.Counter("go.gc.cycles", "garbage collections"),
	measure.Counter("go.gc.cpu_seconds",
		"processor time of garbage collection, that of idle processors among it; "+
			"the runtime estimates it at the end of each collection"),
	measure.Gauge(pauseMedian,
		"the median of garbage collection's pauses since the last reading; "+
			"absent when there were none"),
	measure.Gauge(pauseTail, "their 95th percentile"),
	measure.Gauge(latencyMedian,
		"the median of the time that goroutines which could run waited for a thread, "+
			"since the last reading"),
	measure.Gauge(latencyTail, "its 99th percentile"),
	measure.Counter("go.mutex.wait_seconds", "time that goroutines waited for mutexes, added up"),
	measure.Gauge("db.max_open",
		"connections that database/sql's pools may open, added up; 0 where one has no limit"),
	measure.Gauge("db.max_idle", "connections that the pools may keep idle"),
	measure.Gauge("db.max_lifetime_seconds",
		"for how long a connection may be used, the least of the pools; 0 is forever"),
	measure.Gauge("db.open", "connections that are open"),
	measure.Gauge("db.in_use", "connections in use"),
	measure.Gauge("db.idle", "connections that are idle"),
	measure.Counter("db.waits", "times that a connection was waited for"),
	measure.Counter("db.wait_seconds", "time that connections were waited for, added up"),
	measure.Counter("db.closed.idle", "connections closed because more were idle than may be"),
	measure.Counter("db.closed.idle_time",
		"connections closed because they were idle for too long"),
	measure.Counter("db.closed.lifetime", "connections closed because they were too old"),
	measure.Gauge("db.server_limit", "connections that the database allows"),
}

// The names of quantiles.
const (
	pauseMedian   = "go.gc.pause.p50_seconds"
	pauseTail     = "go.gc.pause.p95_seconds"
	latencyMedian = "go.sched.latency.p50_seconds"
	latencyTail   = "go.sched.latency.p99_seconds"
)

// understood says which series of a Prometheus page a value is read from: the first of them that
// the page has. join makes one value of the series that differ in their labels; ok is false when
// that makes no sense.
var understood = []struct {
	value string
	from  []string
	join  func(all []float64) (v float64, ok bool)
}{
	{"go.goroutines", []string{"go_goroutines", "go_sched_goroutines_goroutines"}, only},
	{"go.gomaxprocs", []string{"go_sched_gomaxprocs_threads", "go_gomaxprocs"}, only},
	{"go.gogc_percent", []string{"go_gc_gogc_percent"}, percent},
	{"go.memory_limit_bytes", []string{"go_gc_gomemlimit_bytes"}, limit},
	{"go.heap.live_bytes", []string{"go_gc_heap_live_bytes"}, only},
	{"go.heap.goal_bytes", []string{"go_gc_heap_goal_bytes", "go_memstats_next_gc_bytes"}, limit},
	{
		"go.allocated_bytes",
		[]string{"go_gc_heap_allocs_bytes_total", "go_memstats_alloc_bytes_total"},
		only,
	},
	{
		"go.allocated_objects",
		[]string{"go_gc_heap_allocs_objects_total", "go_memstats_mallocs_total"},
		only,
	},
	{
		"go.gc.cycles",
		[]string{"go_gc_cycles_total_gc_cycles_total", "go_gc_duration_seconds_count"},
		only,
	},
	{"go.gc.cpu_seconds", []string{"go_cpu_classes_gc_total_cpu_seconds_total"}, only},
	{"go.mutex.wait_seconds", []string{"go_sync_mutex_wait_total_seconds_total"}, only},
	{"db.max_open", []string{"go_sql_max_open_connections"}, sumUnlessZero},
	{"db.max_idle", []string{"go_sql_max_idle_connections"}, sum},
	{"db.max_lifetime_seconds", []string{"go_sql_max_lifetime_seconds"}, least},
	{"db.open", []string{"go_sql_open_connections"}, sum},
	{"db.in_use", []string{"go_sql_in_use_connections"}, sum},
	{"db.idle", []string{"go_sql_idle_connections"}, sum},
	{"db.waits", []string{"go_sql_wait_count_total"}, sum},
	{"db.wait_seconds", []string{"go_sql_wait_duration_seconds_total"}, sum},
	{"db.closed.idle", []string{"go_sql_max_idle_closed_total"}, sum},
	{"db.closed.idle_time", []string{"go_sql_max_idle_time_closed_total"}, sum},
	{"db.closed.lifetime", []string{"go_sql_max_lifetime_closed_total"}, sum},
	{"db.server_limit", []string{"pg_settings_max_connections"}, sum},
}

// The histograms and the summary that quantiles are made of. The older name of the pauses comes
// second: it has the same figures.
var (
	pauseHistograms   = []string{"go_sched_pauses_total_gc_seconds", "go_gc_pauses_seconds"}
	latencyHistograms = []string{"go_sched_latencies_seconds"}
)

const pauseSummary = "go_gc_duration_seconds"

// only is the value of a series that there is one of: a page with several is that of several
// processes.
func only(all []float64) (float64, bool) { return all[0], len(all) == 1 }

// percent knows that GOGC is -1 in the runtime where it is off, and that it is told as a number
// without a sign.
func percent(all []float64) (float64, bool) {
	if all[0] > math.MaxInt32 {
		all = []float64{-1}
	}
	return only(all)
}

// limit leaves out the large numbers that stand for no limit.
func limit(all []float64) (float64, bool) { return all[0], len(all) == 1 && bounded(all[0]) }

// bounded says whether a size is one that a machine can have. Without a limit the runtime uses the
// largest number, or a part of it.
func bounded(bytes float64) bool { return bytes < 1<<60 }

func sum(all []float64) (total float64, ok bool) {
	for _, v := range all {
		total += v
	}
	return total, true
}

// sumUnlessZero is 0 when one of the values is: a pool without a limit makes all of them together
// one without.
func sumUnlessZero(all []float64) (total float64, ok bool) {
	if smallest, _ := least(all); smallest == 0 {
		return 0, true
	}
	return sum(all)
}

func least(all []float64) (smallest float64, ok bool) {
	smallest = all[0]
	for _, v := range all {
		smallest = min(smallest, v)
	}
	return smallest, true
}
