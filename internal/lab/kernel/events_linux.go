package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// event is one of the kernel's events.
type event struct {
	name   string
	class  uint32 // unix.PERF_TYPE_…
	config uint64
	unit   float64 // what one count is worth
}

var events = [...]event{
	{measure.PerfContextSwitches, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CONTEXT_SWITCHES, 1},
	{measure.PerfMigrations, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_MIGRATIONS, 1},
	{measure.PerfMinorFaults, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS_MIN, 1},
	{measure.PerfMajorFaults, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1},
	{measure.PerfTaskClock, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK, 1e-9},
	{measure.PerfCycles, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES, 1},
	{measure.PerfInstructions, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS, 1},
	{measure.PerfCacheReferences, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_REFERENCES, 1},
	{measure.PerfCacheMisses, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_MISSES, 1},
	{measure.PerfBranchMisses, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES, 1},
}

// counter counts an event of one thread and of all threads that it creates.
type counter struct {
	of int // an index of events
	fd int
}

// perfEvents reads events of the target's threads.
type perfEvents struct {
	target   *target
	counters []counter
}

func (*perfEvents) Name() string { return "kernel events" }

// newEvents opens every event for every thread. Threads and processes created later inherit them,
// and the counts of ended ones are kept. A thread created during the opening, by a thread that is
// not open yet, is missed. without lists the kinds that this machine does not have.
func newEvents(t *target, mostThreads int) (e *perfEvents, without []string, err error) {
	e = &perfEvents{target: t}
	threads, err := t.threads(mostThreads)
	if err != nil {
		return e, nil, err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil &&
		uint64(len(threads)*len(events)) > limit.Cur/4 {
		return e, nil, fmt.Errorf("its %d threads would take %d descriptors, more than a quarter "+
			"of this process's %d: raise them with ulimit -n",
			len(threads), len(threads)*len(events), limit.Cur)
	}
	var absent []string
	for i := range events {
		err := e.open(i, threads)
		switch {
		case err == nil:
		case events[i].class == unix.PERF_TYPE_HARDWARE && offersNone(err):
			absent = append(absent, strings.TrimPrefix(events[i].name, measure.PerfNames))
		default:
			e.Close()
			return e, nil, e.explain(err)
		}
	}
	if len(absent) > 0 {
		without = append(without, fmt.Sprintf("hardware counters: this machine gives its guests "+
			"no counters of %s; measure on one that does",
			strings.Join(absent, ", ")))
	}
	return e, without, nil
}

// open opens one event for all threads.
func (e *perfEvents) open(of int, threads []int) error {
	attr := unix.PerfEventAttr{
		Type:        events[of].class,
		Config:      events[of].config,
		Size:        unix.PERF_ATTR_SIZE_VER0,
		Bits:        unix.PerfBitInherit,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	for _, tid := range threads {
		fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return err
		}
		e.counters = append(e.counters, counter{of, fd})
	}
	return nil
}

// offersNone reports whether an event could not be opened because the machine has no such counter.
func offersNone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL)
}

// explain says what to do if an event could not be opened.
func (e *perfEvents) explain(err error) error {
	switch {
	case errors.Is(err, unix.EACCES):
		level, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
		return fmt.Errorf("they may not be counted (kernel.perf_event_paranoid is %s): "+
			"run as root or with CAP_PERFMON, or set sysctl kernel.perf_event_paranoid=1 and run "+
			"as the target's user", strings.TrimSpace(string(level)))
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		return errors.New("perf_event_open is forbidden here, as the seccomp profiles of " +
			"containers do: give the container CAP_PERFMON, or run outside of it")
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return errors.New("there are too few descriptors for them: raise the limit with ulimit -n")
	}
	return err
}

func (e *perfEvents) Read(into map[string]float64) error {
	if err := e.target.check(); err != nil {
		return err
	}
	var sums [len(events)]float64
	var there [len(events)]bool
	var raw [24]byte
	for _, c := range e.counters {
		if n, err := unix.Read(c.fd, raw[:]); err != nil || n != len(raw) {
			return fmt.Errorf("%s cannot be read: %d bytes, %w", events[c.of].name, n, err)
		}
		value := binary.NativeEndian.Uint64(raw[:])
		enabled := binary.NativeEndian.Uint64(raw[8:])
		running := binary.NativeEndian.Uint64(raw[16:])
		sums[c.of] += scaled(value, enabled, running)
		there[c.of] = true
	}
	for i := range events {
		if there[i] {
			into[events[i].name] = sums[i] * events[i].unit
		}
	}
	return nil
}

// scaled extrapolates a count to the whole time: events share the processor's few counters, so each
// is only counted part of the time.
func scaled(value, enabled, running uint64) float64 {
	if running == 0 || running >= enabled {
		return float64(value)
	}
	return float64(value) * float64(enabled) / float64(running)
}

// Close stops the counting.
func (e *perfEvents) Close() error {
	var failed error
	for _, c := range e.counters {
		failed = errors.Join(failed, unix.Close(c.fd))
	}
	e.counters = nil
	return failed
}
