//go:build !linux

package probe

import (
	"errors"

	"github.com/prometheus/procfs"
)

func cpuClock(int) (float64, error) {
	return 0, errors.New("processes have no clocks here")
}

func cpuModel(procfs.FS) string { return "" }

var errNamespace = errors.New("network namespaces are there on Linux only")

func within(string, func() error) error { return errNamespace }

func diag(func(socket)) error {
	return errors.New("INET_DIAG is there on Linux only")
}

func diagDatagrams(func(socket)) error { return nil }

func diagLocal(func(localSocket)) error { return nil }

func threadTime() float64 { return 0 }

var calls map[int]call
