//go:build !linux

package experiment

import (
	"errors"
	"os/exec"
)

var errNamespace = errors.New("kernel settings can only be varied on Linux: remove sysctl")

// Isolate is for network namespaces, which only Linux has.
func Isolate(*exec.Cmd) error { return errNamespace }

// Inside reports whether Isolate started this process in its own network namespace.
func Inside() bool { return false }

func insideNamespace() error { return errNamespace }

func setKernel(string, string) error { return errNamespace }
