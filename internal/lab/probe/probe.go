// Package probe reads, while a step runs, what the machine, its network and the target have used:
// counters and gauges from /proc, cgroups and INET_DIAG. It must not know loads, or what its values
// are used for.
//
// A kind of probe is a Source. The sources here are cheap and need no rights beyond reading /proc.
// The maker of a sampler adds deeper ones. What cannot be read is reported once and left out of the
// samples; values are never invented.
package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

// Source reads some values. Its methods are called by one goroutine at a time.
type Source interface {
	// Name describes what is read, for humans: "host processors".
	Name() string
	// Read puts values under their names. An error says why some of them are missing. The sampler
	// reports it once and calls Read again for the next sample.
	Read(into map[string]float64) error
}

// Options configure a sampler.
type Options struct {
	// PID is the target's process; 0 samples only the host.
	PID int
	// Alone leaves out the process's descendants. Otherwise they are added up with it, as for
	// servers that fork workers.
	Alone bool
	// Listen are the target's addresses, as its clients know them. If empty, its listener and its
	// clients are not reported.
	Listen []netip.AddrPort
	// Root is where proc is mounted, and Sys where sysfs is; the defaults are "/proc" and "/sys".
	Root, Sys string
	// More are sources in addition to those of this package.
	More []Source
}

// Sampler reads all sources. It must be used by one goroutine at a time.
type Sampler struct {
	sources []Source
	missing []string
	said    map[string]int // lines in missing, by source
	target  *processes
}

// New makes a sampler. What cannot be read from the start, such as a process that does not exist,
// is in NotMeasured.
func New(o Options) *Sampler {
	s := &Sampler{said: make(map[string]int)}
	o.Root, o.Sys = cmp.Or(o.Root, procfs.DefaultMountPoint), cmp.Or(o.Sys, "/sys")
	proc, err := procfs.NewFS(o.Root)
	if err != nil {
		s.miss("everything", fmt.Errorf("%s cannot be read: %w", o.Root, err))
	} else {
		s.sources = append(s.sources, &processors{proc}, &memory{proc}, &paging{root: o.Root},
			&nodes{sys: o.Sys}, newDisks(o.Root, o.Sys))
		s.follow(proc, o)
		// These belong to the target's network namespace, so they come after the target, which
		// notices when its process ends.
		n := networkOf(o.Root, proc, s.target)
		c := newCensus(n, o.Listen)
		b := newBehind(proc, c)
		s.sources = append(s.sources, sockets{n}, &traffic{network: n}, &tcpCounters{network: n},
			c, b, newOthers(o.Root, s.target, b))
	}
	s.sources = append(s.sources, o.More...)
	return s
}

// follow adds the sources for the target's processes.
func (s *Sampler) follow(proc procfs.FS, o Options) {
	if o.PID == 0 {
		s.miss("the target", fmt.Errorf("its process is not known: name it with --pid when it "+
			"runs on this machine"))
		return
	}
	target, err := newProcesses(proc, o)
	if err != nil {
		s.miss("the target", err)
		return
	}
	s.target = target
	s.sources = append(s.sources, target, &switches{of: target}, newThreads(target),
		&reads{of: target}, &locks{of: target}, &collections{of: target},
		&cgroup{of: target})
}

// Sample reads all sources now. at is the time in nanoseconds since the step's start. It costs
// about 0.6 ms of a processor on a machine of two cores and 100 processes with a target of ten
// threads (BenchmarkSample), and grows with cores, processes and threads. The census, which is not
// in every sample, adds 2 ms. Four samples a second use 0.4 % of a core.
func (s *Sampler) Sample(at int64) measure.Sample {
	values := make(map[string]float64, len(Values))
	for _, source := range s.sources {
		if err := source.Read(values); err != nil {
			s.miss(source.Name(), err)
		}
	}
	return measure.Sample{At: at, Values: values}
}

// maxMissing bounds the lines of NotMeasured per source: an error that changes with every sample
// must not fill the memory, and must leave room for the other sources.
const maxMissing = 8

// miss records, once, what could not be read. Joined errors are one line each.
func (s *Sampler) miss(what string, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text := what + ": " + line
		if s.said[what] < maxMissing && !slices.Contains(s.missing, text) {
			s.missing = append(s.missing, text)
			s.said[what]++
		}
	}
}

// NotMeasured returns what could not be read so far, and why, once each, for humans.
func (s *Sampler) NotMeasured() []string { return slices.Clone(s.missing) }

// Target returns the target's process and its name; ok is false if there is none.
func (s *Sampler) Target() (pid int, name string, ok bool) {
	if s.target == nil {
		return 0, "", false
	}
	return s.target.pid, s.target.name, true
}
