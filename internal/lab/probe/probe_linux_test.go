package probe

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plimsoll/internal/lab/measure"
)

func TestTheHostIsSampled(t *testing.T) {
	f := newFakeProc(t)
	s := New(Options{Root: f.root, Sys: f.sys})
	sample := s.Sample(42)
	want := map[string]float64{
		"host.cpu.user_seconds":       1.2,
		"host.cpu.system_seconds":     .43,
		"host.cpu.busy_seconds":       1.71,
		"host.cores":                  2,
		"host.cpu.iowait_seconds":     .5,
		"host.cpu.steal_seconds":      .08,
		"host.core.0.busy_seconds":    .85,
		"host.core.1.busy_seconds":    .86,
		"host.numa_nodes":             3,
		"host.memory.available_bytes": 1024000,
		"host.context_switches":       777,
		"host.run_queue":              3,
		"host.tcp.in_use":             7,
		"host.tcp.time_wait":          9,
		"host.faults.major":           12,
		"host.swap.in_bytes":          3 * pageSize,
		"host.swap.out_bytes":         4 * pageSize,
		"host.disk.read_bytes":        5120,
		"host.disk.written_bytes":     10240,
		"host.disk.busy_seconds":      0,
		"host.net.received_bytes":     1100,
		"host.net.sent_bytes":         2200,
		"host.net.dropped":            5,
		"host.tcp.opened_active":      11,
		"host.tcp.opened_passive":     12,
		"host.udp.sent_datagrams":     18,
		"host.tcp.segments_sent":      13,
		"host.tcp.retransmits":        14,
		"host.tcp.listen_overflows":   15,
		"host.tcp.listen_drops":       16,
		"host.tcp.syn_retransmits":    17,
		"host.tcp.ports":              28232,
		"host.tcp.ports_used":         0,
		"host.tcp.ports_used_remote":  0,
		"host.tcp.tw_reuse":           2,
		"host.tcp.somaxconn":          4096,
		"host.conntrack.entries":      77,
		"host.conntrack.limit":        65536,
	}
	if d := cmp.Diff(want, sample.Values, cmpopts.EquateApprox(0, 1e-9)); d != "" ||
		sample.At != 42 {
		t.Error(sample.At, d)
	}
	if missing := s.NotMeasured(); len(missing) != 1 || !strings.Contains(missing[0], "--pid") {
		t.Errorf("without a process the target is not measured, and that is said: %q", missing)
	}
}

func TestDescriptorsAreThoseOfTheProcessThatIsNearestToItsLimit(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "nginx", descriptors: 30, limit: 20000, start: 100})
	f.process(process{pid: 21, parent: 20, name: "worker", descriptors: 9, limit: 28, start: 110})
	f.process(process{pid: 22, parent: 20, name: "worker", descriptors: 27, limit: 28, start: 110})
	got := New(Options{Root: f.root, PID: 20}).Sample(0).Values
	for name, want := range map[string]float64{
		"target.descriptors":       66,
		"target.descriptors_most":  27,
		"target.descriptors_limit": 28,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

func TestTheTargetIsItsProcessAndThoseThatDescendFromIt(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 10, parent: 1, name: "shell", user: 9999, start: 50})
	f.process(process{
		pid:         20,
		parent:      10,
		name:        "nginx: (master)",
		user:        100,
		system:      50,
		cuser:       10,
		csys:        5,
		pages:       2,
		descriptors: 3,
		start:       100,
	})
	f.process(process{
		pid:         21,
		parent:      20,
		name:        "worker",
		user:        200,
		system:      20,
		threads:     3,
		pages:       5,
		descriptors: 4,
		start:       110,
	})
	f.process(process{pid: 22, parent: 21, name: "helper", user: 1, start: 120})
	f.process(process{pid: 30, parent: 10, name: "other", user: 5555, start: 130})
	s := New(Options{Root: f.root, PID: 20})
	got := s.Sample(0).Values
	page := float64(os.Getpagesize())
	for name, want := range map[string]float64{
		"target.cpu.user_seconds":             3.11,
		"target.cpu.system_seconds":           .75,
		"target.cpu.seconds":                  3.86,
		"target.cpu.ended_seconds":            .15,
		"target.processes":                    3,
		"target.threads":                      5,
		"target.memory.rss_bytes":             7 * page,
		"target.descriptors":                  7,
		"target.descriptors_most":             4,
		"target.descriptors_limit":            1024,
		"target.cores_allowed":                3,
		"target.context_switches.voluntary":   50,
		"target.context_switches.involuntary": 10,
		"target.faults.minor":                 3 * (101 + 102),
		"target.faults.major":                 3 * (103 + 104),
		"target.cgroup.memory_bytes":          5000,
	} {
		if diff := got[name] - want; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if missing := s.NotMeasured(); len(missing) != 0 {
		t.Error(missing)
	}
	if pid, name, ok := s.Target(); pid != 20 || name != "nginx: (master)" || !ok {
		t.Error(pid, name, ok)
	}
	alone := New(Options{Root: f.root, PID: 20, Alone: true}).Sample(0).Values
	if alone["target.cpu.seconds"] != 1.5 || alone["target.faults.minor"] != 101 ||
		alone["target.faults.major"] != 103 {
		t.Errorf("alone it used %v s, want 1.5; and had %v and %v faults, want 101 and 103",
			alone["target.cpu.seconds"], alone["target.faults.minor"],
			alone["target.faults.major"])
	}
}

