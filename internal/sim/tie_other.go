//go:build !linux

package sim

import "os/exec"

// tie does nothing: this system cannot tie a process to another.
func tie(*exec.Cmd) {}
