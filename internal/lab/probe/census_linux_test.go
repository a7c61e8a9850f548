package probe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// fresh takes a sample with a census, however recent the last census was.
func fresh(s *Sampler) map[string]float64 {
	for _, source := range s.sources {
		if c, is := source.(*census); is {
			c.next = time.Time{}
		}
	}
	return s.Sample(0).Values
}

func censusOf(s *Sampler) *census {
	for _, source := range s.sources {
		if c, is := source.(*census); is {
			return c
		}
	}
	return nil
}

// becomes samples until the values are as wanted: the kernel changes the state of sockets with a
// delay.
func becomes(t *testing.T, s *Sampler, want map[string]float64) {
	t.Helper()
	var got map[string]float64
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		got = fresh(s)
		same := true
		for name, v := range want {
			has, there := got[name]
			same = same && there && has == v
		}
		if same {
			return
		}
	}
	for name, v := range want {
		if has, there := got[name]; has != v || !there {
			t.Errorf("%s is %v (there: %v), want %v; not measured: %q",
				name, has, there, v, s.NotMeasured())
		}
	}
}

func listenOn(t *testing.T, address string) (*net.TCPListener, netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener), l.Addr().(*net.TCPAddr).AddrPort()
}

// pair returns both ends of a connection to a listener.
func pair(t *testing.T, l *net.TCPListener, to netip.AddrPort) (client, server *net.TCPConn) {
	t.Helper()
	client, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// leave closes one end of a connection, and the other one once it has noticed.
func leave(t *testing.T, first, second *net.TCPConn) {
	t.Helper()
	first.Close()
	noticed(t, second)
	second.Close()
}

func noticed(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("read %d bytes, %v; the other end was closed", n, err)
	}
}

func TestAFullAcceptQueueIsSeenAgainstItsBacklog(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.Listen(fd, 3)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"),
		uint16(name.(*unix.SockaddrInet4).Port))
	s := New(Options{Listen: []netip.AddrPort{address}})
	before := fresh(s)
	if before["listener.queue"] != 0 || before["listener.queue_limit"] != 3 {
		t.Errorf("an empty queue is %v of %v, want 0 of 3",
			before["listener.queue"], before["listener.queue_limit"])
	}
	for range 6 {
		client, err := unix.Socket(unix.AF_INET,
			unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(client) })
		if err := unix.Connect(client, name); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Fatal(err)
		}
	}
	// The kernel lets one more in than the backlog says.
	becomes(t, s, map[string]float64{
		"listener.queue":                   4,
		"listener.queue_limit":             3,
		"listener.connections.established": 4,
	})
	if after := fresh(s); after["host.tcp.listen_overflows"] <=
		before["host.tcp.listen_overflows"] ||
		after["host.tcp.listen_drops"] <= before["host.tcp.listen_drops"] {
		t.Error("two clients were turned away, and no counter shows it")
	}
}

func TestConnectionsAreToldApartByWhoClosedThem(t *testing.T) {
	// At 127.0.0.1 other tests leave connections in TIME_WAIT for a minute, at ports that are then
	// given out again.
	const own = "127.0.77.1"
	for _, c := range []struct{ listen, asFrom string }{
		{own + ":0", own},
		{"[::1]:0", "::1"},
		{"[::]:0", own},
		{"0.0.0.0:0", own},
	} {
		for _, files := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, from files %v", c.listen, files), func(t *testing.T) {
				l, bound := listenOn(t, c.listen)
				to := netip.AddrPortFrom(netip.MustParseAddr(c.asFrom), bound.Port())
				s := New(Options{Listen: []netip.AddrPort{to}})
				censusOf(s).files = files
				pair(t, l, to)
				pair(t, l, to)
				client, server := pair(t, l, to)
				client.Close()
				noticed(t, server)
				client, server = pair(t, l, to)
				server.Close()
				noticed(t, client)
				for range 2 {
					client, server = pair(t, l, to)
					leave(t, server, client)
				}
				for range 3 {
					client, server = pair(t, l, to)
					leave(t, client, server)
				}
				becomes(t, s, map[string]float64{
					"listener.connections.established":  2,
					"listener.connections.close_wait":   1,
					"listener.connections.fin_wait":     1,
					"listener.connections.time_wait":    2,
					"listener.clients.time_wait":        3,
					"listener.connections.syn_received": 0,
					"listener.queue":                    0,
				})
				_, limit := fresh(s)["listener.queue_limit"]
				_, retransmits := fresh(s)["listener.retransmits"]
				if limit == files || retransmits == files {
					t.Error("the backlog and what was sent again is what INET_DIAG tells, " +
						"and files do not")
				}
				l.Close()
				becomes(t, s, map[string]float64{
					"listener.connections.established": 2,
					"listener.connections.time_wait":   2,
				})
			})
		}
	}
}

