package reactor

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"
)

// Socket is a connected descriptor between loops: the one that has it attaches or closes it.
type Socket struct {
	FD   int
	Peer netip.AddrPort // zero for a unix socket and for a detached connection
	home *Loop          // the loop that counts it as a client of its own; nil for one that was not accepted
}

// Close closes a socket that nobody attached. Any goroutine may call it.
func (s Socket) Close() {
	closeSocket(s.FD)
	if s.home != nil {
		s.home.conns.Add(-1)
	}
}

// PeerEnded says that the peer has closed the connection, or will send no more, whatever it has sent
// before. Where that is not known (unix sockets, darwin) it says no. It is a system call.
func (s Socket) PeerEnded() bool {
	if model != nil {
		return model.PeerEnded(s.FD)
	}
	return sysPeerEnded(s.FD)
}

// Acceptor takes accepted sockets.
type Acceptor interface {
	// Accepted runs on the loop that is to own the socket, which may be another than the
	// listener's.
	Accepted(l *Loop, s Socket)
	// Accepts runs on the listener's loop when a connection waits, and says whether to accept it now.
	// If not, the listener asks again in some milliseconds. One that closes does not ask.
	Accepts(l *Loop) bool
	// Shed runs on the listener's loop for each connection that was closed at once because the
	// process is out of descriptors.
	Shed(l *Loop)
}

// Listener accepts on one loop. Each loop has its own, bound to the same address with SO_REUSEPORT,
// so that the kernel spreads the connections and no two loops wait for the same socket.
type Listener struct {
	loop     *Loop
	fd       int
	slot     uint32
	acceptor Acceptor
	reserve  int   // a descriptor kept so that one can be freed to shed connections with; -1 when lost
	pause    Timer // runs while the listener is out of the poller
	open     bool
	closing  int // turns in which it may still accept while it closes; 0 when it does not close
}

// AcceptsPerTurn bounds how long a connection storm can keep the loop from those it has.
const AcceptsPerTurn = 64

// closingTurns bounds how many times AcceptsPerTurn a listener accepts while it closes: four times
// the longest queue that kernels keep by default, so that clients who never stop coming cannot keep
// it open.
const closingTurns = 256

const (
	// acceptPause is how long a listener stays away from accept when it fails and nothing can be shed.
	acceptPause = 100 * time.Millisecond
	// acceptAgain is how long it stays away when its Acceptor takes none: one or two ticks of the
	// timers, as it comes.
	acceptAgain = time.Millisecond
)

// BindListener makes a listening socket that shares its address with those of other loops. Any
// goroutine may call it, before or after the loops run.
func BindListener(address Address, backlog int) (fd int, err error) {
	return bindListener(address, backlog, true)
}

// BindFirst is BindListener for the first socket of an address: it fails when any other socket
// listens there, where BindListener would share the address with another process of the same user
// and take turns with it.
func BindFirst(address Address, backlog int) (fd int, err error) {
	return bindListener(address, backlog, false)
}

func bindListener(address Address, backlog int, shared bool) (fd int, err error) {
	if model != nil {
		return model.Listen(address, backlog, shared)
	}
	sa, family := address.sockaddr()
	fd, err = sysSocket(family)
	if err != nil {
		return -1, fmt.Errorf("listen on %s: socket: %w", address, err)
	}
	defer func() {
		if err != nil {
			sysClose(fd)
		}
	}()
	if family != syscall.AF_UNIX {
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
			return -1, fmt.Errorf("listen on %s: SO_REUSEADDR: %w", address, err)
		}
		if err := reusePort(fd, address, shared); err != nil {
			return -1, err
		}
		if family == syscall.AF_INET6 {
			// "[::]:80" means IPv4 too, as it does for net.Listen.
			dual := 0
			if !address.IP.Addr().IsUnspecified() {
				dual = 1
			}
			syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, dual)
		}
		setNoDelay(fd) // accepted sockets inherit both, which saves two calls for each
		limitUnsent(fd, UnsentLimit)
	}
	if err := syscall.Bind(fd, sa); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			if family == syscall.AF_UNIX {
				return -1, fmt.Errorf("listen on %s: the file exists; remove it if no program "+
					"listens there: %w", address, err)
			}
			return -1, fmt.Errorf("listen on %s: the port is taken by another program: %w", address, err)
		}
		return -1, fmt.Errorf("listen on %s: bind: %w%s", address, err, bindAdvice(err))
	}
	// from here on others may share it
	if err := reusePort(fd, address, !shared && family != syscall.AF_UNIX); err != nil {
		return -1, err
	}
	if err := syscall.Listen(fd, backlog); err != nil {
		return -1, fmt.Errorf("listen on %s: %w", address, err)
	}
	return fd, nil
}

