//go:build !linux

package experiment

import "syscall"

// attributes give a program its own process group, so that the whole group can be ended.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endStrays does nothing: only Linux shows the environments of processes.
func endStrays(string) {}
