package probe

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeProc is a /proc made of files, for what a real one cannot be made to show.
type fakeProc struct {
	t         testing.TB
	root, sys string
}

func newFakeProc(t testing.TB) *fakeProc {
	dir := t.TempDir()
	f := &fakeProc{t, filepath.Join(dir, "proc"), filepath.Join(dir, "sys")}
	f.write("stat",
		"cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 50 10 15 2000 25 3 3 4 0 0\n"+
			"cpu1 50 10 15 2000 25 3 4 4 0 0\nintr 5 1 2\nctxt 777\n"+
			"btime 1700000000\nprocesses 99\nprocs_running 3\nprocs_blocked 0\n"+
			"softirq 1 1 0 0 0 0 0 0 0 0 0\n")
	f.write("meminfo", "MemTotal: 2000 kB\nMemFree: 10 kB\nMemAvailable: 1000 kB\n")
	f.write("net/sockstat", "sockets: used 290\nTCP: inuse 5 orphan 0 tw 9 alloc 6 mem 3\n")
	f.write("net/sockstat6", "TCP6: inuse 2\n")
	f.write("net/tcp", tcpHead)
	f.write("net/tcp6", tcpHead)
	f.write("vmstat", "nr_free_pages 5\npgmajfault 12\npswpin 3\npswpout 4\n")
	f.disks("   8       0 sda 1 1 10 1 1 1 20 1 0 1500 7\n",
		"   8       1 sda1 1 1 10 1 1 1 20 1 0 1500 7\n")
	f.write("net/dev", "Inter-|   Receive                            |  Transmit\n"+
		" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs "+
		"drop fifo colls carrier compressed\n"+
		"    lo:     999 1 0 9 0 0 0 0 999 1 0 9 0 0 0 0\n"+
		"  eth0:     100 1 0 2 0 0 0 0 200 1 0 3 0 0 0 0\n"+
		"  eth1:1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n")
	f.write("net/snmp",
		"Ip: Forwarding\nIp: 1\nTcp: MaxConn ActiveOpens PassiveOpens OutSegs RetransSegs\n"+
			"Tcp: -1 11 12 13 14\nTcpExt: ListenDrops\nTcpExt: 666\n"+
			"Udp: InDatagrams OutDatagrams\nUdp: 1 18\nUdpLite: OutDatagrams\nUdpLite: 666\n")
	f.write("net/netstat",
		"TcpExt: TW ListenOverflows ListenDrops TCPSynRetrans\nTcpExt: 1 15 16 17\n"+
			"IpExt: InOctets\nIpExt: 5\n")
	for name, text := range map[string]string{
		"core/somaxconn":               "4096\n",
		"ipv4/tcp_tw_reuse":            "2\n",
		"ipv4/ip_local_port_range":     "32768\t60999\n",
		"netfilter/nf_conntrack_count": "77\n",
		"netfilter/nf_conntrack_max":   "65536\n",
	} {
		f.write("sys/net/"+name, text)
	}
	f.write("../sys/devices/system/node/online", "0-1,3\n")
	f.write("../sys/block/sda/size", "1\n")
	f.write("../sys/block/dm-0/slaves/sda", "")
	f.write("../sys/block/loop0/size", "1\n")
	f.write("self/mountinfo",
		"32 31 0:29 / "+dir+"/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n33 31 0:30 /here "+
			dir+
			"/memory rw,relatime - cgroup cgroup rw,memory\n"+
			"41 31 0:38 / "+dir+"/unified rw,relatime - cgroup2 cgroup2 rw\n")
	f.write("../memory/app/memory.usage_in_bytes", "5000\n")
	return f
}

func (f *fakeProc) disks(lines ...string) { f.write("diskstats", strings.Join(lines, "")) }

const tcpHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   " +
	"uid  timeout inode\n"

func (f *fakeProc) write(name, text string) {
	f.t.Helper()
	name = filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// listen adds lines to /proc/net/tcp.
func (f *fakeProc) sockets(lines ...string) {
	f.write("net/tcp", tcpHead+strings.Join(lines, "\n")+"\n")
}

func tcpLine(local, remote, state string, inode int) string {
	return fmt.Sprintf("   0: 0100007F:%s 0100007F:%s %s 00000000:00000000 00:00000000 00000000  "+
		"1000        0 %d 1 0000000000000000 100 0 0 10 0",
		local, remote, state, inode)
}

// process is a process of the fake; times are in ticks.
type process struct {
	pid, parent                 int
	name                        string
	user, system, cuser, csys   int
	threads, pages, descriptors int
	limit                       int // of its descriptors; 0 is 1024
	start                       int
	inodes                      []int
	cgroup                      string // as /proc/PID/cgroup has it
}

func (f *fakeProc) process(p process) {
	f.t.Helper()
	dir := fmt.Sprint(p.pid)
	rest := strings.Repeat(" 0", 28)
	if p.cgroup == "" {
		p.cgroup = "1:cpu,cpuacct:/app\n2:memory:/here/app\n0::/app\n"
	}
	f.write(dir+"/cgroup", p.cgroup)
	f.write(
		dir+"/stat",
		fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 101 102 103 104 %d %d %d %d 20 0 %d 0 %d 5000 %d%s\n",
			p.pid, p.name, p.parent, p.user, p.system, p.cuser, p.csys, max(p.threads, 1), p.start,
			p.pages, rest),
	)
	f.write(dir+"/limits",
		"Limit                     Soft Limit           Hard Limit           Units     \n"+
			fmt.Sprintf("Max open files            %-21d4096                 files     \n",
				cmp.Or(p.limit, 1024)))
	f.write(dir+"/status", "Name:\tx\nCpus_allowed:\t1,00000003\nCpus_allowed_list:\t0-1,32\n")
	for i := range max(p.threads, 1) {
		f.write(fmt.Sprintf("%s/task/%d/status", dir, p.pid+i),
			"Name:\tx\nvoluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t2\n")
	}
	if err := os.MkdirAll(filepath.Join(f.root, dir, "fd"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	for i, inode := range p.inodes {
		if err := os.Symlink(fmt.Sprintf("socket:[%d]", inode),
			filepath.Join(f.root, dir, "fd", fmt.Sprint(i))); err != nil {
			f.t.Fatal(err)
		}
	}
	for i := range p.descriptors {
		f.write(fmt.Sprintf("%s/fd/%d", dir, 100+i), "")
	}
}

func (f *fakeProc) remove(pid int) {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.root, fmt.Sprint(pid))); err != nil {
		f.t.Fatal(err)
	}
}
