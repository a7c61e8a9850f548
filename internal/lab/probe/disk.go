package probe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"plimsoll/internal/lab/measure"
)

const (
	// maxDevices bounds the block devices to distinguish.
	maxDevices = 4096
	// sector is the unit of /proc/diskstats in bytes, whatever the device's own sector size.
	sector = 512
)

// The columns of /proc/diskstats. The first two are the device's numbers.
const (
	diskName         = 2
	diskReadSectors  = 5
	diskWriteSectors = 9
	diskBusy         = 12 // milliseconds with I/O in progress
)

// disks reads /proc/diskstats, whole devices only: a partition's counts are included in its disk's,
// and those of stacked devices (LVM, RAID) in the disks below them. It costs 15 µs with ten devices
// (BenchmarkDisks).
type disks struct {
	root, sys string
	whole     map[string]bool
	last      map[string]float64 // seconds for which a device was busy
	busy      float64
	text      [256 << 10]byte
}

func newDisks(root, sys string) *disks {
	return &disks{
		root:  root,
		sys:   sys,
		whole: make(map[string]bool),
		last:  make(map[string]float64),
	}
}

func (*disks) Name() string { return "host disks" }

// Read adds up what was read and written. Which device is busiest changes, so the highest of their
// counters is not a counter. Instead it adds up, from sample to sample, the busy time of the device
// that was busiest in between.
func (d *disks) Read(into map[string]float64) error {
	text, err := readWhole(filepath.Join(d.root, "diskstats"), d.text[:])
	if err != nil {
		return err
	}
	var read, written, busiest float64
	for line := range bytes.Lines(text) {
		name, sectors, ok := parseDisk(line)
		if !ok || !d.counts(name) {
			continue
		}
		read, written = read+sectors.read*sector, written+sectors.written*sector
		if last, known := d.last[name]; known {
			busiest = max(busiest, sectors.busy-last)
		}
		d.last[name] = sectors.busy
	}
	d.busy += busiest
	into[measure.HostDiskRead] = read
	into[measure.HostDiskWritten] = written
	into[measure.HostDiskBusy] = d.busy
	if len(d.whole) >= maxDevices {
		return fmt.Errorf("there are more than %d devices, and only that many are added up",
			maxDevices)
	}
	return nil
}

// diskFigures are a device's counts since the machine started; busy is in seconds.
type diskFigures struct{ read, written, busy float64 }

func parseDisk(line []byte) (name string, f diskFigures, ok bool) {
	column := 0
	for value := range bytes.FieldsSeq(line) {
		n, err := strconv.ParseUint(string(value), 10, 64)
		if column != diskName && err != nil {
			return name, f, false
		}
		switch column {
		case diskName:
			name = string(value)
		case diskReadSectors:
			f.read = float64(n)
		case diskWriteSectors:
			f.written = float64(n)
		case diskBusy:
			f.busy = float64(n) / 1e3
			return name, f, true
		}
		column++
	}
	return name, f, false
}

// counts reports whether a device is a whole, physical one.
func (d *disks) counts(name string) bool {
	whole, known := d.whole[name]
	if known || len(d.whole) >= maxDevices {
		return whole
	}
	whole = true
	for _, virtual := range []string{"loop", "ram", "zram"} {
		whole = whole && !strings.HasPrefix(name, virtual)
	}
	// sysfs lists only whole devices there, with a "!" for each "/" in their names.
	folder := filepath.Join(d.sys, "block", strings.ReplaceAll(name, "/", "!"))
	if _, err := os.Stat(folder); err != nil {
		whole = false
	}
	if below, err := list(filepath.Join(folder, "slaves"), 1); err == nil && len(below) > 0 {
		whole = false
	}
	d.whole[name] = whole
	return whole
}
