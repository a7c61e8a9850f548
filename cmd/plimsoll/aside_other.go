//go:build !linux

package main

import "syscall"

// aside is a process group of its own, that a terminal's Ctrl-C does not reach.
func aside() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