func TestAWorkerThatEndsLeavesItsTimeToItsParent(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, start: 100})
	f.process(process{pid: 21, parent: 20, name: "worker", user: 200, start: 110})
	s := New(Options{Root: f.root, PID: 20})
	before := s.Sample(0).Values["target.cpu.seconds"]
	f.remove(21)
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, cuser: 200, start: 100})
	f.process(process{pid: 22, parent: 20, name: "worker", user: 50, start: 150})
	var after float64
	for i := range treeEvery {
		after = s.Sample(int64(i)).Values["target.cpu.seconds"]
	}
	if before != 3 || after != 3.5 {
		t.Errorf("before %v, want 3; after %v, want 3.5", before, after)
	}
}

func TestANumberThatWentToAnotherProcessIsNoLongerTheTargets(t *testing.T) {
	f := newFakeProc(t)
	f.sockets(tcpLine("9001", "1F90", "01", 5))
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, inodes: []int{5}, start: 100})
	f.process(process{pid: 21, parent: 20, name: "worker", user: 200, start: 110})
	s := New(Options{Root: f.root, Sys: f.sys, PID: 20})
	if got := fresh(s); got["target.cpu.seconds"] != 3 || got["target.processes"] != 2 {
		t.Fatalf("%v s of %v processes, want 3 of 2",
			got["target.cpu.seconds"], got["target.processes"])
	}
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, cuser: 200, start: 100})
	f.process(process{
		pid:         21,
		parent:      1,
		name:        "cron",
		user:        9999,
		threads:     5,
		pages:       9,
		descriptors: 6,
		inodes:      []int{7},
		start:       900,
	})
	f.sockets(tcpLine("9001", "1F90", "01", 5), tcpLine("9002", "1F90", "01", 7))
	got := fresh(s) // before the descendants are looked for again
	for name, want := range map[string]float64{
		"target.cpu.seconds":                3,
		"target.processes":                  1,
		"target.threads":                    1,
		"target.memory.rss_bytes":           0,
		"target.descriptors":                1,
		"target.context_switches.voluntary": 10,
		"target.outgoing.established":       1,
	} {
		if v, there := got[name]; v != want || !there {
			t.Errorf("%s is %v (there: %v), want %v", name, v, there, want)
		}
	}
}

func TestTheProcessorsThatAProcessMayRunOnAreCounted(t *testing.T) {
	for status, want := range map[string][]uint32{
		"Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n":          {3},
		"Name:\tx\nCpus_allowed:\tffffffff,00000001\nMems_allowed:\t1\n": {1, 0xffffffff},
		"Name:\tx\nCpus_allowed_list:\t0-1\n":                            nil,
		"Name:\tx\nCpus_allowed:\tmany\n":                                nil,
		"Name:\tx\nCpus_allowed:\t\n":                                    nil,
		"":                                                               nil,
	} {
		if groups := allowedTo([]byte(status)); !slices.Equal(groups, want) {
			t.Errorf("%q says %x, want %x", status, groups, want)
		}
	}
}

func TestASourceWhoseErrorsChangeDoesNotSilenceTheOthers(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "app", user: 7, start: 100})
	s := New(Options{Root: f.root, Sys: f.sys, PID: 20, More: []Source{new(restless)}})
	for i := range 100 {
		s.Sample(int64(i))
	}
	f.remove(20)
	s.Sample(100)
	missing := s.NotMeasured()
	if text := strings.Join(missing, "\n"); len(missing) > 2*maxMissing ||
		!strings.Contains(text, "tides: wave 1\n") ||
		!strings.Contains(text, "process 20 (app) ended while it was measured") {
		t.Errorf("%d lines: %s", len(missing), text)
	}
}

