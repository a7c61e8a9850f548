package probe

import (
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Facts describe a machine. What cannot be determined is empty.
type Facts struct {
	Host        string `json:"host"`
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"` // available to this program
	MemoryBytes uint64 `json:"memory_bytes"`
}

// Machine describes this machine.
func Machine() Facts {
	m := Facts{OS: runtime.GOOS, Cores: runtime.NumCPU()}
	if host, err := os.Hostname(); err == nil {
		m.Host = host
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	m.CPU = cpuModel(proc)
	if info, err := proc.Meminfo(); err == nil && info.MemTotalBytes != nil {
		m.MemoryBytes = *info.MemTotalBytes
	}
	return m
}

// LocalTarget reports whether an address is one of this machine's.
func LocalTarget(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil &&
			prefix.Addr().Unmap().WithZone("") == ip {
			return true
		}
	}
	return false
}