// bindAdvice is what to do about an address that cannot be bound, for the errors that a person
// meets.
func bindAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return "; a port below 1024 needs root or CAP_NET_BIND_SERVICE (setcap, " +
			"AmbientCapabilities= of systemd), a socket a directory that may be written"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; no interface of this machine has that address: 0.0.0.0 stands for all of them"
	}
	return ""
}

func reusePort(fd int, address Address, wanted bool) error {
	if !wanted {
		return nil
	}
	if err := setReusePort(fd); err != nil {
		return fmt.Errorf("listen on %s: SO_REUSEPORT: %w", address, err)
	}
	return nil
}

// LocalAddress is the address that a socket is bound to.
func LocalAddress(fd int) (Address, error) {
	if model != nil {
		return model.LocalAddress(fd)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		return Address{}, fmt.Errorf("getsockname: %w", err)
	}
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return Address{IP: netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))}, nil
	case *syscall.SockaddrInet6:
		return Address{IP: netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))}, nil
	case *syscall.SockaddrUnix:
		return Address{Path: sa.Name}, nil
	}
	return Address{}, fmt.Errorf("getsockname: an address of a family that is not known")
}

// Listen makes the loop accept from a listening socket, which it owns from now on, even when Listen
// fails.
func (l *Loop) Listen(fd int, acceptor Acceptor) (*Listener, error) {
	ln := &Listener{loop: l, fd: fd, acceptor: acceptor, open: true}
	ln.reserve = openReserve()
	slot, err := l.register(fd, ln, level)
	if err != nil {
		closeSocket(fd)
		if ln.reserve >= 0 {
			closeSocket(ln.reserve)
		}
		return nil, fmt.Errorf("listen: %w", err)
	}
	ln.slot = slot
	return ln, nil
}

