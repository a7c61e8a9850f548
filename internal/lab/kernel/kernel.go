// Package kernel reads, while a step runs, what the kernel counts for the target's processes on
// request: software and hardware events with perf_event_open, stacks sampled by its clock, and
// tracepoints of the scheduler and of TCP with eBPF. It must not know loads, or what its values are
// used for.
//
// These are the deep probes: each is optional, needs rights that a user may not have, and costs the
// target something. If a probe is not available, one sentence gives the reason and the remedy, and
// the others continue. Nothing on the machine is changed: no file system is mounted, no setting is
// written.
//
// The eBPF programs are written in this package, instruction by instruction, so no compiler is
// needed. They attach to BTF-typed raw tracepoints, which need neither kprobes nor a mounted
// tracefs, and get the offsets of the kernel's fields from the kernel's own type information. That
// needs Linux 5.18 or later with CONFIG_DEBUG_INFO_BTF, which distributions enable.
//
// Their cost, by BenchmarkPingPong on a virtual machine: two threads on one processor that only
// wake each other need 5.0 µs of processor time for a round trip, in which each waits once. With
// the scheduler's programs it is 5.9 µs (1.18 times as much), even for processes other than the
// target. With the events it is 9.4 µs (1.9 times), with both 10.5 µs (2.1 times). So the
// scheduler's programs cost 0.5 µs and the events 2.2 µs each time that a thread waits: at 10,000
// context switches per second, 0.5 % and 2.2 % of a processor. The program for retransmits only
// runs when there are some. A sample costs its reader about 0.15 ms, and opening the probes takes
// about 60 ms.
package kernel

import "plimsoll/internal/lab/measure"

// Source reads some values. Its methods are called by one goroutine at a time.
type Source interface {
	// Name describes what is read, for humans: "kernel events".
	Name() string
	// Read puts values under their names. An error says, for humans, why some of them are missing.
	Read(into map[string]float64) error
}

// Values are all the names that the sources of this package report, except those with the prefix
// measure.BPFRetransmitsOf. Times are in seconds. All values count from the opening of the sources.
var Values = []measure.SampleName{
	measure.Counter(measure.PerfContextSwitches, "times that the target's threads left a processor"),
	measure.Counter(measure.PerfMigrations, "times that they were moved to another processor"),
	measure.Counter(measure.PerfMinorFaults, "page faults that needed no disk"),
	measure.Counter(measure.PerfMajorFaults, "page faults that had to read a disk"),
	measure.Counter(measure.PerfTaskClock,
		"processor time of its threads, with what interrupts and a hypervisor took of it"),
	measure.Counter(measure.PerfCycles,
		"processor cycles; like the four below it is absent where the processor's counters "+
			"are not offered"),
	measure.Counter(measure.PerfInstructions, "instructions that were completed"),
	measure.Counter(measure.PerfCacheReferences,
		"accesses that reached the last level of the cache"),
	measure.Counter(measure.PerfCacheMisses, "of these, those that it did not have"),
	measure.Counter(measure.PerfBranchMisses, "branches that were guessed wrong"),
	measure.Counter(measure.BPFOffCPURunnable,
		"time that the target's threads could have run and had no processor, "+
			"added up over threads"),
	measure.Counter(measure.BPFOffCPUWaiting,
		"time that they waited for something else: a lock, a socket, a timer, work"),
	measure.Counter(measure.BPFRetransmits,
		"TCP segments that were sent again in the target's network namespace, by any process"),
}
