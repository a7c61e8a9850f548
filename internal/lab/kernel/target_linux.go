package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/prometheus/procfs"
)

// maxProcesses bounds the target's processes.
const maxProcesses = 512

// target is one process, and those that descend from it. Its sources share it: they are read by one
// goroutine.
type target struct {
	proc  procfs.FS
	pid   int
	name  string
	start uint64 // when it was started: another process may get its number
	lost  error
}

// newTarget finds the process; its error is for a person.
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

// check says why the process is not the one any more that it was, nil when it is.
func (t *target) check() error {
	if t.lost != nil {
		return t.lost
	}
	now, err := statOf(t.proc, t.pid)
	switch {
	// the first thread may end before the others
	case err != nil || now.State == "Z" && now.NumThreads <= 1:
		t.lost = fmt.Errorf("process %d (%s) ended while it was measured", t.pid, t.name)
	case now.Starttime != t.start:
		t.lost = fmt.Errorf("process %d (%s) ended while it was measured, and its number went to "+
			"another one (%s)", t.pid, t.name, now.Comm)
	}
	return t.lost
}

// members are the process and those that descend from it now, with when each was started.
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
		// One that is older than the target cannot descend from it.
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

// threads are the numbers of all its threads, at most so many.
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
