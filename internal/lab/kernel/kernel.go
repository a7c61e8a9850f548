// Package kernel reads, while a step runs, what the kernel counts of the target's processes when it
// is asked to: software and hardware events by perf_event_open, and the scheduler's and TCP's
// tracepoints by eBPF. It must know nothing of loads and of what its figures are used for.
//
// These are the deep probes: each is optional, needs rights that a user may not have, and costs the
// target something. What cannot be had is said in a sentence that tells what to do, and the rest
// goes on. Nothing on the machine is changed: no file system is mounted, no setting is written.
//
// The eBPF programs are written in this package, instruction by instruction, so that nobody needs a
// compiler for them. They hang on BTF-typed raw tracepoints, which need neither kprobes nor a
// mounted tracefs, and take the places of the kernel's fields from the kernel's own type
// information. That needs Linux 5.18 or later with CONFIG_DEBUG_INFO_BTF, as distributions have it.
//
// What they cost, by BenchmarkPingPong on a virtual machine: two threads on one processor that do
// nothing but wake each other need 5.0 µs of processor time for a round trip, in which each waits
// once. With the scheduler's programs that is 5.9 µs (1.18 times as much), also for processes that
// are not the target; with the events 9.4 µs (1.9 times); with both 10.5 µs (2.1 times). So each
// time that a thread waits costs 0.5 µs and 2.2 µs: at 10,000 context switches a second 0.5 % and
// 2.2 % of a processor. The program at retransmits runs when there are some. A sample costs who
// takes it some 0.15 ms, and opening some 60 ms.
package kernel

// Source reads some values. Its methods are called by one goroutine at a time.
type Source interface {
	// Name says for a person what is read: "kernel events".
	Name() string
	// Read puts values under their names. An error says for a person why some of them are not
	// there.
	Read(into map[string]float64) error
}

// Value is a name that samples may hold.
type Value struct {
	Name string
	// Counter says that the value only grows, so that differences between samples mean something.
	Counter bool
	Means   string
}

// RetransmitsOf begins the names of counters of single connections; "8080-192.0.2.7:443" follows:
// the local port, and the other end.
const RetransmitsOf = "bpf.retransmits.of."

const (
	offCPURunnable = "bpf.offcpu.runnable_seconds"
	offCPUWaiting  = "bpf.offcpu.waiting_seconds"
	retransmitted  = "bpf.retransmits"
)

// Values are all the names that the sources of this package give, but for those that begin with
// RetransmitsOf. Times are in seconds. All count from when the sources were opened.
var Values = []Value{
	{"perf.context_switches", true, "times that the target's threads left a processor"},
	{"perf.cpu_migrations", true, "times that they were moved to another processor"},
	{"perf.faults.minor", true, "page faults that needed no disk"},
	{"perf.faults.major", true, "page faults that had to read a disk"},
	{"perf.task_clock_seconds", true, "processor time of its threads, with what interrupts and a hypervisor took of it"},
	{"perf.cycles", true, "processor cycles; like the four below it is absent where the processor's counters are not offered"},
	{"perf.instructions", true, "instructions that were completed"},
	{"perf.cache_references", true, "accesses that reached the last level of the cache"},
	{"perf.cache_misses", true, "of these, those that it did not have"},
	{"perf.branch_misses", true, "branches that were guessed wrong"},
	{offCPURunnable, true, "time that the target's threads could have run and had no processor, added up over threads"},
	{offCPUWaiting, true, "time that they waited for something else: a lock, a socket, a timer, work"},
	{retransmitted, true, "TCP segments that were sent again in the target's network namespace, by any process"},
}
