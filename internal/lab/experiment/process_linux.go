package experiment

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes give a program a group of processes of its own, so that all of it can be ended. The
// program itself, and not what it has started, is ended when this process ends, however that does.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

const (
	// sweeps is how often strays are looked for: one may have started another while it was looked
	// for.
	sweeps = 10
	// strayTime is how long one that was killed may take to be gone, in milliseconds.
	strayTime = 2000
)

// endStrays ends what has left its group, as a worker with a session of its own has: whatever still
// has the mark in its environment. A process that has wiped its environment cannot be distinguished
// from anybody else's, and stays.
func endStrays(mark string) {
	entry := []byte(markVariable + "=" + mark)
	for range sweeps {
		processes, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		found := false
		for _, p := range processes {
			if pid, err := strconv.Atoi(p.Name()); err == nil && carries(pid, entry) {
				found = true
				end(pid, entry)
			}
		}
		if !found {
			return
		}
	}
}

// carries says whether a process has the entry in its environment. One that has ended has none.
func carries(pid int, entry []byte) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(environment, entry)
}

// end kills a process and waits until it is gone. Its number may have become somebody else's since
// it was looked at, so it is looked at again when a descriptor holds on to who has the number now.
func end(pid int, entry []byte) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if carries(pid, entry) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
		// Whether it is gone by then, the next look tells.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, strayTime)
	}
}