func TestConnectionsThatTheTargetOpensAreItsOutgoingOnes(t *testing.T) {
	target, address := listenOn(t, "127.0.77.1:0")
	upstream, to := listenOn(t, "127.0.77.1:0")
	s := New(Options{PID: os.Getpid(), Listen: []netip.AddrPort{address}})
	pair(t, target, address)
	for range 5 {
		pair(t, upstream, to)
	}
	client, server := pair(t, upstream, to)
	server.Close()
	noticed(t, client)
	becomes(t, s, map[string]float64{
		"target.outgoing.established":      5,
		"target.outgoing.close_wait":       1,
		"listener.connections.established": 1,
	})
	if used := fresh(s)["host.tcp.ports_used"]; used < 6 {
		t.Errorf("%v ports are in use, and there are 6 connections to one address", used)
	}
	for range 3 {
		client, server = pair(t, upstream, to)
		leave(t, client, server)
	}
	for range 2 {
		client, server = pair(t, upstream, to)
		leave(t, server, client)
	}
	becomes(t, s, map[string]float64{
		"target.outgoing.established":     5,
		"target.outgoing.time_wait":       3,
		"target.outgoing.time_wait_there": 2,
	})
	if missing := s.NotMeasured(); strings.Contains(strings.Join(missing, "\n"), "sockets by use") {
		t.Errorf("%q", missing)
	}
}

func TestConnectionsOnWhichAnAnswerIsWaitedForAreCounted(t *testing.T) {
	target, address := listenOn(t, "127.0.77.1:0")
	upstream, to := listenOn(t, "127.0.77.1:0")
	s := New(Options{PID: os.Getpid(), Listen: []netip.AddrPort{address}})
	pair(t, target, address)
	pair(t, upstream, to)
	client, server := pair(t, upstream, to)
	name := measure.OutgoingWaiting + to.String()
	// The kernel's times are some milliseconds coarse, so each side sends until its data counts as
	// later than the other's.
	turns := func(who *net.TCPConn, want float64) {
		t.Helper()
		for range 5000 {
			if _, err := who.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if fresh(s)[name] == want {
				return
			}
		}
		t.Errorf("an answer is waited for on %v connections, want %v", fresh(s)[name], want)
	}
	turns(client, 1)
	turns(server, 0)
	turns(client, 1)
}

// A pool hands out the connection first that came back last, so the next question follows at once.
func TestAQuestionThatFollowsAnAnswerAtOnceIsWaitedFor(t *testing.T) {
	target, address := listenOn(t, "127.0.79.1:0")
	upstream, to := listenOn(t, "127.0.79.1:0")
	s := New(Options{PID: os.Getpid(), Listen: []netip.AddrPort{address}})
	pair(t, target, address)
	client, server := pair(t, upstream, to)
	one := make([]byte, 1)
	passes := func(from, into *net.TCPConn) {
		t.Helper()
		if _, err := from.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(into, one); err != nil {
			t.Fatal(err)
		}
	}
	waits := func() float64 { return fresh(s)[measure.OutgoingWaiting+to.String()] }
	const turns = 40
	seen := 0.0
	for range turns {
		passes(client, server)
		passes(server, client)
		passes(client, server)
		seen += waits()
		passes(server, client)
	}
	if seen < turns*3/4 {
		t.Errorf("an answer was waited for in %v looks of %d", seen, turns)
	}
	// The question is acknowledged before it is answered, as one is that takes longer than 40 ms.
	seen, idle := 0.0, 0.0
	for range turns / 4 {
		passes(client, server)
		passes(server, client)
		passes(client, server)
		for deadline := time.Now().Add(time.Minute); unacknowledged(t, client); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal("a question is not acknowledged")
			}
		}
		seen += waits()
		passes(server, client)
		idle += waits()
	}
	if seen < turns/8 || idle > turns/16 {
		t.Errorf("of %d looks %v see that an answer is waited for, and when it is there, %v", turns/4, seen, idle)
	}
}

