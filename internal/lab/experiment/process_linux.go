package experiment

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes give a program its own process group, so that the whole group can be ended. If this
// process ends for whatever reason, the kernel ends the program itself, but not what it has
// started.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

const (
	// sweeps bounds the searches for strays: one may have started another during a search.
	sweeps = 10
	// strayTime is how long to wait for a killed stray to end, in milliseconds.
	strayTime = 2000
)

// endStrays ends processes that have left their group, such as a worker with its own session: all
// that still have the mark in their environment. A process that has cleared its environment cannot
// be distinguished from other processes and is not ended.
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

// carries reports whether a process has the entry in its environment. An ended process has none.
func carries(pid int, entry []byte) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(environment, entry)
}

// end kills a process and waits until it has ended. Its process id may have been reused since the
// search. So end checks again while a descriptor holds the process that has the id now.
func end(pid int, entry []byte) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if carries(pid, entry) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
		// The next search shows whether it has ended by then.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, strayTime)
	}
}
