//go:build !linux

package sim

import "os/exec"

// tie does nothing where a process cannot be tied to another.
func tie(*exec.Cmd) {}
