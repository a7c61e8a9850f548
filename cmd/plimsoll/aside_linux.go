package main

import "syscall"

// aside is a process group of its own, that a terminal's Ctrl-C does not reach, and an end when
// this process ends, however that does.
func aside() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