// restless reports a different error each time.
type restless struct{ times int }

func (*restless) Name() string { return "tides" }
func (r *restless) Read(map[string]float64) error {
	r.times++
	return fmt.Errorf("wave %d", r.times)
}

func TestAProcessThatIsGoneOrAnotherIsSaidOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fakeProc)
		want   string
	}{
		"gone": {func(f *fakeProc) { f.remove(20) }, "process 20 (app) ended while it was measured"},
		"another": {
			func(f *fakeProc) { f.process(process{pid: 20, parent: 1, name: "cron", start: 900}) },
			"its number went to another one (cron)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			f.process(process{pid: 20, parent: 1, name: "app", user: 7, start: 100})
			s := New(Options{Root: f.root, PID: 20})
			if s.Sample(0).Values["target.cpu.seconds"] != .07 {
				t.Fatal("the target is not sampled")
			}
			c.change(f)
			for i := range 3 {
				values := s.Sample(int64(i)).Values
				for name := range values {
					if strings.HasPrefix(name, "target.") {
						t.Errorf("%s is still there", name)
					}
				}
				if values["host.cores"] != 2 {
					t.Error("the host is no longer sampled")
				}
			}
			if missing := s.NotMeasured(); len(missing) != 1 ||
				!strings.Contains(missing[0], c.want) {
				t.Errorf("%q does not say %q, once", missing, c.want)
			}
		})
	}
}

func TestWhatCannotBeReadIsSaidOnceAndTheRestIsThere(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "app", threads: maxTasks + 1, start: 100})
	f.write("meminfo", "MemTotal: 2000 kB\n")
	s := New(Options{Root: f.root, PID: 20, More: []Source{failing{}}})
	var values map[string]float64
	for i := range 5 {
		values = s.Sample(int64(i)).Values
	}
	text := strings.Join(s.NotMeasured(), "\n")
	if want := "host memory: the kernel does not say what is available\n" +
		"the target's context switches: it has more than 64 threads\nmoon phase: it is cloudy"; text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	if values["target.threads"] != maxTasks+1 || values["host.cores"] != 2 ||
		values["moon.phase"] != .5 {
		t.Error(values)
	}
	if _, there := values["target.context_switches.voluntary"]; there {
		t.Error("context switches of some threads are passed for those of all")
	}
	missing := New(Options{Root: f.root, PID: 21}).NotMeasured()
	if len(missing) != 1 || missing[0] != "the target: there is no process 21 on this machine" {
		t.Errorf("%q", missing)
	}
	if missing = New(Options{Root: f.root + "/none"}).NotMeasured(); len(missing) != 1 ||
		!strings.HasPrefix(missing[0], "everything: ") {
		t.Errorf("%q", missing)
	}
}

type failing struct{}

func (failing) Name() string { return "moon phase" }
func (failing) Read(into map[string]float64) error {
	into["moon.phase"] = .5
	return errors.New("it is cloudy")
}

func TestThisProcessIsSampledWithTheNamesThatAreDocumented(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	speed := NewSpeed()
	defer speed.Stop()
	for speed.looks.Load() == 0 {
		runtime.Gosched()
	}
	s := New(Options{
		PID:    os.Getpid(),
		Listen: []netip.AddrPort{l.Addr().(*net.TCPAddr).AddrPort()},
		More:   []Source{speed},
	})
	first := s.Sample(0).Values
	sum := 0
	for range 50_000_000 {
		sum++
	}
	runtime.KeepAlive(sum)
	second := s.Sample(1).Values
	// Values that depend on the setup of this machine.
	optional := []string{
		"target.cgroup.", "host.conntrack.", measure.OutgoingTo, measure.OutgoingWaiting,
		measure.OutgoingExchanges, measure.OutgoingReceived, measure.OutgoingAhead, measure.TargetEnded, measure.OutgoingFresh,
		measure.Behind, measure.Doing, "target.gc.",
		measure.TargetSafepoints, measure.TargetSafepointTime, measure.OthersCPU,
		measure.TargetOpened, measure.TargetLocked, measure.TargetAppended,
		measure.TargetOutputFile,
		"target.threads.hottest_share",
		"target.threads.full", // from the second look on
	}
	// Threads that end take their switches with them, and the kernel only estimates the iowait of
	// idle cores.
	mayFall := []string{
		"target.context_switches.voluntary",
		"target.context_switches.involuntary",
		"host.cpu.iowait_seconds",
	}
	for _, v := range Values {
		is := func(name string) bool { return v.Is(name) }
		names := slices.Collect(maps.Keys(first))
		if !slices.ContainsFunc(names, is) && !slices.ContainsFunc(optional, func(o string) bool {
			return strings.HasPrefix(v.Name, o)
		}) {
			t.Errorf("%s is not there: %q", v.Name, s.NotMeasured())
		}
		for name, got := range second {
			if v.Is(name) && v.Counter && !slices.Contains(mayFall, v.Name) && got < first[name] {
				t.Errorf("%s is said to be a counter, and fell from %v to %v",
					name, first[name], got)
			}
		}
	}
	for name := range first {
		if !slices.ContainsFunc(Values, func(v measure.SampleName) bool { return v.Is(name) }) {
			t.Errorf("%s is in no list", name)
		}
	}
	if used := second["target.cpu.seconds"] - first["target.cpu.seconds"]; used <= 0 {
		t.Errorf("50 million additions took %v s of processor time", used)
	}
	ticks := second["target.cpu.user_seconds"] + second["target.cpu.system_seconds"]
	if diff := second["target.cpu.seconds"] - ticks; diff < -.05 || diff > .05 {
		t.Errorf("the clock says %v s, and the ticks %v", second["target.cpu.seconds"], ticks)
	}
}