func TestWhatIsAcknowledgedSoonAfterAnAnswerIsAQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		question, answer, heard, unacked uint32
		awaits                           bool
	}{
		"a question after the answer":             {20, 60, 60, 0, true},
		"an answer after the question":            {60, 20, 20, 0, false},
		"both in a tick":                          {60, 60, 60, 0, false},
		"both in a tick, and not acknowledged":    {60, 60, 60, 1, true},
		"both in a tick, and acknowledged since":  {60, 60, 20, 0, true},
		"both in a tick, and then a probe":        {16000, 16000, 1000, 0, false},
		"acknowledged as late as the kernel does": {300, 300, 50, 0, true},
		"a tick later than that":                  {304, 304, 50, 0, false},
	} {
		if got := awaits(c.question, c.answer, c.heard, c.unacked); got != c.awaits {
			t.Errorf("%s: an answer is awaited: %v", name, got)
		}
	}
}

// unacknowledged reports whether the other end has not acknowledged all that was sent.
func unacknowledged(t *testing.T, c *net.TCPConn) bool {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	var failed error
	err = raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return info.Unacked > 0
}

func TestWhatIsSentAgainIsCountedOfTheTargetsConnections(t *testing.T) {
	l, address := listenOn(t, "127.0.0.1:0")
	s := New(Options{Listen: []netip.AddrPort{address}})
	client, server := pair(t, l, address)
	if before := fresh(s)["listener.retransmits"]; before != 0 {
		t.Errorf("%v segments were sent again before any was lost", before)
	}
	if !deaf(t, client) {
		return
	}
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		if fresh(s)["listener.retransmits"] > 0 {
			return
		}
	}
	t.Error("what nobody acknowledges is not seen to be sent again")
}

// deaf makes the kernel drop all packets to a socket, like a network that loses everything. ok is
// false if only root may do that.
func deaf(t *testing.T, c *net.TCPConn) (ok bool) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &drop[0]})
	})
	if errors.Is(failed, unix.EPERM) && os.Getuid() != 0 {
		t.Log("only root can filter what comes for a socket here: not tested")
		return false
	}
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestConnectionsOfAWorkerThatIsFoundLaterCount(t *testing.T) {
	f := newFakeProc(t)
	f.sockets(tcpLine("9001", "1F90", "01", 5), tcpLine("9002", "1F90", "01", 7))
	f.process(process{pid: 20, parent: 1, name: "master", inodes: []int{5}, start: 4})
	s := New(Options{Root: f.root, Sys: f.sys, PID: 20})
	if got := fresh(s)["target.outgoing.established"]; got != 1 {
		t.Errorf("%v connections, want 1", got)
	}
	f.process(process{pid: 21, parent: 20, name: "worker", inodes: []int{7}, start: 9})
	var got float64
	for range treeEvery {
		got = fresh(s)["target.outgoing.established"]
	}
	if got != 2 {
		t.Errorf("%v connections with the worker's, want 2", got)
	}
}

func TestATargetWhoseDescriptorsMayNotBeSeenHasNoOutgoingConnections(t *testing.T) {
	f := newFakeProc(t)
	f.sockets(tcpLine("9001", "1F90", "01", 5))
	f.process(process{pid: 20, parent: 1, name: "app", inodes: []int{5}, start: 4})
	s := New(Options{Root: f.root, Sys: f.sys, PID: 20})
	if got := fresh(s)["target.outgoing.established"]; got != 1 {
		t.Errorf("%v connections, want 1", got)
	}
	if os.Getuid() == 0 {
		dropRights(t)
	}
	if err := os.Chmod(f.root+"/20/fd", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(f.root+"/20/fd", 0o755) })
	s = New(Options{Root: f.root, Sys: f.sys, PID: 20})
	for range 3 {
		if _, there := fresh(s)["target.outgoing.established"]; there {
			t.Error("connections are given that may not be known")
		}
	}
	if text := strings.Join(s.NotMeasured(), "\n"); strings.Count(text,
		"its descriptors may not be looked into") != 1 {
		t.Error(text)
	}
}

