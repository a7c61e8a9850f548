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

// Socket is a connected descriptor that no Conn owns yet. Whoever holds it must attach or close it.
type Socket struct {
	FD   int
	Peer netip.AddrPort // zero for a unix socket and for a detached connection
	home *Loop          // the loop that counts it in conns; nil for a socket that was not accepted
}

// Close closes a socket that has not been attached. Any goroutine may call it.
func (s Socket) Close() {
	closeSocket(s.FD)
	if s.home != nil {
		s.home.conns.Add(-1)
	}
}

// PeerEnded reports whether the peer has closed the connection or will send no more, even if bytes
// are still unread. Where the system does not tell (unix sockets, darwin) it returns false. It
// makes a system call.
func (s Socket) PeerEnded() bool {
	if model != nil {
		return model.PeerEnded(s.FD)
	}
	return sysPeerEnded(s.FD)
}

// Acceptor takes accepted sockets.
type Acceptor interface {
	// Accepted hands over an accepted socket. It runs on the loop l that is to own the socket,
	// which may not be the listener's.
	Accepted(l *Loop, s Socket)
	// Accepts runs on the listener's loop when a connection waits, and reports whether to accept it
	// now. If not, the listener asks again some milliseconds later. A closing listener accepts
	// without asking.
	Accepts(l *Loop) bool
	// Shed runs on the listener's loop for each connection that was closed at once because the
	// process is out of descriptors.
	Shed(l *Loop)
}

// Listener accepts on one loop. Each loop has its own listening socket, bound to the same address
// with SO_REUSEPORT, so that the kernel spreads the connections and no two loops wait for the same
// socket.
type Listener struct {
	loop     *Loop
	fd       int
	slot     uint32
	acceptor Acceptor
	reserve  int   // a spare descriptor, closed to accept and shed a connection; -1 when lost
	pause    Timer // runs while the listener is out of the poller
	open     bool
	closing  int // turns in which a closing listener may still accept; 0 when it is not closing
}

// AcceptsPerTurn is how many connections a listener accepts per turn at most, so that a storm of
// new connections does not keep the loop from its existing ones for long.
const AcceptsPerTurn = 64

// closingTurns is in how many turns a closing listener accepts AcceptsPerTurn connections at most.
// Together that is four times the longest queue that kernels keep by default. The bound is there
// because clients that never stop connecting could otherwise keep the listener open.
const closingTurns = 256

const (
	// acceptPause is how long a listener pauses when accept fails and no connection can be shed.
	acceptPause = 100 * time.Millisecond
	// acceptAgain is how long it pauses when its Acceptor refuses to accept. The timer wheel rounds
	// it up to one or two of its ticks.
	acceptAgain = time.Millisecond
)

// BindListener makes a listening socket that shares its address with those of other loops. Any
// goroutine may call it, before or after the loops run.
func BindListener(address Address, backlog int) (fd int, err error) {
	return bindListener(address, backlog, true)
}

// BindFirst is BindListener for the first socket of an address: it fails if any other socket
// listens there. BindListener would instead share the address, and its connections, with another
// process of the same user.
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
		setNoDelay(fd) // accepted sockets inherit both options, which saves two calls for each
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
	// from here on, other sockets may share the address
	if err := reusePort(fd, address, !shared && family != syscall.AF_UNIX); err != nil {
		return -1, err
	}
	if err := syscall.Listen(fd, backlog); err != nil {
		return -1, fmt.Errorf("listen on %s: %w", address, err)
	}
	return fd, nil
}

// bindAdvice is what a user can do about an address that cannot be bound, for the usual errors.
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
// later ones, because closing the socket would reset them; Closing counts the listener until then.
// keep says that another process shares the socket and will serve its queue. Then the listener
// accepts only once more before it closes, in case that process has already given up the address
// and would not serve them.
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

// Run implements Runner: it accepts more of the queue of a closing listener.
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
			// The last three mean that the socket no longer listens (a process that shares it may
			// have shut it down). It would stay ready for ever.
			ln.rest(acceptPause)
			return false
		default:
			// ECONNABORTED, EINTR, and network errors that accept passes on (accept(2)): that
			// connection is gone, so go on
		}
	}
	return true
}

// arrival is an accepted socket on its way to its loop.
type arrival struct {
	acceptor Acceptor
	socket   Socket
}

// receive makes the loop take an accepted socket in its next turn. It returns false if the loop has
// stopped. A loop that stops before that turn closes the socket. Any goroutine may call it.
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

// place gives the socket, before anything is read from it, to the loop with the fewest clients if
// this one has clearly more. The other loop counts the socket from here on. If it counted it only
// on arrival, a whole burst of connections would go to one loop. If that loop has stopped, the
// socket stays here.
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

// shed closes one waiting connection when the process has no descriptor for it. Left in the queue,
// the connection would keep the listener ready for ever and its client waiting for nothing. shed
// reports whether to go on accepting.
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

// rest takes the listener out of the poller for the time pause.
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
