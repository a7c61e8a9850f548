//go:build !linux

package experiment

import "syscall"

// attributes give a program a group of processes of its own, so that all of it can be ended.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// endStrays does nothing: only Linux shows the environments of processes.
func endStrays(string) {}
