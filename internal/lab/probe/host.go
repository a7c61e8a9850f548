package probe

import (
	"errors"
	"io/fs"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

// processors is /proc/stat. In a container it is still that of the whole machine.
type processors struct{ proc procfs.FS }

func (*processors) Name() string { return "host processors" }

func (p *processors) Read(into map[string]float64) error {
	stat, err := p.proc.Stat()
	if err != nil {
		return err
	}
	t := stat.CPUTotal
	user, system := t.User+t.Nice, t.System+t.IRQ+t.SoftIRQ
	into["host.cpu.user_seconds"] = user
	into["host.cpu.system_seconds"] = system
	into[measure.HostCPU] = user + system + t.Steal
	into[measure.HostCores] = float64(len(stat.CPU))
	into["host.context_switches"] = float64(stat.ContextSwitches)
	into["host.run_queue"] = float64(stat.ProcessesRunning)
	return nil
}

// memory is /proc/meminfo.
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
	into["host.memory.available_bytes"] = float64(*info.MemAvailableBytes)
	return nil
}

// sockets are /proc/net/sockstat and sockstat6, which are those of the network namespace this program is in.
type sockets struct{ proc procfs.FS }

func (*sockets) Name() string { return "host sockets" }

func (s *sockets) Read(into map[string]float64) error {
	four, err := s.proc.NetSockstat()
	if err != nil {
		return err
	}
	six, err := s.proc.NetSockstat6()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, stat := range []*procfs.NetSockstat{four, six} {
		if stat == nil {
			continue
		}
		for _, p := range stat.Protocols {
			switch p.Protocol {
			case "TCP", "TCP6":
				into["host.tcp.in_use"] += float64(p.InUse)
				if p.TW != nil {
					into["host.tcp.time_wait"] += float64(*p.TW)
				}
			}
		}
	}
	return nil
}
