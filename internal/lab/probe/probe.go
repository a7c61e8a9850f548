// Package probe reads, while a step runs, what the machine, its network and the target have used:
// counters and gauges from /proc, cgroups and INET_DIAG. It must know nothing of loads and of what
// its figures are used for.
//
// A kind of probe is a Source. The ones here cost little and need no rights beyond reading /proc.
// The maker of a sampler adds deeper ones to its table. What cannot be read is reported once and
// left out of the samples. Nothing is ever made up.
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
	// Name says for a person what is read: "host processors".
	Name() string
	// Read puts values under their names. An error says why some of them are not there; the sampler
	// says it once and asks again with the next sample.
	Read(into map[string]float64) error
}

// Options are what is sampled.
type Options struct {
	// PID is the target's process; 0 is none, and only the host is sampled.
	PID int
	// Alone leaves out the process's descendants. Without it they are added up with it, as servers
	// that fork workers need.
	Alone bool
	// Listen are the target's addresses, as its clients know them. Without any nothing is said of
	// its listener and its clients.
	Listen []netip.AddrPort
	// Root is where proc is mounted, and Sys where sysfs is; "/proc" and "/sys".
	Root, Sys string
	// More are sources beside those of this package.
	More []Source
}

// Sampler reads all sources. It has one user at a time.
type Sampler struct {
	sources []Source
	missing []string
	said    map[string]int // lines of missing, by what they are of
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
		// These are of the target's network namespace, and so come after the target, which notices
		// when it ends.
		n := networkOf(o.Root, proc, s.target)
		c := newCensus(n, o.Listen)
		b := newBehind(proc, c)
		s.sources = append(s.sources, sockets{n}, &traffic{network: n}, &tcpCounters{network: n},
			c, b, newOthers(o.Root, s.target, b))
	}
	s.sources = append(s.sources, o.More...)
	return s
}

// follow adds the target's processes.
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

// Sample reads everything now. at is the moment in nanoseconds since the step's start. It costs
// about 0.6 ms of a processor on a machine of two cores and 100 processes with a target of ten
// threads (BenchmarkSample), and grows with cores, processes and threads; with the census, which is
// not in each, 2 ms more. Four a second are 0.4 % of a core.
func (s *Sampler) Sample(at int64) measure.Sample {
	values := make(map[string]float64, len(Values))
	for _, source := range s.sources {
		if err := source.Read(values); err != nil {
			s.miss(source.Name(), err)
		}
	}
	return measure.Sample{At: at, Values: values}
}

// maxMissing bounds what NotMeasured says of each source: an error that changes with every sample
// must not fill the memory, and must leave the others room for what they have to say.
const maxMissing = 8

// miss remembers what could not be read, once. Errors that were joined are one line each.
func (s *Sampler) miss(what string, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text := what + ": " + line
		if s.said[what] < maxMissing && !slices.Contains(s.missing, text) {
			s.missing = append(s.missing, text)
			s.said[what]++
		}
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
