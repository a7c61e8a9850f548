// Package kernel reads, while a step runs, what the kernel counts of the target's processes on
// request: software and hardware events by perf_event_open, stacks sampled by its clock, and the
// tracepoints of the scheduler and of TCP by eBPF. It must know nothing of loads and of what its
// figures are used for.
//
// These are the deep probes: each is optional, needs rights that a user may not have, and costs the
// target something. If a probe is not available, one sentence says so and what to do, and the rest
// continues. Nothing on the machine is changed: no file system is mounted, no setting is written.
//
// The eBPF programs are written in this package, instruction by instruction, so that nobody needs a
// compiler for them. They attach to BTF-typed raw tracepoints, which need neither kprobes nor a
// mounted tracefs. They get the offsets of the kernel's fields from the kernel's own type
// information. That needs Linux 5.18 or later with CONFIG_DEBUG_INFO_BTF, which distributions
// enable.
//
// This is what they cost, by BenchmarkPingPong on a virtual machine. Two threads on one processor
// that do nothing but wake each other need 5.0 µs of processor time for a round trip, in which each
// waits once. With the scheduler's programs that is 5.9 µs (1.18 times as much), also for processes
// that are not the target. With the events it is 9.4 µs (1.9 times), with both 10.5 µs (2.1 times).
// So each time that a thread waits costs 0.5 µs and 2.2 µs: at 10,000 context switches a second,
// 0.5 % and 2.2 % of a processor. The program for retransmits runs only when there are some. A
// sample costs its reader about 0.15 ms, and opening the probes about 60 ms.
package kernel

import "plimsoll/internal/lab/measure"

// Source reads some values. Its methods are called by one goroutine at a time.
type Source interface {
	// Name says for a person what is read: "kernel events".
	Name() string
	// Read puts values under their names. An error says for a person why some of them are not
	// there.
	Read(into map[string]float64) error
}

// Values are all the names that the sources of this package give, but for those that begin with
// measure.BPFRetransmitsOf. Times are in seconds. All count from when the sources were opened.
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