func TestConnectionsOfOthersAreNotTheTargets(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); child.Wait() })
	l, to := listenOn(t, "127.0.0.1:0")
	s := New(Options{PID: child.Process.Pid})
	pair(t, l, to)
	client, server := pair(t, l, to)
	leave(t, client, server)
	becomes(t, s, map[string]float64{
		"target.outgoing.established":     0,
		"target.outgoing.close_wait":      0,
		"target.outgoing.time_wait":       0,
		"target.outgoing.time_wait_there": 0,
	})
}

func TestATargetThatDoesNotListenHereIsSaid(t *testing.T) {
	l, address := listenOn(t, "127.0.0.1:0")
	l.Close()
	for to, want := range map[netip.AddrPort]string{
		address: fmt.Sprintf("sockets by use: "+
			"the target's listener: nothing listens on %s in the network namespace that is read",
			address),
		netip.MustParseAddrPort("192.0.2.1:80"): "sockets by use: the target's listener: " +
			"it is on another machine, or in a network namespace of its own (name its " +
			"process with --pid)",
	} {
		s := New(Options{Listen: []netip.AddrPort{to}})
		fresh(s)
		values := fresh(s)
		if _, there := values["listener.connections.established"]; there {
			t.Error("connections are counted of a listener that is not there")
		}
		if _, there := values["listener.clients.time_wait"]; !there {
			t.Error("what its clients have left is not counted")
		}
		said := 0
		for _, text := range s.NotMeasured() {
			if text == want {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%q was said %d times: %q", want, said, s.NotMeasured())
		}
	}
}

func TestWhereINETDIAGIsRefusedFilesAreRead(t *testing.T) {
	l, address := listenOn(t, "127.0.0.1:0")
	s := New(Options{Listen: []netip.AddrPort{address}})
	asked := 0
	censusOf(s).dump = func(take func(socket)) error {
		asked++
		// What came before the refusal must not count twice.
		take(socket{local: address, state: listening, queue: 99})
		take(socket{local: address, remote: address, state: established})
		return fmt.Errorf("INET_DIAG is refused: %w", unix.EPERM)
	}
	pair(t, l, address)
	for range 2 {
		if got := fresh(s); got["listener.connections.established"] != 1 ||
			got["listener.queue"] != 0 {
			t.Errorf("%v connections and a queue of %v, want 1 and none",
				got["listener.connections.established"], got["listener.queue"])
		}
	}
	missing := strings.Join(s.NotMeasured(), "\n")
	if asked != 1 ||
		strings.Count(missing,
			"INET_DIAG is refused: operation not permitted: they are read from net/tcp") != 1 {
		t.Errorf("asked %d times, and said: %s", asked, missing)
	}
}

func TestSocketsAreCountedOnceASecondAndLessOftenWhereThatIsExpensive(t *testing.T) {
	for expensive, want := range map[bool]int{false: 10, true: 2} {
		s := New(Options{})
		c, now, taken := censusOf(s), time.Unix(1e9, 0), 0
		c.now = func() time.Time { return now }
		c.dump = func(func(socket)) error {
			taken++
			for start := threadTime(); expensive && threadTime() < start+.006; {
			}
			return nil
		}
		with := 0
		for range 40 {
			if _, there := s.Sample(0).Values["host.tcp.ports_used"]; there {
				with++
			}
			now = now.Add(250 * time.Millisecond)
		}
		// The cost of a census is not predictable: on a busy machine the cheap one may be
		// expensive.
		if with != taken || taken < 2 || taken > 10 || expensive && taken != want {
			t.Errorf("expensive %v: sockets were gone through %d times in ten seconds, "+
				"and %d samples have them; want %d", expensive, taken, with, want)
		}
	}
}

func TestACensusMayUseAFiftiethOfAProcessor(t *testing.T) {
	for cost, want := range map[time.Duration]time.Duration{
		0:                      time.Second,
		5 * time.Millisecond:   time.Second,
		5*time.Millisecond + 1: 5 * time.Second,
		100 * time.Millisecond: 5 * time.Second,
		time.Second:            50 * time.Second,
		3 * time.Second:        time.Minute,
	} {
		if got := pause(cost); got != want {
			t.Errorf("after %v of a processor it waits for %v, want %v", cost, got, want)
		}
	}
}
