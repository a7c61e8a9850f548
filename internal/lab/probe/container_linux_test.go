package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inNamespace puts a process into a network namespace with an address and a listener on port 80 on
// all addresses.
func (f *fakeProc) inNamespace(pid, namespace int, ip string, inode int) {
	dir := fmt.Sprint(pid)
	f.write(dir+"/net/tcp", tcpHead+strings.ReplaceAll(tcpLine("0050", "0000", "0A", inode),
		"0100007F:0050", "00000000:0050")+"\n")
	f.write(dir+"/net/fib_trie", "Main:\n  |-- "+ip+"\n     /32 host LOCAL\n")
	if err := os.MkdirAll(filepath.Join(f.root, dir, "ns"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Symlink(fmt.Sprintf("net:[%d]", namespace),
		filepath.Join(f.root, dir, "ns", "net")); err != nil {
		f.t.Fatal(err)
	}
}

func TestTheContainerBehindAPublishedPortIsTheTarget(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		pid     int
	}{
		"as it is": {
			"docker-proxy\x00-proto\x00tcp\x00-host-ip\x000.0.0.0\x00-host-port\x008080\x00" +
				"-container-ip\x00172.17.0.3\x00-container-port\x0080\x00", 51,
		},
		"with equals":      {"docker-proxy\x00-container-ip=172.17.0.3\x00-container-port=80\x00", 51},
		"another port":     {"docker-proxy\x00-container-ip=172.17.0.3\x00-container-port=81\x00", 0},
		"nobody's address": {"docker-proxy\x00-container-ip=172.17.0.9\x00-container-port=80\x00", 0},
		"two have it":      {"docker-proxy\x00-container-ip=10.0.0.1\x00-container-port=80\x00", 0},
		"nothing is said":  {"docker-proxy\x00-container-port\x00", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			f.sockets(tcpLine("1F90", "0000", "0A", 7))
			f.process(process{pid: 30, parent: 1, name: "docker-proxy", inodes: []int{7}, start: 4})
			f.write("30/cmdline", c.command)
			for i, ip := range []string{"172.17.0.2", "172.17.0.3", "10.0.0.1", "10.0.0.1"} {
				pid := 40 + 10*i
				f.process(process{pid: pid, parent: 1, name: "init", start: 5})
				f.process(process{
					pid: pid + 1, parent: pid, name: "shop", inodes: []int{100 + i}, start: 6,
				})
				f.inNamespace(pid, i, ip, 100+i)
				f.inNamespace(pid+1, i, ip, 100+i)
			}
			pid, _, err := findPID(f.root, 0x1F90)
			if pid != c.pid || (err == nil) != (c.pid != 0) ||
				err != nil && !strings.Contains(err.Error(), "--pid") {
				t.Errorf("process %d, %v; want %d", pid, err, c.pid)
			}
		})
	}
}

func TestWorkersThatShareAPortAreTheirMastersTarget(t *testing.T) {
	for name, c := range map[string]struct {
		programs map[int]string
		want     int
	}{
		"a master that does not listen": {
			map[int]string{20: "/usr/bin/python3", 30: "/usr/bin/python3", 31: "/usr/bin/python3"}, 20,
		},
		"a supervisor": {
			map[int]string{20: "/usr/bin/supervisord", 30: "/usr/bin/python3", 31: "/usr/bin/python3"}, 0,
		},
		"nothing is known of them": {nil, 0},
	} {
		f := newFakeProc(t)
		f.sockets(tcpLine("1F90", "0000", "0A", 7), tcpLine("1F90", "0000", "0A", 8))
		f.process(process{pid: 20, parent: 1, name: "m", start: 3})
		f.process(process{pid: 30, parent: 20, name: "w", inodes: []int{7}, start: 4})
		f.process(process{pid: 31, parent: 20, name: "w", inodes: []int{8}, start: 4})
		for pid, program := range c.programs {
			if err := os.Symlink(program,
				filepath.Join(f.root, fmt.Sprint(pid), "exe")); err != nil {
				t.Fatal(err)
			}
		}
		if pid, _, err := findPID(f.root, 0x1F90); pid != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("%s: process %d, %v; want %d", name, pid, err, c.want)
		}
	}
}

func TestTheBusiestDestinationsAreTold(t *testing.T) {
	to := map[string]int{}
	for i := range 20 {
		to[fmt.Sprint("192.0.2.1:", 1000+i)] = i % 10
	}
	got := busiest(to)
	if len(got) != mostTold || got[0] != "192.0.2.1:1009" || got[1] != "192.0.2.1:1019" {
		t.Errorf("%v", got)
	}
}
