package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestTheBusiestDiskIsAnotherOneNowAndThen(t *testing.T) {
	f := newFakeProc(t)
	f.write("../sys/block/sdb/size", "1\n")
	f.write("../sys/block/cciss!c0d0/size", "1\n")
	s := New(Options{Root: f.root, Sys: f.sys})
	line := func(name string, sectors, busy int) string {
		return fmt.Sprintf("   8       0 %s 1 1 %d 1 1 1 %d 1 0 %d 7 1 1 1 1\n",
			name, sectors, 2*sectors, busy)
	}
	for i, c := range []struct{ a, b, c int }{
		{90_000, 100, 0},
		{90_500, 1100, 10},
		{91_500, 1200, 20},
		{91_500, 1200, 20},
		{7, 1201, 420},
	} {
		f.disks(line("sda", 10, c.a), line("sdb", 100, c.b), line("cciss/c0d0", 1000, c.c),
			// Not a whole device, or not a physical one.
			line("sda1", 10_000, 1e9*i), line("dm-0", 10_000, 1e9*i), line("loop0", 10_000, 1e9*i),
			"junk\n", "8 0 sdz 1 x\n")
		got := s.Sample(int64(i)).Values
		// the busiest device each time; a device that starts again adds nothing
		want := []float64{0, 1, 2, 2, 2.4}[i]
		if diff := got["host.disk.busy_seconds"] - want; diff < -1e-9 || diff > 1e-9 {
			t.Errorf("after %d samples the busiest was busy for %v s, want %v",
				i+1, got["host.disk.busy_seconds"], want)
		}
		if got["host.disk.read_bytes"] != 1110*512 || got["host.disk.written_bytes"] != 2220*512 {
			t.Errorf("read %v and written %v",
				got["host.disk.read_bytes"], got["host.disk.written_bytes"])
		}
	}
}

func TestFilesOfAKernelThatAreMissingOrStrangeAreSaid(t *testing.T) {
	for file, c := range map[string]struct {
		text, said string
		lost       []string
	}{
		"vmstat": {"", "host paging: ", []string{"host.faults.major"}},
		"diskstats": {
			strings.Repeat("x", 300_000), "diskstats is longer than 256 KB",
			[]string{"host.disk.busy_seconds"},
		},
		"net/dev": {"a\nb\neth0: 1 2 3\n", "host network: ", []string{"host.net.sent_bytes"}},
		"net/snmp": {
			"Tcp: OutSegs\nTcp: 5\n", "host TCP counters: Tcp: of net/snmp has 1 of the 4 columns",
			[]string{"host.tcp.retransmits"},
		},
		"net/netstat": {
			"TcpExt: ListenOverflows ListenDrops\n",
			"host TCP counters: TcpExt: of net/netstat has 0 of the 3",
			[]string{"host.tcp.listen_drops"},
		},
		"sys/net/core/somaxconn": {"many\n", "net/core/somaxconn is not a number", []string{"host.tcp.somaxconn"}},
		"sys/net/ipv4/ip_local_port_range": {
			"9 8\n", "the range of local ports cannot be read",
			[]string{"host.tcp.ports", "host.tcp.ports_used"},
		},
		"../sys/devices/system/node/online": {
			"0-\n", "host NUMA nodes: the kernel's list of them is not understood",
			[]string{"host.numa_nodes"},
		},
	} {
		for _, missing := range []bool{false, true} {
			f := newFakeProc(t)
			said := c.said
			if missing {
				if err := os.Remove(filepath.Join(f.root, file)); err != nil {
					t.Fatal(err)
				}
				said, _, _ = strings.Cut(said, " of ")
				said = strings.TrimSuffix(said, " is longer than 256 KB")
				said = strings.TrimSuffix(said, " is not a number")
				said = strings.TrimSuffix(said, " Tcp:")
				said = strings.TrimSuffix(said, " TcpExt:")
			} else {
				f.write(file, c.text)
			}
			if file == "vmstat" && !missing ||
				file == "../sys/devices/system/node/online" && missing {
				continue // a kernel without swap, one without NUMA
			}
			s := New(Options{Root: f.root, Sys: f.sys, PID: 0})
			s.Sample(0)
			values := fresh(s)
			for _, name := range c.lost {
				if v, there := values[name]; there {
					t.Errorf("%s (missing %v): %s is %v", file, missing, name, v)
				}
			}
			if values["host.cores"] != 2 {
				t.Errorf("%s (missing %v): the rest is gone", file, missing)
			}
			if text := strings.Join(s.NotMeasured(), "\n"); strings.Count(text, said) != 1 {
				t.Errorf("%s (missing %v): %q is not said once in\n%s", file, missing, said, text)
			}
		}
	}
}

func TestListsOfNodesAreCounted(t *testing.T) {
	for text, want := range map[string]int{
		"0\n":           1,
		"0-1\n":         2,
		"0-3,8,10-11":   7,
		"":              0,
		"a":             0,
		"3-1":           0,
		"0-":            0,
		"0,,1":          0,
		"0-99999999999": 0,
	} {
		if got := countList([]byte(text)); got != want {
			t.Errorf("%q has %d, want %d", text, got, want)
		}
	}
}

func TestAMachineWithoutATrackerOfConnectionsHasNothingToSayOfIt(t *testing.T) {
	f := newFakeProc(t)
	if err := os.RemoveAll(filepath.Join(f.root, "sys/net/netfilter")); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Root: f.root, Sys: f.sys})
	if _, there := s.Sample(0).Values["host.conntrack.limit"]; there ||
		strings.Contains(strings.Join(s.NotMeasured(), " "), "conntrack") {
		t.Errorf("%q", s.NotMeasured())
	}
}

func TestANameWithANumberIsOneOfAPattern(t *testing.T) {
	v := measure.SampleName{Name: "host.core.<n>.busy_seconds"}
	for name, want := range map[string]bool{
		"host.core.0.busy_seconds":   true,
		"host.core.63.busy_seconds":  true,
		"host.core..busy_seconds":    false,
		"host.core.x.busy_seconds":   false,
		"host.core.1.busy":           false,
		"host.cpu.busy_seconds":      false,
		"host.core.<n>.busy_seconds": false,
	} {
		if v.Is(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	to := measure.SampleName{Name: measure.OutgoingTo + "<address>"}
	for name, want := range map[string]bool{
		measure.OutgoingTo + "192.0.2.1:80":    true,
		measure.OutgoingTo + "[2001:db8::1]:1": true,
		measure.OutgoingTo + "unix:/run/x":     true,
		measure.OutgoingTo + "192.0.2.1":       false,
		"192.0.2.1:80":                         false,
	} {
		if to.Is(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	if !(measure.SampleName{Name: "host.cores"}).Is("host.cores") ||
		(measure.SampleName{Name: "host.cores"}).Is("host.core") {
		t.Error("a plain name is itself alone")
	}
}
