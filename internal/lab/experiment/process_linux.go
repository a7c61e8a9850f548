package experiment

import "syscall"

// attributes give a program a group of processes of its own, so that all of it can be ended, and end it when this process ends, however that does.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
