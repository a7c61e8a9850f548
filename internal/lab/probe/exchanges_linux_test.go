package probe

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestWhatGoesToAndFroIsCountedOfTheTargetsConnections(t *testing.T) {
	target, address := listenOn(t, "127.0.78.1:0")
	upstream, to := listenOn(t, "127.0.78.1:0")
	s := New(Options{PID: os.Getpid(), Listen: []netip.AddrPort{address}})
	pair(t, target, address)
	client, server := pair(t, upstream, to)
	name := measure.OutgoingExchanges + to.String()
	ask := func(times int) {
		t.Helper()
		one := make([]byte, 1)
		for range times {
			for _, ends := range [][2]*net.TCPConn{{client, server}, {server, client}} {
				if _, err := ends[0].Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(ends[1], one); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	ask(2)
	if got := fresh(s)[name]; got != 0 {
		t.Errorf("%v exchanges were before the first look, want 0", got)
	}
	ask(3)
	if got := fresh(s)[name]; got != 3 {
		t.Errorf("%v exchanges on one connection, want 3", got)
	}
	ask(4)
	leave(t, client, server) // its exchanges since the last census are unknown
	client, server = pair(t, upstream, to)
	ask(2)
	if got := fresh(s)[name]; got != 5 {
		t.Errorf("%v exchanges on it and on another one, want 5", got)
	}
	// Bodies that are copied piece by piece in both directions do not count.
	body := make([]byte, 4<<10)
	for range 20 {
		for _, ends := range [][2]*net.TCPConn{{client, server}, {server, client}} {
			if _, err := ends[0].Write(body); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(ends[1], body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := fresh(s)[name]; got != 5 {
		t.Errorf("%v exchanges after bodies went to and fro, want 5 still", got)
	}
}

// withoutDescriptors is a /proc with only this process, whose fd folder cannot be read.
func withoutDescriptors(t *testing.T) string {
	t.Helper()
	root, own := t.TempDir(), strconv.Itoa(os.Getpid())
	all, err := os.ReadDir("/proc/self")
	if err := errors.Join(err, os.Mkdir(root+"/"+own, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, entry := range all {
		from := "/proc/" + own + "/" + entry.Name()
		if entry.Name() == "fd" {
			from = "/proc/version"
		}
		if err := os.Symlink(from, root+"/"+own+"/"+entry.Name()); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A census that could not read the target's descriptors, or the Unix sockets, must not make
// existing connections look new.
func TestACensusThatFailsMakesNoConnectionNew(t *testing.T) {
	path := t.TempDir() + "/s"
	_, address := listenOn(t, "127.0.79.1:0")
	upstream, to := listenOn(t, "127.0.79.1:0")
	local, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	s := New(Options{PID: os.Getpid(), Listen: []netip.AddrPort{address}})
	c := censusOf(s)
	exchanges := measure.OutgoingExchanges + to.String()
	news := measure.OutgoingFresh + measure.UnixAddress + path
	connect := func() {
		t.Helper()
		client, server := pair(t, upstream, to)
		for _, ends := range [][2]*net.TCPConn{{client, server}, {server, client}} {
			if _, err := ends[0].Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(ends[1], make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		over, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		there, err := local.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { over.Close(); there.Close() })
	}
	expect := func(when string, want float64) {
		t.Helper()
		got := fresh(s)
		if got[exchanges] != want || got[news] != want {
			t.Errorf("%s: %v exchanges and %v new connections over a Unix socket, want %v",
				when, got[exchanges], got[news], want)
		}
	}
	connect()
	expect("the first look", 0)
	connect()
	expect("one more", 1)
	right := c.of.root
	connect()
	c.of.root = withoutDescriptors(t)
	if got := fresh(s); got[measure.TargetOutgoingEstablished] != 0 {
		t.Errorf("the descriptors could not be read, and it has %v connections",
			got[measure.TargetOutgoingEstablished])
	}
	c.of.root = right
	expect("after a look at no descriptors", 1)
	dump := c.dumpLocal
	c.dumpLocal = func(func(localSocket)) error { return errors.New("refused") }
	fresh(s)
	c.dumpLocal = dump
	expect("after a look without Unix sockets", 1)
}
