package kernel

import (
	"net/netip"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/reactor"
)

// machine is the real kernel as a world. Its sockets are set up as the reactor sets up its own.
type machine struct {
	t       *testing.T
	unix    bool
	made    int // addresses
	open    map[int]bool
	service int // the listening socket of an accepting peer, -1 for none
	pollers [2]*epoll
}

func newMachine(t *testing.T, family string) *machine {
	m := &machine{t: t, unix: family == "unix", open: map[int]bool{}, service: -1}
	for i := range m.pollers {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			t.Fatal("epoll_create1:", err)
		}
		m.pollers[i] = &epoll{t: t, fd: m.own(fd)}
	}
	t.Cleanup(func() {
		for fd := range m.open {
			unix.Close(fd)
		}
	})
	return m
}

// own has a descriptor closed when the test is over, unless that was done before.
func (m *machine) own(fd int) int {
	m.open[fd] = true
	return fd
}

func (m *machine) patience() time.Duration { return time.Second }

// pass waits for a moment, less when something becomes ready.
func (m *machine) pass() {
	unix.Poll([]unix.PollFd{{Fd: int32(m.pollers[0].fd), Events: unix.POLLIN}}, 2)
}

// underWay says that an acknowledgement of little data, or of the end, is still to come. That of
// much data may wait for a reader, unless all was read.
func (m *machine) underWay(fd int, read bool) bool {
	const little = 4 << 10
	if m.unix {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	m.must(err)
	const closed, listens = 7, 10 // TCP_CLOSE and TCP_LISTEN of the kernel's net/tcp_states.h
	if info.State == closed || info.State == listens {
		return false
	}
	n := m.Unacknowledged(fd)
	return n > 0 && (read || n < little)
}

func (m *machine) poller(i int) watcher { return m.pollers[i] }

func (m *machine) address() reactor.Address {
	m.made++
	if m.unix {
		return reactor.Address{Path: filepath.Join(m.t.TempDir(), "s"+strconv.Itoa(m.made))}
	}
	return reactor.Address{IP: netip.MustParseAddrPort("127.0.0.1:0")}
}

func (m *machine) sockaddr(a reactor.Address) unix.Sockaddr {
	if a.Path != "" {
		return &unix.SockaddrUnix{Name: a.Path}
	}
	return &unix.SockaddrInet4{Port: int(a.IP.Port()), Addr: a.IP.Addr().As4()}
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// bound is a socket with a name, and that name.
func (m *machine) bound() (int, reactor.Address) {
	at := m.address()
	fd, _ := m.Socket(at)
	m.must(unix.Bind(fd, m.sockaddr(at)))
	if !m.unix {
		name, err := unix.Getsockname(fd)
		m.must(err)
		at.IP = netip.AddrPortFrom(at.IP.Addr(), uint16(name.(*unix.SockaddrInet4).Port))
	}
	return fd, at
}

func (m *machine) serve(state string) reactor.Address {
	switch state {
	case "missing":
		if m.unix {
			return m.address()
		}
		fallthrough
	case "dead": // the socket keeps the port from others, and does not listen
		_, at := m.bound()
		return at
	}
	fd, at := m.bound()
	if state == "full" {
		m.must(unix.Listen(fd, 0))
		filler, _ := m.Socket(at)
		m.Connect(filler, at)
		return at
	}
	m.must(unix.Listen(fd, 8))
	m.service = fd
	return at
}

func (m *machine) accepted() peer {
	if m.service < 0 {
		return nil
	}
	fd, _, err := unix.Accept4(m.service, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return nil
	}
	return &socket{m: m, fd: m.own(fd)}
}

func (m *machine) dial(to reactor.Address) (peer, func() string) {
	fd, _ := m.Socket(to)
	err := m.Connect(fd, to)
	return &socket{m: m, fd: fd}, func() string {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		unix.Poll(ready, 0)
		switch {
		case err != nil || ready[0].Revents&unix.POLLERR != 0:
			return "refused"
		case ready[0].Revents&unix.POLLOUT == 0:
			return "waiting"
		}
		return "connected"
	}
}

func (m *machine) Socket(to reactor.Address) (int, error) {
	family := unix.AF_INET
	if to.Path != "" {
		family = unix.AF_UNIX
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	m.must(err)
	m.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bufferBytes))
	m.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferBytes))
	if family == unix.AF_INET {
		m.must(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
		m.must(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, reactor.UnsentLimit))
	}
	return m.own(fd), nil
}

func (m *machine) Connect(fd int, to reactor.Address) error {
	if err := unix.Connect(fd, m.sockaddr(to)); err != unix.EINPROGRESS {
		return err
	}
	return nil
}

