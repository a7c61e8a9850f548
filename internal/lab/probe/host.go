package probe

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

// maxCores bounds the processors with a value of their own.
const maxCores = 64

// processors reads /proc/stat. In a container it still covers the whole machine. It costs 45 µs on
// a machine of two cores (BenchmarkProcessors).
type processors struct{ proc procfs.FS }

func (*processors) Name() string { return "host processors" }

func (p *processors) Read(into map[string]float64) error {
	stat, err := p.proc.Stat()
	if err != nil {
		return err
	}
	t := stat.CPUTotal
	into[measure.HostCPUUser] = t.User + t.Nice
	into[measure.HostCPUSystem] = t.System + t.IRQ + t.SoftIRQ
	into[measure.HostCPUIowait] = t.Iowait
	into[measure.HostCPUSteal] = t.Steal
	into[measure.HostCPU] = busy(t)
	for n, core := range stat.CPU {
		if n < maxCores {
			into[measure.HostCoreBusy(strconv.FormatInt(n, 10))] = busy(core)
		}
	}
	into[measure.HostCores] = float64(len(stat.CPU))
	into[measure.HostContextSwitches] = float64(stat.ContextSwitches)
	into[measure.HostRunQueue] = float64(stat.ProcessesRunning)
	return nil
}

// busy returns the processor time that was not idle.
func busy(t procfs.CPUStat) float64 {
	return t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
}

// memory reads /proc/meminfo. It costs 30 µs (BenchmarkMemory).
type memory struct{ proc procfs.FS }

func (*memory) Name() string { return "host memory" }

func (m *memory) Read(into map[string]float64) error {
	info, err := m.proc.Meminfo()
	if err != nil {
		return err
	}
	if info.MemAvailableBytes == nil {
		return errors.New("the kernel does not say what is available")
	}
	into[measure.HostMemoryAvailable] = float64(*info.MemAvailableBytes)
	return nil
}

// paging reads /proc/vmstat. It costs 30 µs (BenchmarkPaging), mostly in the kernel, which adds up
// the counters of its processors.
type paging struct {
	root string
	text [32 << 10]byte
}

func (*paging) Name() string { return "host paging" }

func (p *paging) Read(into map[string]float64) error {
	text, err := readWhole(filepath.Join(p.root, "vmstat"), p.text[:])
	if err != nil {
		return err
	}
	into[measure.HostMajorFaults] = number(text, "\npgmajfault ")
	// A kernel without swap has no such lines; the counts are then 0.
	into[measure.HostSwapIn] = number(text, "\npswpin ") * pageSize
	into[measure.HostSwapOut] = number(text, "\npswpout ") * pageSize
	return nil
}

// nodes reports the online NUMA nodes. They are counted once, so later samples cost nothing.
type nodes struct {
	sys   string
	count int
}

func (*nodes) Name() string { return "host NUMA nodes" }

func (n *nodes) Read(into map[string]float64) error {
	if n.count == 0 {
		var memory [256]byte
		text, err := readSmall(filepath.Join(n.sys, "devices/system/node/online"), memory[:])
		if errors.Is(err, fs.ErrNotExist) {
			text, err = []byte("0"), nil // a kernel without NUMA has one node
		}
		if err != nil {
			return err
		}
		if n.count = countList(text); n.count == 0 {
			return errors.New("the kernel's list of them is not understood")
		}
	}
	into[measure.HostNUMANodes] = float64(n.count)
	return nil
}

// countList counts the numbers of a list such as "0-3,8"; 0 if it is not such a list.
func countList(text []byte) (count int) {
	for part := range bytes.SplitSeq(bytes.TrimSpace(text), []byte(",")) {
		from, to, isRange := bytes.Cut(part, []byte("-"))
		if !isRange {
			to = from
		}
		low, err1 := strconv.ParseUint(string(from), 10, 16)
		high, err2 := strconv.ParseUint(string(to), 10, 16)
		if err1 != nil || err2 != nil || high < low {
			return 0
		}
		count += int(high-low) + 1
	}
	return count
}
