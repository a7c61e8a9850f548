package probe

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheListenerNearestToItsLimitSpeaksForAll(t *testing.T) {
	address := netip.MustParseAddrPort("127.0.0.1:8080")
	s := New(Options{Listen: []netip.AddrPort{address}})
	wild := netip.MustParseAddrPort("[::]:8080")
	other := netip.MustParseAddrPort("127.0.0.1:9090")
	elsewhere := netip.MustParseAddrPort("127.0.0.2:8080")
	client := netip.MustParseAddrPort("127.0.0.1:40000")
	censusOf(s).dump = func(take func(socket)) error {
		for _, x := range []socket{
			{local: wild, state: listening, queue: 10, limit: 100},
			{local: wild, state: listening, queue: 5, limit: 10},
			{local: wild, state: listening, limit: 1},
			{local: other, state: listening, queue: 9, limit: 1},
			{local: netip.MustParseAddrPort("[::ffff:127.0.0.1]:8080"), remote: client, state: established, retransmits: 3},
			{local: elsewhere, remote: client, state: established, retransmits: 4},
			{local: elsewhere, remote: client, state: synReceived},
			{local: address, remote: client, state: closing},
			{local: address, remote: client, state: finWait1},
			{local: other, remote: client, state: established, retransmits: 100},
			{local: client, remote: other, state: established, retransmits: 100},
		} {
			take(x)
		}
		return nil
	}
	becomes(t, s, map[string]float64{
		"listener.queue":                    5,
		"listener.queue_limit":              10,
		"listener.retransmits":              7,
		"listener.connections.established":  2,
		"listener.connections.syn_received": 1,
		"listener.connections.fin_wait":     2,
	})
}

func TestThousandsOfListenersCostNoMoreEachThanAFew(t *testing.T) {
	// In another network namespace every listener of the port may be the target's.
	const port = 8080
	cost := func(n int) float64 {
		c := &census{
			network: &network{namespace: "another"},
			listen:  []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)},
		}
		at := func(i int) netip.AddrPort {
			return netip.AddrPortFrom(
				netip.AddrFrom4([4]byte{127, byte(i >> 16), byte(i >> 8), byte(i)}), port,
			)
		}
		client := netip.MustParseAddrPort("192.0.2.2:40000")
		before := threadTime()
		for census := range 2 {
			tally := newTally(c)
			for i := range n {
				tally.take(socket{local: at(i), state: listening, queue: uint32(i), limit: 1 << 20})
			}
			for i := range n {
				tally.take(socket{local: at(i), remote: client, state: established})
				tally.take(socket{local: client, remote: at(i), state: established, inode: 1})
			}
			if tally.served[established] != n || tally.fullest.queue != uint32(n-1) ||
				len(tally.candidates) != n {
				t.Fatalf("census %d of %d listeners: %d connections, a queue of %d, %d others",
					census, n, tally.served[established], tally.fullest.queue,
					len(tally.candidates))
			}
			c.listeners = tally.listeners
		}
		return threadTime() - before
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	few, many := cost(1000), cost(10_000)
	for range 3 {
		few, many = min(few, cost(1000)), min(many, cost(10_000))
	}
	// Ten times as much, plus the overhead of a larger map. With a comparison against every
	// listener it would be a hundred times.
	if many > 35*few {
		t.Errorf("10,000 listeners take %.3g s of a processor, and 1000 take %.3g", many, few)
	}
}

func TestAListenerOnAllAddressesCoversEachOfThem(t *testing.T) {
	b := make(bindings)
	for _, a := range []string{"0.0.0.0:80", "[::]:443", "127.0.0.1:8080", "[::1]:8081"} {
		b.add(netip.MustParseAddrPort(a))
	}
	for a, want := range map[string]bool{
		"10.0.0.1:80":       true,
		"[2001:db8::1]:443": true,
		"10.0.0.1:443":      true,
		"127.0.0.1:8080":    true,
		"127.0.0.2:8080":    false,
		"[::1]:8081":        true,
		"10.0.0.1:81":       false,
		"0.0.0.0:80":        true,
	} {
		if b.covers(netip.MustParseAddrPort(a)) != want ||
			bindings(nil).covers(netip.MustParseAddrPort(a)) {
			t.Errorf("%s is covered: %v, want %v, and by nothing when there is none",
				a, b.covers(netip.MustParseAddrPort(a)), want)
		}
	}
}

func TestPortsTowardsOthersAreToldFromThoseOverTheLoopback(t *testing.T) {
	far := func(port string) string {
		return strings.ReplaceAll(tcpLine(port, "1538", "01", 5), "0100007F", "0100000A")
	}
	for name, c := range map[string]struct {
		lines      []string
		all, there float64
	}{
		"both": {
			[]string{
				tcpLine("9001", "1F90", "01", 5), tcpLine("9002", "1F90", "06", 0),
				tcpLine("9003", "1F90", "01", 5), far("9004"), far("9005"),
			},
			3,
			2,
		},
		"only the near":        {[]string{tcpLine("9001", "1F90", "01", 5)}, 1, 0},
		"only the far":         {[]string{far("9004"), far("9005")}, 2, 2},
		"outside of the range": {[]string{tcpLine("1F91", "1F90", "01", 5), far("1F91")}, 0, 0},
	} {
		f := newFakeProc(t)
		f.sockets(c.lines...)
		got := fresh(New(Options{Root: f.root, Sys: f.sys}))
		if got["host.tcp.ports_used"] != c.all || got["host.tcp.ports_used_remote"] != c.there {
			t.Errorf("%s: %v ports, %v of them towards others; want %v and %v",
				name, got["host.tcp.ports_used"], got["host.tcp.ports_used_remote"], c.all, c.there)
		}
	}
}

func TestEveryListenerIsGivenOnce(t *testing.T) {
	var ports []uint16
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "127.0.0.1:0", "0.0.0.0:0"} {
		_, at := listenOn(t, address)
		ports = append(ports, at.Port())
	}
	given := make(map[uint16]int)
	err := diag(func(s socket) {
		if s.state == listening {
			given[s.local.Port()]++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		if given[port] != 1 {
			t.Errorf("the listener on port %d was given %d times", port, given[port])
		}
	}
}

func FuzzDiag(f *testing.F) {
	message := make([]byte, unix.NLMSG_HDRLEN+diagMessageSize)
	message[0] = byte(len(message))
	message[4] = unix.SOCK_DIAG_BY_FAMILY
	message[16] = unix.AF_INET
	message[17] = listening
	f.Add(message)
	f.Add(append(message, 8, 0, diagInfo, 0, 1, 2, 3, 4))
	f.Add([]byte{
		20, 0, 0, 0, unix.NLMSG_ERROR, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		given := 0
		d := dump{each: func(body []byte) {
			parseLocal(body)
			if _, ok := parseDiag(body); ok {
				given++
			}
		}}
		d.messages(text)
		if given > len(text)/diagMessageSize {
			t.Errorf("%d sockets in %d bytes", given, len(text))
		}
	})
}
