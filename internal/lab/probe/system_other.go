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
