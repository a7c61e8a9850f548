package harness

import (
	"fmt"
	"runtime"
	"syscall"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/probe"
	"plimsoll/internal/lab/record"
)

// reserved is the number of descriptors that the process needs besides its connections: for loops,
// the files of a run directory, and probes.
const reserved = 64

// Reserve takes from this process what a generator needs: descriptors for its connections, and
// processors for its loops, which never yield theirs, plus one for other work: handshakes, probes,
// the progress line. release returns the processors.
func Reserve(connections, loops int) (release func(), err error) {
	if err := allowDescriptors(connections); err != nil {
		return nil, err
	}
	before := runtime.GOMAXPROCS(0)
	if before > loops {
		return func() {}, nil
	}
	runtime.GOMAXPROCS(loops + 1)
	return func() { runtime.GOMAXPROCS(before) }, nil
}

// allowDescriptors raises the soft limit of descriptors as far as the connections need it.
func allowDescriptors(connections int) error {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return fmt.Errorf("read the limit of descriptors: %w", err)
	}
	need := uint64(connections) + reserved
	if need <= r.Cur {
		return nil
	}
	if need > r.Max {
		return fmt.Errorf("%d connections need %d descriptors, and the hard limit is %d: "+
			"raise it (ulimit -Hn %d, LimitNOFILE= of systemd), or open at most %d "+
			"(--connections; in an experiment load: connections)",
			connections, need, r.Max, need, max(int64(r.Max)-reserved, 1))
	}
	r.Cur = r.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return fmt.Errorf("raise the limit of descriptors to %d: %w", r.Max, err)
	}
	return nil
}

// Local reports whether a target is on this machine.
func Local(t *load.Target) bool {
	for _, a := range t.Addresses {
		if a.Path != "" || probe.LocalTarget(a.IP.Addr()) {
			return true
		}
	}
	return false
}

// Machine describes this machine for a run directory.
func Machine(near bool, pid int) record.Machine {
	f := probe.Machine()
	var of probe.Runtime
	var knobs []string
	if pid != 0 {
		of, knobs = probe.RuntimeOf(pid), probe.KnobsOf(pid)
	}
	return record.Machine{
		Host:        f.Host,
		OS:          f.OS,
		Kernel:      f.Kernel,
		CPU:         f.CPU,
		Cores:       f.Cores,
		MemoryBytes: f.MemoryBytes,
		TargetLocal: near,
		TargetPID:   pid,

		TargetRuntime: of.Name,
		TargetVersion: of.Version,
		TargetServer:  of.Server,
		TargetKnobs:   knobs,
	}
}

// Loops is the number of loops for a generator. asked is the requested number; 0 means all
// processors, or half of them if the target needs the others. There are never more loops than
// connections.
func Loops(asked, connections int, near bool) int {
	n := asked
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
		if near {
			n = max(n/2, 1)
		}
	}
	return min(n, connections)
}
