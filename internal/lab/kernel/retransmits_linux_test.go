package kernel

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// enterNetwork gives this goroutine's thread a network of its own, in which only the loopback is.
// The thread is not given back.
func enterNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatal(err)
	}
}

// stream makes a TCP socket for IPv4 or IPv6 that is bound to the loopback, and says where.
func stream(t *testing.T, family int) (fd int, at unix.Sockaddr, name netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	at = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		at = &unix.SockaddrInet6{Addr: [16]byte{15: 1}}
	}
	if err := unix.Bind(fd, at); err != nil {
		t.Fatal(err)
	}
	if at, err = unix.Getsockname(fd); err != nil {
		t.Fatal(err)
	}
	if a, ok := at.(*unix.SockaddrInet6); ok {
		return fd, at, netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	a := at.(*unix.SockaddrInet4)
	return fd, at, netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
}

func TestRetransmitsCountByConnectionInTheTargetsNetworkAlone(t *testing.T) {
	for name, family := range map[string]int{"IPv4": unix.AF_INET, "IPv6": unix.AF_INET6} {
		t.Run(name, func(t *testing.T) {
			outside, ok := open(t, os.Getpid())
			if !ok {
				return
			}
			enterNetwork(t)
			// A thread has a network of its own, and a folder in /proc like a process.
			inside, ok := open(t, unix.Gettid())
			if !ok {
				return
			}
			listener, to, toName := stream(t, family)
			if err := unix.Listen(listener, 0); err != nil {
				t.Fatal(err)
			}
			first, _, _ := stream(t, family)
			if err := unix.Connect(first, to); err != nil {
				t.Fatal(err)
			}
			if n := inside()[measure.BPFRetransmits]; n != 0 {
				t.Fatalf("%v retransmits before any", n)
			}
			// The queue of accepted connections is full now: the second one's SYN is dropped, and
			// sent again after a second. It gives up a second and a half later: the machine may be
			// slow.
			second, _, from := stream(t, family)
			if err := unix.SetsockoptInt(second, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 2500); err != nil {
				t.Fatal(err)
			}
			if err := unix.Connect(second, to); err != unix.ETIMEDOUT {
				t.Fatal(err)
			}
			values := inside()
			key := fmt.Sprintf("%s%d-%s", measure.BPFRetransmitsOf, from.Port(), toName)
			if n := values[measure.BPFRetransmits]; n < 1 || values[key] != n {
				t.Errorf("%v retransmits, %v of them by %s; want all by it: %v", n, values[key], key, values)
			}
			for name := range outside() {
				if strings.HasPrefix(name, key) {
					t.Errorf("%s counts in another network", name)
				}
			}
		})
	}
}

func TestTheBusiestConnectionsAreNamedAndKeepTheirNames(t *testing.T) {
	r := &retransmits{named: make(map[connection]uint64)}
	of := func(port uint16) connection { return connection{LocalPort: port} }
	var connections []connection
	var counts []uint64
	for i := range uint16(20) {
		connections, counts = append(connections, of(i)), append(counts, uint64(i))
	}
	r.name(connections, counts)
	want := make(map[connection]uint64)
	for i := uint16(12); i < 20; i++ {
		want[of(i)] = uint64(i)
	}
	if d := cmp.Diff(want, r.named); d != "" {
		t.Error(d)
	}
	// One has given way in the kernel and come back, and another has become the busiest.
	r.name([]connection{of(19), of(1), of(18)}, []uint64{2, 999, 21})
	want[of(18)] = 21
	if d := cmp.Diff(want, r.named); d != "" {
		t.Error(d)
	}
}
