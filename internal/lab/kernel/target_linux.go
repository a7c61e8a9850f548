package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/prometheus/procfs"
)

// maxProcesses is the maximum number of the target's processes.
const maxProcesses = 512

// target is one process and its descendants. Its sources share it; one goroutine reads them.
type target struct {
	proc  procfs.FS
	pid   int
	name  string
	start uint64 // its start time: its number may be reused
	lost  error
}

// newTarget finds the process. Its error is for humans.
func newTarget(pid int) (*target, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	first, err := statOf(proc, pid)
	if err != nil {
		return nil, fmt.Errorf("there is no process %d on this machine that can be read", pid)
	}
	return &target{proc: proc, pid: pid, name: first.Comm, start: first.Starttime}, nil
}

func statOf(proc procfs.FS, pid int) (procfs.ProcStat, error) {
	p, err := proc.Proc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

// check returns an error if the process is no longer the same one, and nil if it is.
func (t *target) check() error {
	if t.lost != nil {
		return t.lost
	}
	now, err := statOf(t.proc, t.pid)
	switch {
	// The first thread may end before the others.
	case err != nil || now.State == "Z" && now.NumThreads <= 1:
		t.lost = fmt.Errorf("process %d (%s) ended while it was measured", t.pid, t.name)
	case now.Starttime != t.start:
		t.lost = fmt.Errorf("process %d (%s) ended while it was measured, and its number went to "+
			"another one (%s)", t.pid, t.name, now.Comm)
	}
	return t.lost
}

// members returns the process and its current descendants, with their start times.
func (t *target) members() (map[int]uint64, error) {
	all, err := t.proc.AllProcs()
	if err != nil {
		return nil, err
	}
	type process struct {
		pid   int
		start uint64
	}
	children := make(map[int][]process)
	for _, p := range all {
		// A process older than the target cannot descend from it.
		if s, err := p.Stat(); err == nil && s.Starttime >= t.start && p.PID != t.pid {
			children[s.PPID] = append(children[s.PPID], process{p.PID, s.Starttime})
		}
	}
	found := map[int]uint64{t.pid: t.start}
	queue := []int{t.pid}
	for i := 0; i < len(queue); i++ {
		for _, c := range children[queue[i]] {
			if _, seen := found[c.pid]; !seen {
				found[c.pid], queue = c.start, append(queue, c.pid)
			}
		}
		if len(found) > maxProcesses {
			return nil, fmt.Errorf("it has more than %d processes", maxProcesses)
		}
	}
	return found, nil
}

// threads returns the numbers of all the target's threads. More than limit are an error.
func (t *target) threads(limit int) ([]int, error) {
	members, err := t.members()
	if err != nil {
		return nil, err
	}
	var all []int
	for pid := range members {
		dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			continue // it has ended
		}
		names, err := dir.Readdirnames(limit + 1)
		dir.Close()
		if err != nil && !errors.Is(err, io.EOF) {
			continue
		}
		for _, name := range names {
			if tid, err := strconv.Atoi(name); err == nil {
				all = append(all, tid)
			}
		}
		if len(all) > limit {
			return nil, fmt.Errorf("it has more than %d threads", limit)
		}
	}
	return all, nil
}
