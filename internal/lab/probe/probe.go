// Package probe reads, while a step runs, what the machine and the target's processes have used: counters and gauges from /proc. It must know
// nothing of loads and of what its figures are used for.
//
// A kind of probe is a Source. The ones here cost little and need no rights beyond reading /proc; deeper ones are added to the sampler's table by whoever
// makes it. What cannot be read is said once and left out of the samples; nothing is ever made up.
package probe

import (
	"fmt"
	"slices"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

// Source reads some values. Its methods are called by one goroutine at a time.
type Source interface {
	// Name says for a person what is read: "host processors".
	Name() string
	// Read puts values under their names. An error says why some of them are not there; the sampler says it once and asks again with
	// the next sample.
	Read(into map[string]float64) error
}

// Value is a name that samples may hold.
type Value struct {
	Name string
	// Counter says that the value only grows, so that differences between samples mean something; a gauge is what it is at the moment.
	Counter bool
	Means   string
}

// Values are all the names that the sources of this package give. Times are in seconds, sizes in bytes.
var Values = []Value{
	{measure.HostCPU, true, "processor time of all cores that was not idle: user, nice, system, interrupts, and what a hypervisor took (steal)"},
	{"host.cpu.user_seconds", true, "user and nice time of all cores"},
	{"host.cpu.system_seconds", true, "system and interrupt time of all cores"},
	{measure.HostCores, false, "processors that are online"},
	{"host.memory.available_bytes", false, "memory that programs could still get without swapping"},
	{"host.context_switches", true, "context switches of all cores"},
	{"host.run_queue", false, "threads that run or wait for a processor, the one that reads this among them"},
	{"host.tcp.in_use", false, "TCP sockets over IPv4 and IPv6 that are in use, listening ones among them"},
	{"host.tcp.time_wait", false, "TCP connections that are over and wait for stray packets"},
	{measure.TargetCPU, true, "processor time of the target, to the nanosecond where the kernel tells"},
	{"target.cpu.user_seconds", true, "its user time, in ticks of 10 ms"},
	{"target.cpu.system_seconds", true, "its system time, in ticks of 10 ms"},
	{"target.memory.rss_bytes", false, "its resident memory; what processes share counts for each"},
	{"target.processes", false, "its processes"},
	{"target.threads", false, "its threads"},
	{measure.TargetDescriptors, false, "its open descriptors"},
	{"target.descriptors_limit", false, "the soft limit of descriptors of its first process"},
	{"target.context_switches.voluntary", true, "times that its living threads waited for something"},
	{"target.context_switches.involuntary", true, "times that its living threads were made to give up the processor"},
}

// Options are what is sampled.
type Options struct {
	// PID is the target's process; 0 is none, and only the host is sampled.
	PID int
	// Alone leaves out the process's descendants. Without it they are added up with it, as servers that fork workers need.
	Alone bool
	// Root is where proc is mounted; "/proc".
	Root string
	// More are sources beside those of this package.
	More []Source
}

// Sampler reads all sources. It has one user at a time.
type Sampler struct {
	sources []Source
	missing []string
	target  *processes
}

// New makes a sampler. What cannot be read from the start, such as a process that does not exist, is in NotMeasured.
func New(o Options) *Sampler {
	s := new(Sampler)
	if o.Root == "" {
		o.Root = procfs.DefaultMountPoint
	}
	proc, err := procfs.NewFS(o.Root)
	if err != nil {
		s.miss("everything", fmt.Errorf("%s cannot be read: %w", o.Root, err))
	} else {
		s.sources = append(s.sources, &processors{proc}, &memory{proc}, &sockets{proc})
		s.follow(proc, o)
	}
	s.sources = append(s.sources, o.More...)
	return s
}

// follow adds the target's processes.
func (s *Sampler) follow(proc procfs.FS, o Options) {
	if o.PID == 0 {
		s.miss("the target", fmt.Errorf("its process is not known: name it with --pid when it runs on this machine"))
		return
	}
	target, err := newProcesses(proc, o)
	if err != nil {
		s.miss("the target", err)
		return
	}
	s.target = target
	s.sources = append(s.sources, target, &switches{of: target})
}

// Sample reads everything now. at is the moment in nanoseconds since the step's start. It costs about 0.3 ms of a processor on a machine of two
// cores and 100 processes with a target of ten threads (BenchmarkSample): four a second are a thousandth of a core. It grows with cores, processes and threads.
func (s *Sampler) Sample(at int64) measure.Sample {
	values := make(map[string]float64, len(Values))
	for _, source := range s.sources {
		if err := source.Read(values); err != nil {
			s.miss(source.Name(), err)
		}
	}
	return measure.Sample{At: at, Values: values}
}

// maxMissing bounds what NotMeasured says: an error that changes with every sample must not fill the memory.
const maxMissing = 32

// miss remembers what could not be read, once.
func (s *Sampler) miss(what string, err error) {
	text := fmt.Sprintf("%s: %v", what, err)
	if len(s.missing) < maxMissing && !slices.Contains(s.missing, text) {
		s.missing = append(s.missing, text)
	}
}

// NotMeasured says what could not be read so far, and why, once each, for a person.
func (s *Sampler) NotMeasured() []string { return slices.Clone(s.missing) }

// Target is the process that is followed, with its name; ok is false when there is none.
func (s *Sampler) Target() (pid int, name string, ok bool) {
	if s.target == nil {
		return 0, "", false
	}
	return s.target.pid, s.target.name, true
}
