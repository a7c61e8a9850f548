package kernel

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/lab/stacks"
	"plimsoll/internal/lab/symbols"
)

// namer resolves addresses to names. It keeps what it has read from files for the next profile, but
// not what it knows of processes, because they load and compile code.
type namer struct {
	table     *symbols.Table
	processes map[int]*symbols.Process
	failed    map[int]error
}

func newNamer() *namer { return &namer{table: symbols.New()} }

func (n *namer) close() { n.table.Close() }

// build adds all stacks of a collector to a profile, and returns notes on what is missing in it.
func (n *namer) build(b *stacks.Builder, c *collector) (notes []string) {
	n.processes, n.failed = map[int]*symbols.Process{}, map[int]error{}
	const each = int64(time.Second / hertz)
	var seen tally
	var frames []stacks.Frame
	for key, count := range c.counts {
		pid, inKernel, inUser, copied := chain(key)
		frames = frames[:0]
		for _, pc := range inKernel {
			seen.kernel = true
			f := n.table.Kernel(pc)
			frames = append(frames, stacks.Frame(f))
		}
		if len(copied) > 0 {
			// Frame pointers are useless here: only the running function is certain; its callers
			// come from the copy.
			inUser = inUser[:min(len(inUser), 1)]
			for _, pc := range copied {
				if p := n.process(pid); p != nil && p.Returns(pc) {
					inUser = append(inUser, pc)
				}
			}
		}
		before := len(frames)
		frames = n.user(frames, pid, inUser)
		seen.add(frames[before:], count)
		if len(inUser) == 1 {
			seen.short += count
		}
		if err := b.Add(frames, count, count*each); err != nil {
			c.lost += uint64(count)
		}
	}
	return n.notes(c, seen)
}

// user adds the frames of a process's own code.
func (n *namer) user(frames []stacks.Frame, pid int, addresses []uint64) []stacks.Frame {
	if len(addresses) == 0 {
		return frames
	}
	p := n.process(pid)
	if p == nil {
		return append(frames, stacks.Frame{Function: "[unknown]"})
	}
	for i, pc := range addresses {
		if i > 0 && pc < 4096 {
			continue // not a frame pointer
		}
		for _, f := range p.Frames(pc, i > 0) {
			if f.Binary == "" && !strings.HasPrefix(f.Function, "[") {
				frames = append(frames, stacks.Compiled(f.Function))
				continue
			}
			frames = append(frames, stacks.Frame(f))
		}
	}
	return frames
}

func (n *namer) process(pid int) *symbols.Process {
	if p, ok := n.processes[pid]; ok {
		return p
	}
	p, err := n.table.Process(pid)
	if err != nil {
		n.failed[pid] = err
		p = nil
	}
	n.processes[pid] = p
	return p
}

// tally counts samples by what is missing in them.
type tally struct {
	samples  int64
	short    int64 // with one frame of the process's code and no caller
	compiled int64 // in code that a runtime compiled without a name
	bare     int64 // in a file without symbols
	kernel   bool  // kernel code was seen
}

// add counts count samples by the frames of the process's code.
func (t *tally) add(frames []stacks.Frame, count int64) {
	t.samples += count
	for _, f := range frames {
		if f.Function == symbols.Unnamed {
			t.compiled += count
			return
		}
		if f.Binary != "" && strings.HasPrefix(f.Function, "[") {
			t.bare += count
			return
		}
	}
}

// bare returns the names of the files without symbols.
func (n *namer) bare() (names []string) {
	all := map[string]bool{}
	for _, p := range n.processes {
		if p != nil {
			maps.Copy(all, p.Bare)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		names = append(names, filepath.Base(name))
	}
	return names
}

// notes returns what the profile does not show.
func (n *namer) notes(c *collector, seen tally) (all []string) {
	if c.lost > 0 {
		all = append(all, fmt.Sprintf("%d samples of the processor's profile were lost: there was "+
			"no room for them", c.lost))
	}
	if seen.samples == 0 {
		return append(all, "the processor's profile is empty: the target did not run while it was taken")
	}
	if seen.kernel && !n.table.KernelNamed() {
		all = append(all, "names of the kernel's functions: they may not be seen: run as root or "+
			"with CAP_SYSLOG, or set sysctl kernel.kptr_restrict=0")
	}
	for _, pid := range slices.Sorted(maps.Keys(n.failed)) {
		all = append(all, fmt.Sprintf("names of the code of process %d: %v", pid, n.failed[pid]))
		break // one is enough
	}
	if float64(seen.bare) > .1*float64(seen.samples) {
		names := n.bare()
		all = append(all, fmt.Sprintf("names of functions in %s: the file has no symbols (it was "+
			"stripped), or it is not there any more", strings.Join(names[:min(len(names), 3)], ", ")))
	}
	if float64(seen.compiled) > .1*float64(seen.samples) {
		all = append(all, "names of code that the target's runtime compiled: it writes no map of it: "+
			"run node --perf-basic-prof, python -X perf (3.12 and later), or the JVM with perf-map-agent")
	}
	if float64(seen.short) > .5*float64(seen.samples) {
		all = append(all, "callers in the processor's profile: more than half of its stacks end "+
			"after one frame, as code has no frame pointers: compile with -fno-omit-frame-pointer, "+
			"or run node --perf-basic-prof, python -X perf, java -XX:+PreserveFramePointer")
	}
	return all
}