func TestTheListenerIsFoundByItsPort(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		pid, name, err := FindPID(l.Addr().(*net.TCPAddr).Port)
		l.Close()
		if err != nil || pid != os.Getpid() || name == "" {
			t.Errorf("%s: process %d (%s), %v; this one is %d",
				address, pid, name, err, os.Getpid())
		}
	}
}

func TestAChildsTimeCountsWithItsParents(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	s := New(Options{PID: os.Getpid()})
	if got := s.Sample(0).Values["target.processes"]; got != 2 {
		t.Errorf("%v processes, want this one and its child", got)
	}
	in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := s.Sample(0).Values["target.processes"]; got != 1 {
		t.Errorf("%v processes after the child has ended", got)
	}
}

func TestWhoListensIsFoundOrSaidWhyNot(t *testing.T) {
	const port = 0x1F90
	for name, c := range map[string]struct {
		make func(f *fakeProc)
		pid  int
		want string
	}{
		"a master whose workers share its socket": {func(f *fakeProc) {
			f.sockets(tcpLine("1F90", "0000", "0A", 7))
			f.process(process{pid: 31, parent: 30, name: "worker", inodes: []int{5, 7}, start: 5})
			f.process(process{pid: 30, parent: 1, name: "nginx", inodes: []int{7}, start: 4})
			f.process(process{pid: 32, parent: 30, name: "worker", inodes: []int{7}, start: 5})
			f.process(process{pid: 40, parent: 1, name: "client", inodes: []int{8}, start: 5})
		}, 30, ""},
		"nobody": {
			func(f *fakeProc) { f.sockets(tcpLine("1F90", "0050", "01", 7)) }, 0,
			"nothing in this network namespace listens on port 8080",
		},
		"somebody in another container": {func(f *fakeProc) {
			f.sockets(tcpLine("1F90", "0000", "0A", 7))
			f.process(process{pid: 40, parent: 1, name: "x", start: 5})
		}, 0, "cannot be seen from here"},
		"several servers": {func(f *fakeProc) {
			f.sockets(tcpLine("1F90", "0000", "0A", 7), tcpLine("1F90", "0000", "0A", 8))
			f.process(process{pid: 30, parent: 1, name: "a", inodes: []int{7}, start: 4})
			f.process(process{pid: 31, parent: 1, name: "b", inodes: []int{8}, start: 4})
		}, 0, "name one with --pid: 30 (a), 31 (b)"},
		"a forwarder": {func(f *fakeProc) {
			f.sockets(tcpLine("1F90", "0000", "0A", 7))
			f.process(process{pid: 30, parent: 1, name: "docker-proxy", inodes: []int{7}, start: 4})
		}, 0, "which only forwards"},
		"no table": {func(f *fakeProc) { f.t.Chdir(f.root); os.Remove("net/tcp") }, 0, "sockets cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			c.make(f)
			pid, _, err := findPID(f.root, port)
			if pid != c.pid || (c.want == "") != (err == nil) ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("process %d, %v; want %d, %q", pid, err, c.pid, c.want)
			}
		})
	}
}

