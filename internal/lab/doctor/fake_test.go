package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const fakePID = 42

// fake is a machine made of files that needs no advice: four cores, a Go service of two listeners.
type fake struct {
	t    *testing.T
	root string
}

func newFake(t *testing.T) *fake {
	f := &fake{t, t.TempDir()}
	f.files(map[string]string{
		"proc/stat": "cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n" +
			"cpu1 1 1 1 1 1 1 1 1 0 0\ncpu2 1 1 1 1 1 1 1 1 0 0\ncpu3 1 1 1 1 1 1 1 1 0 0\n" +
			"ctxt 777\nbtime 1700000000\nprocesses 99\nprocs_running 3\nprocs_blocked 0\n",
		"proc/meminfo": "MemTotal: 8000000 kB\n" +
			"MemAvailable: 4000000 kB\nSwapTotal: 1000000 kB\nSwapFree: 1000000 kB\n",
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: A\n" +
			"flags\t\t: fpu aes pclmulqdq sha_ni avx2\n",
		"proc/net/sockstat": "sockets: used 290\n" +
			"TCP: inuse 5 orphan 0 tw 9000 alloc 6 mem 3\n",
		"proc/net/tcp":                               tcpHead,
		"proc/net/tcp6":                              tcpHead,
		"proc/sys/fs/file-nr":                        "1000\t0\t100000\n",
		"proc/sys/vm/swappiness":                     "60\n",
		"proc/sys/net/core/somaxconn":                "4096\n",
		"proc/sys/net/core/rmem_max":                 "212992\n",
		"proc/sys/net/core/wmem_max":                 "212992\n",
		"proc/sys/net/ipv4/tcp_max_syn_backlog":      "512\n",
		"proc/sys/net/ipv4/tcp_syncookies":           "1\n",
		"proc/sys/net/ipv4/ip_local_port_range":      "32768\t60999\n",
		"proc/sys/net/ipv4/ip_local_reserved_ports":  "\n",
		"proc/sys/net/ipv4/tcp_tw_reuse":             "2\n",
		"proc/sys/net/ipv4/tcp_rmem":                 "4096\t131072\t6291456\n",
		"proc/sys/net/ipv4/tcp_wmem":                 "4096\t16384\t4194304\n",
		"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise " +
			"[madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none":       "511\n",
		"sys/devices/system/node/online":                                    "0\n",
		"sys/devices/system/node/node0/cpulist":                             "0-3\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource":   "tsc\n",
		"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm \n",
		"proc/self/mountinfo": "31 23 0:28 / " +
			f.root + "/cg rw,relatime - cgroup2 cgroup2 rw\n",
		"cg/memory.current":     "2000000000\n",
		"cg/app/cpu.max":        "max 100000\n",
		"cg/app/memory.max":     "max\n",
		"cg/app/memory.current": "700000000\n",
	})
	f.process(map[string]string{
		"comm":    "shop\n",
		"stat":    stat(1000),
		"status":  "Name:\tshop\nVmSwap:\t       0 kB\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n",
		"environ": "PATH=/bin\x00",
		"limits": "Limit                     Soft Limit           Hard Limit           Units     " +
			"\nMax open files            65536                524288    " +
			"           files     \n",
		"cgroup":   "0::/app\n",
		"net/tcp":  tcpHead + listens(8080, 1001),
		"net/tcp6": tcpHead,
		"net/udp":  "  sl  local_address\n",
		"fd/9":     "",
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f.link(self, "exe")
	f.link("socket:[1001]", "fd/3")
	return f
}

// stat is of a process that has so many pages.
func stat(pages int) string {
	return fmt.Sprintf("%d (shop) S 1 1 1 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 100 5000 %d%s\n",
		fakePID, pages, strings.Repeat(" 0", 28))
}

const tcpHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   " +
	"uid  timeout inode\n"

func listens(port, inode int) string {
	return fmt.Sprintf("   0: 00000000:%04X 00000000:0000 0A 00000000:00000000 00:00000000 "+
		"00000000  1000        0 %d 1 0000000000000000 100 0 0 10 0\n",
		port, inode)
}

// waiting are connections in TIME_WAIT from local ports of 33000 on to port 5432 of an address.
func waiting(count int, address string) string {
	var b strings.Builder
	b.WriteString(tcpHead + listens(8080, 1001))
	for i := range count {
		fmt.Fprintf(&b, "   1: 0100000A:%04X %s:1538 06 00000000:00000000 03:00000000 "+
			"00000000     0        0 0 3 0000000000000000\n", 33000+i, address)
	}
	return b.String()
}

func (f *fake) files(all map[string]string) {
	f.t.Helper()
	for name, text := range all {
		name = filepath.Join(f.root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fake) process(all map[string]string) {
	f.t.Helper()
	for name, text := range all {
		f.files(map[string]string{fmt.Sprintf("proc/%d/%s", fakePID, name): text})
	}
}

func (f *fake) link(to, name string) {
	f.t.Helper()
	if err := os.Symlink(to, filepath.Join(f.root, "proc", fmt.Sprint(fakePID), name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) remove(name string) {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.root, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) examine(pid int) *Report {
	f.t.Helper()
	r, err := Examine(context.Background(), Options{Root: f.root, PID: pid, Speed: -1})
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func named(t *testing.T, r *Report, name string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no %s", name)
	return Finding{}
}