func (m *machine) Listen(on reactor.Address, backlog int, _ bool) (int, error) {
	fd, _ := m.Socket(on)
	m.must(unix.Bind(fd, m.sockaddr(on)))
	return fd, unix.Listen(fd, backlog)
}

func (m *machine) LocalAddress(fd int) (reactor.Address, error) {
	name, err := unix.Getsockname(fd)
	if at, is := name.(*unix.SockaddrInet4); is {
		ip := netip.AddrFrom4(at.Addr)
		return reactor.Address{IP: netip.AddrPortFrom(ip, uint16(at.Port))}, err
	}
	return reactor.Address{Path: name.(*unix.SockaddrUnix).Name}, err
}

func (m *machine) accept(fd int) (int, syscall.Errno) {
	accepted, _, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return -1, err.(syscall.Errno)
	}
	return m.own(accepted), 0
}

func (m *machine) dup(fd int) int {
	twin, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	m.must(err)
	return m.own(twin)
}

func errnoOf(n int, err error) (int, syscall.Errno) {
	if err != nil {
		return -1, err.(syscall.Errno)
	}
	return n, 0
}

func (m *machine) Recv(fd int, p []byte) (int, syscall.Errno) {
	n, _, err := unix.Recvfrom(fd, p, 0)
	return errnoOf(n, err)
}

func (m *machine) Peek(fd int) (int, syscall.Errno) {
	n, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK)
	return errnoOf(n, err)
}

func (m *machine) Send(fd int, p []byte) (int, syscall.Errno) {
	return errnoOf(unix.SendmsgN(fd, p, nil, nil, unix.MSG_NOSIGNAL))
}

func (m *machine) SocketError(fd int) syscall.Errno {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	m.must(err)
	return syscall.Errno(code)
}

func (m *machine) Unacknowledged(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	m.must(err)
	return n
}

func (m *machine) PeerEnded(fd int) bool { return reactor.Socket{FD: fd}.PeerEnded() }

func (m *machine) Shutdown(fd, how int) { unix.Shutdown(fd, how) }

func (m *machine) ResetOnClose(fd int) {
	m.must(unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
}

func (m *machine) Close(fd int) {
	delete(m.open, fd)
	m.must(unix.Close(fd))
}

// epoll is a poller of the machine's, asked as the reactor asks.
type epoll struct {
	t  *testing.T
	fd int
}

func (p *epoll) Add(fd int, token uint64, level bool) error {
	events := uint32(unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET)
	if level {
		events = unix.EPOLLIN
	}
	watch := unix.EpollEvent{Events: events, Fd: int32(token)}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &watch)
}

func (p *epoll) Remove(fd int) { unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }

func (p *epoll) Poll(events []reactor.Event) int {
	var ready [8]unix.EpollEvent
	n, err := unix.EpollWait(p.fd, ready[:], 0)
	if err != nil && err != unix.EINTR {
		p.t.Fatal("epoll_wait:", err)
	}
	n = max(n, 0)
	for i, ev := range ready[:n] {
		events[i] = reactor.Event{
			Token:     uint64(ev.Fd),
			Readable:  ev.Events&unix.EPOLLIN != 0,
			Writable:  ev.Events&unix.EPOLLOUT != 0,
			PeerEnded: ev.Events&unix.EPOLLRDHUP != 0,
			Broken:    ev.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0,
		}
	}
	return n
}

// socket is a peer on the machine.
type socket struct {
	m             *machine
	fd            int
	closed, reset bool
}

func (s *socket) Read(most int) []byte {
	p := make([]byte, most)
	n, errno := s.m.Recv(s.fd, p)
	s.note(errno)
	return p[:max(n, 0)]
}

// note remembers that the peer was told of a reset, which the kernel tells once.
func (s *socket) note(errno syscall.Errno) { s.reset = s.reset || errno == syscall.ECONNRESET }

func (s *socket) Ended() (ended, reset bool) {
	n, errno := s.m.Peek(s.fd)
	s.note(errno)
	return n <= 0 && (errno == 0 || s.reset), s.reset
}

func (s *socket) Write(p []byte) int {
	n, errno := s.m.Send(s.fd, p)
	s.note(errno)
	return max(n, 0)
}

func (s *socket) CloseWrite() { s.m.Shutdown(s.fd, unix.SHUT_WR) }

func (s *socket) Close() {
	if !s.closed {
		s.closed = true
		s.m.Close(s.fd)
	}
}

func (s *socket) Reset() {
	s.m.ResetOnClose(s.fd)
	s.Close()
}