func TestAProcessOfAnotherUserIsSaidToBeOne(t *testing.T) {
	f := newFakeProc(t)
	f.sockets(tcpLine("1F90", "0000", "0A", 7))
	f.process(process{pid: 30, parent: 1, name: "a", inodes: []int{7}, start: 4})
	if os.Getuid() == 0 {
		dropRights(t)
	}
	if err := os.Chmod(fmt.Sprintf("%s/30/fd", f.root), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(fmt.Sprintf("%s/30/fd", f.root), 0o755) })
	if _, _, err := findPID(f.root, 0x1F90); err == nil ||
		!strings.Contains(err.Error(), "belongs to another user") {
		t.Error(err)
	}
}

func TestConnectionsToATargetCountOnceUntilTheyAreClosed(t *testing.T) {
	f := newFakeProc(t)
	f.sockets(tcpLine("1F90", "0000", "0A", 1), tcpLine("8001", "1F90", "01", 2),
		tcpLine("1F90", "8001", "01", 3), tcpLine("8002", "1F90", "06", 0),
		tcpLine("8003", "1F90", "04", 4), tcpLine("8004", "1F91", "01", 5),
		tcpLine("8005", "1F90", "05", 6))
	f.write("net/tcp6",
		tcpHead+"   0: 0000000000000000FFFF00000100007F:9000 "+
			"0000000000000000FFFF00000100007F:1F90 01 0:0 0:0 0 0 0 77\n"+
			"   1: 00000000000000000000000001000000:9001 00000000000000000000000001000000:1F90 "+
			"01 0:0 0:0 0 0 0 78\n")
	for to, want := range map[string]int{
		"127.0.0.1:8080": 3,
		"[::1]:8080":     1,
		"127.0.0.2:8080": 0,
		"127.0.0.1:8081": 1,
	} {
		if n, err := connections(f.root, []netip.AddrPort{
			netip.MustParseAddrPort(to),
		}); n != want || err != nil {
			t.Errorf("%d connections to %s, %v; want %d", n, to, err, want)
		}
	}
}

func TestWhatIsNotASocketIsNotCounted(t *testing.T) {
	for _, line := range []string{
		"", tcpHead, "1: 2", "0: 0100007F 0100007F 0A 0 0 0 0 0 7", "0: a:b:c d:zz 0A 0 0 0 0 0 7",
		"0: 0100007F:1 0100007F:2 XX 0 0 0 0 0 7",
		"0: 0100007G:1 0100007F:2 0A 0 0 0 0 0 7", "0: 0100007F:1 0100007F:2 0A 0 0 0 0 0 x",
	} {
		if s, ok := parseSocket([]byte(line)); ok {
			t.Errorf("%q was taken for %+v", line, s)
		}
	}
	if _, ok := parseSocket([]byte("0: 0100007F:1 0100007F:2 0A 0 0 0 0 0 7")); !ok {
		t.Error("a socket was not recognised")
	}
}

func TestAProcessMayHaveAnyName(t *testing.T) {
	s, ok := parseStat([]byte("1 (a) b) S 7 0 0 0 0 0 1 2 3 4 11 12 13 14 0 0 5 0 99 0 22 0"))
	if want := (stat{
		name:        "a) b",
		state:       'S',
		parent:      7,
		minor:       1,
		childMinor:  2,
		major:       3,
		childMajor:  4,
		user:        11,
		system:      12,
		childUser:   13,
		childSystem: 14,
		threads:     5,
		start:       99,
		pageCount:   22,
	}); s != want || !ok {
		t.Errorf("%+v %v, want %+v", s, ok, want)
	}
	for _, text := range []string{
		"", "1 (a", "1 )a( S 1", "1 (a) S 1 2",
		"1 (a) S 7 0 0 0 0 0 0 0 0 0 11 12 13 14 0 0 5 0 99 0 x 0",
	} {
		if s, ok := parseStat([]byte(text)); ok {
			t.Errorf("%q was taken for %+v", text, s)
		}
	}
}

func TestTheMachineKnowsItsAddresses(t *testing.T) {
	for _, text := range []string{"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0"} {
		if !LocalTarget(netip.MustParseAddr(text)) {
			t.Errorf("%s is not taken for this machine's", text)
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if !LocalTarget(netip.MustParsePrefix(a.String()).Addr()) {
			t.Errorf("%s is not taken for this machine's", a)
		}
	}
	if LocalTarget(netip.MustParseAddr("192.0.2.7")) {
		t.Error("an address of the documentation is taken for this machine's")
	}
	if m := Machine(); m.Cores < 1 || m.OS == "" || m.Kernel == "" || m.MemoryBytes == 0 {
		t.Errorf("%+v", m)
	}
}
