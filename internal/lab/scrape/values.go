package scrape

import (
	"math"

	"plimsoll/internal/lab/measure"
)

// Values are the names that this package reports, besides "metrics." and a series' own name. Times
// are in seconds, sizes in bytes.
var Values = []measure.SampleName{
	measure.Gauge(measure.GoGoroutines, "goroutines"),
	measure.Gauge(measure.GoMaxProcs, "threads that may run Go code at once"),
	measure.Gauge(measure.GoGCPercent, "GOGC; -1 where it is off"),
	measure.Gauge(measure.GoMemoryLimit, "GOMEMLIMIT; absent where there is none"),
	measure.Gauge(measure.GoHeapLive, "what the last garbage collection found in use"),
	measure.Gauge(measure.GoHeapGoal,
		"the size of the heap at which the next one is to end; absent where none is to come"),
	measure.Counter(measure.GoAllocatedBytes, "memory that was allocated on the heap"),
	measure.Counter(measure.GoAllocatedObjects, "objects that were allocated on the heap"),
	measure.Counter(measure.GoGCCycles, "garbage collections"),
	measure.Counter(measure.GoGCCPU,
		"processor time of garbage collection, that of idle processors among it; "+
			"the runtime estimates it at the end of each collection"),
	measure.Gauge(measure.GoGCPauseP50,
		"the median of garbage collection's pauses since the last reading; "+
			"absent when there were none"),
	measure.Gauge(measure.GoGCPauseP95, "their 95th percentile"),
	measure.Gauge(measure.GoSchedLatencyP50,
		"the median of the time that goroutines which could run waited for a thread, "+
			"since the last reading"),
	measure.Gauge(measure.GoSchedLatencyP99, "its 99th percentile"),
	measure.Counter(measure.GoMutexWait, "time that goroutines waited for mutexes, added up"),
	measure.Gauge(measure.DBMaxOpen,
		"connections that database/sql's pools may open, added up; 0 where one has no limit"),
	measure.Gauge(measure.DBMaxIdle, "connections that the pools may keep idle"),
	measure.Gauge(measure.DBMaxLifetime,
		"for how long a connection may be used, the least of the pools; 0 is forever"),
	measure.Gauge(measure.DBOpen, "connections that are open"),
	measure.Gauge(measure.DBInUse, "connections in use"),
	measure.Gauge(measure.DBIdle, "connections that are idle"),
	measure.Counter(measure.DBWaits, "times that a connection was waited for"),
	measure.Counter(measure.DBWait, "time that connections were waited for, added up"),
	measure.Counter(measure.DBClosedIdle, "connections closed because more were idle than may be"),
	measure.Counter(measure.DBClosedIdleTime,
		"connections closed because they were idle for too long"),
	measure.Counter(measure.DBClosedLifetime, "connections closed because they were too old"),
	measure.Gauge(measure.DBServerLimit, "connections that the database allows"),
}

// understood defines the Prometheus series for each value: the first of from that the page has.
// join makes one value of series that differ in their labels; ok is false if that is not
// meaningful.
var understood = []struct {
	value string
	from  []string
	join  func(all []float64) (v float64, ok bool)
}{
	{measure.GoGoroutines, []string{"go_goroutines", "go_sched_goroutines_goroutines"}, only},
	{measure.GoMaxProcs, []string{"go_sched_gomaxprocs_threads", "go_gomaxprocs"}, only},
	{measure.GoGCPercent, []string{"go_gc_gogc_percent"}, percent},
	{measure.GoMemoryLimit, []string{"go_gc_gomemlimit_bytes"}, limit},
	{measure.GoHeapLive, []string{"go_gc_heap_live_bytes"}, only},
	{measure.GoHeapGoal, []string{"go_gc_heap_goal_bytes", "go_memstats_next_gc_bytes"}, limit},
	{
		measure.GoAllocatedBytes,
		[]string{"go_gc_heap_allocs_bytes_total", "go_memstats_alloc_bytes_total"},
		only,
	},
	{
		measure.GoAllocatedObjects,
		[]string{"go_gc_heap_allocs_objects_total", "go_memstats_mallocs_total"},
		only,
	},
	{
		measure.GoGCCycles,
		[]string{"go_gc_cycles_total_gc_cycles_total", "go_gc_duration_seconds_count"},
		only,
	},
	{measure.GoGCCPU, []string{"go_cpu_classes_gc_total_cpu_seconds_total"}, only},
	{measure.GoMutexWait, []string{"go_sync_mutex_wait_total_seconds_total"}, only},
	{measure.DBMaxOpen, []string{"go_sql_max_open_connections"}, sumUnlessZero},
	{measure.DBMaxIdle, []string{"go_sql_max_idle_connections"}, sum},
	{measure.DBMaxLifetime, []string{"go_sql_max_lifetime_seconds"}, least},
	{measure.DBOpen, []string{"go_sql_open_connections"}, sum},
	{measure.DBInUse, []string{"go_sql_in_use_connections"}, sum},
	{measure.DBIdle, []string{"go_sql_idle_connections"}, sum},
	{measure.DBWaits, []string{"go_sql_wait_count_total"}, sum},
	{measure.DBWait, []string{"go_sql_wait_duration_seconds_total"}, sum},
	{measure.DBClosedIdle, []string{"go_sql_max_idle_closed_total"}, sum},
	{measure.DBClosedIdleTime, []string{"go_sql_max_idle_time_closed_total"}, sum},
	{measure.DBClosedLifetime, []string{"go_sql_max_lifetime_closed_total"}, sum},
	{measure.DBServerLimit, []string{"pg_settings_max_connections"}, sum},
}

// The histograms and the summary for computing quantiles. The older name of the pauses comes
// second; its values are the same.
var (
	pauseHistograms   = []string{"go_sched_pauses_total_gc_seconds", "go_gc_pauses_seconds"}
	latencyHistograms = []string{"go_sched_latencies_seconds"}
)

const pauseSummary = "go_gc_duration_seconds"

// only returns the value of a single series. A page with several covers several processes.
func only(all []float64) (float64, bool) { return all[0], len(all) == 1 }

// percent restores the -1 that the runtime uses for GOGC=off: it is exported as an unsigned number.
func percent(all []float64) (float64, bool) {
	value, ok := only(all)
	if value > math.MaxInt32 {
		value = -1
	}
	return value, ok
}

// limit leaves out the large numbers that mean no limit.
func limit(all []float64) (float64, bool) { return all[0], len(all) == 1 && bounded(all[0]) }

// bounded reports whether a machine can have memory of this size. Without a limit, the runtime uses
// the largest number, or a part of it.
func bounded(bytes float64) bool { return bytes < 1<<60 }

func sum(all []float64) (total float64, ok bool) {
	for _, v := range all {
		total += v
	}
	return total, true
}

// sumUnlessZero returns 0 if one of the values is 0: if one pool has no limit, all pools together
// have none.
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
