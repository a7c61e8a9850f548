//go:build !linux

package experiment

import (
	"errors"
	"os/exec"
)

var errNamespace = errors.New("kernel settings can only be varied on Linux: remove sysctl")

// Isolate has a program start in a network namespace of its own, which only Linux has.
func Isolate(*exec.Cmd) error { return errNamespace }

// Inside says whether this process was started in a network namespace of its own by Isolate.
func Inside() bool { return false }

func insideNamespace() error { return errNamespace }

func setKernel(string, string) error { return errNamespace }
