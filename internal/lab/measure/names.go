package measure

import (
	"net/netip"
	"strings"
)

// SampleName is a name that samples may hold, and what its value is. The rooms that read samples
// have a table of theirs.
type SampleName struct {
	// Name may have "<n>" in it, which stands for a number, or end in "<address>", which stands for
	// an address and port, or in other words in such brackets, which stand for anything.
	Name string
	// Counter says that the value only grows, so that differences between samples mean something; a
	// gauge is what it is at the moment.
	Counter bool
	Means   string
}

// Counter names a value that only grows.
func Counter(name, means string) SampleName { return SampleName{name, true, means} }

// Gauge names a value that is what it is at the moment.
func Gauge(name, means string) SampleName { return SampleName{name, false, means} }

// Is says whether a name in a sample is this one.
func (n SampleName) Is(name string) bool {
	if begins, of := strings.CutSuffix(n.Name, "<address>"); of {
		_, err := netip.ParseAddrPort(strings.TrimPrefix(name, begins))
		return strings.HasPrefix(name, begins) && err == nil
	}
	before, after, pattern := strings.Cut(n.Name, "<n>")
	if !pattern {
		begins, _, open := strings.Cut(n.Name, "<")
		return n.Name == name || open && strings.HasPrefix(name, begins) && name != begins
	}
	number, ok := strings.CutPrefix(name, before)
	number, ok2 := strings.CutSuffix(number, after)
	return ok && ok2 && number != "" && strings.Trim(number, "0123456789") == ""
}

// The names of samples' values that rooms read as well as package probe, which writes these and
// more. A name that was written twice could be mistyped once, and its figure would then be missing
// without a word.
const (
	TargetCPU         = "target.cpu.seconds" // processor time of the target, a counter
	TargetDescriptors = "target.descriptors" // open descriptors of the target, a gauge
	// processor time of all cores that was not idle, a counter
	HostCPU   = "host.cpu.busy_seconds"
	HostCores = "host.cores" // processors that are online, a gauge
)

// OutgoingTo begins the names of the values that tell the target's connections by where they go: an
// address and port follow it.
const OutgoingTo = "target.outgoing.to."

// Behind begins the names of the processor time of what the target asks on its own machine: an
// address and port, a slash and the process's name follow it.
const Behind = "behind.cpu_seconds."

// Doing begins the names of how many processes of such a service do the same at a moment, as far as
// their titles say, as PostgreSQL's do: an address and port, a slash, the process's name, another
// slash and what they do follow it.
const Doing = "behind.doing."

// What the target's threads do. The system gives threads a name, and what only counts them is left
// out of it here: "GC Thread" is all of HotSpot's collector's.
const (
	// ThreadsCPU begins the names of the processor time of the threads of one name, which follows.
	ThreadsCPU = "target.threads.cpu_seconds."
	// ThreadsAt begins the names of how many threads stand in one place: their name, the kind of
	// place, the system call and the kernel's wait channel follow it, with semicolons between them.
	ThreadsAt = "target.threads.at."
	// ThreadsWaiting begins the names of how many wait in a kind of place, which follows.
	ThreadsWaiting = "target.threads.waiting."
)

// What a target may run on, by the names that a run's manifest has.
const (
	RuntimeGo      = "go"
	RuntimeNode    = "node"
	RuntimeCPython = "cpython"
	RuntimeJVM     = "jvm"
	RuntimeRuby    = "ruby"
	RuntimePHPFPM  = "php-fpm"
	RuntimeDotNet  = ".net"
	RuntimeRust    = "rust"
	RuntimeCpp     = "c++"
	RuntimeC       = "c"
)