func openReserve() int {
	if model != nil {
		return model.Reserve()
	}
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// Close stops accepting. The connections in the accept queue are accepted first, in this turn and
// further ones, as closing the socket would reset them; Closing counts the listener until then.
// With keep another process shares the socket and will serve its queue, so this one accepts once
// and stops: if the other has given the address up already, nobody else would.
func (ln *Listener) Close(keep bool) {
	if !ln.open || ln.closing > 0 {
		return
	}
	if keep {
		ln.acceptSome(AcceptsPerTurn)
		ln.end()
		return
	}
	ln.closing = closingTurns
	ln.loop.closing = append(ln.loop.closing, ln)
	ln.loop.closers.Add(1)
	ln.Run()
}

// Run implements Runner: it accepts more of what is in the queue of a listener that closes.
func (ln *Listener) Run() {
	if !ln.open {
		return
	}
	if ln.closing--; ln.closing > 0 && ln.acceptSome(AcceptsPerTurn) {
		ln.loop.Defer(ln)
		return
	}
	ln.end()
}

// end closes the socket.
func (ln *Listener) end() {
	ln.open = false
	if i := slices.Index(ln.loop.closing, ln); i >= 0 {
		ln.loop.closing = slices.Delete(ln.loop.closing, i, i+1)
		ln.loop.closers.Add(-1)
	}
	if ln.pause.deadline == 0 {
		ln.loop.poll.remove(ln.fd)
		ln.loop.forget(ln.slot)
	}
	ln.loop.ReleaseTimer(&ln.pause)
	closeSocket(ln.fd)
	if ln.reserve >= 0 {
		closeSocket(ln.reserve)
	}
}

func (ln *Listener) ready(readiness) {
	for range AcceptsPerTurn {
		if !ln.acceptor.Accepts(ln.loop) {
			ln.rest(acceptAgain)
			return
		}
		if !ln.acceptSome(1) {
			return
		}
	}
}

// acceptSome accepts up to most connections and says whether there may be more.
func (ln *Listener) acceptSome(most int) bool {
	for range most {
		fd, peer, errno := accept(ln.fd)
		switch errno {
		case 0:
			ln.place(Socket{FD: fd, Peer: peer})
		case syscall.EAGAIN:
			return false
		case syscall.EMFILE, syscall.ENFILE:
			if !ln.shed() {
				return false
			}
		case syscall.ENOBUFS, syscall.ENOMEM, syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK:
			// The last three mean that the socket listens no more (a process that shares it may
			// have shut it down): it would stay ready for ever.
			ln.rest(acceptPause)
			return false
		default:
			// ECONNABORTED, EINTR, and network errors that accept passes on (accept(2)): that
			// connection is gone, go on
		}
	}
	return true
}

// arrival is an accepted socket on its way to its loop.
type arrival struct {
	acceptor Acceptor
	socket   Socket
}

// receive has the loop take an accepted socket in its next turn. False means that the loop has
// stopped; one that stops before that turn closes the socket. Any goroutine may call it.
func (l *Loop) receive(a arrival) bool {
	l.posts.Lock()
	if l.over {
		l.posts.Unlock()
		return false
	}
	l.arrivals = append(l.arrivals, a)
	l.posts.Unlock()
	l.rouse()
	return true
}

// place gives the socket to the loop with the fewest clients when this one has clearly more, before
// anything was read from it. The socket counts as that loop's from here on: were it counted only
// when it arrives there, a batch would be sent to one loop whole. What a loop that has stopped does
// not take stays here.
func (ln *Listener) place(s Socket) {
	target := ln.loop
	for _, l := range ln.loop.peers {
		if l.conns.Load()+1 < target.conns.Load() {
			target = l
		}
	}
	s.home = target
	target.conns.Add(1)
	if target != ln.loop {
		if target.receive(arrival{ln.acceptor, s}) {
			return
		}
		target.conns.Add(-1)
		ln.loop.conns.Add(1)
		s.home = ln.loop
	}
	ln.acceptor.Accepted(ln.loop, s)
}

// shed closes one waiting connection when there is no descriptor for it: left in the queue it would
// keep the listener ready for ever and the client waiting for nothing. It says whether to go on.
func (ln *Listener) shed() bool {
	if ln.reserve < 0 {
		ln.rest(acceptPause)
		return false
	}
	closeSocket(ln.reserve)
	fd, _, errno := accept(ln.fd)
	if errno == 0 {
		closeSocket(fd)
		ln.acceptor.Shed(ln.loop)
	}
	ln.reserve = openReserve()
	return errno == 0
}

// rest takes the listener out of the poller for some time.
func (ln *Listener) rest(pause time.Duration) {
	if ln.pause.deadline != 0 || !ln.open {
		return
	}
	ln.loop.poll.remove(ln.fd)
	ln.loop.forget(ln.slot)
	ln.loop.SetTimer(&ln.pause, ln, ln.loop.now+int64(pause))
}

// Expire puts the listener back into the poller.
func (ln *Listener) Expire(_ *Timer, now int64) {
	if ln.reserve < 0 {
		ln.reserve = openReserve()
	}
	slot, err := ln.loop.register(ln.fd, ln, level)
	if err != nil {
		ln.loop.logger.Error("a listener cannot be watched again; trying once more", "error", err)
		ln.loop.SetTimer(&ln.pause, ln, now+int64(acceptPause))
		return
	}
	ln.slot = slot
}

func setNoDelay(fd int) { syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1) }
