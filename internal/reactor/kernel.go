package reactor

import (
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Kernel is what loops and sockets need from the operating system. The machine's own kernel is used
// through the functions of sys_linux.go and poll_linux.go (or their darwin namesakes), and no value
// of this type represents it. Simulate replaces it by a model for the whole process, so that a
// gateway can run in virtual time against peers generated from a seed.
//
// A model's methods keep the contract of the system calls they are named after, on non-blocking
// stream sockets. Calls never overlap. They are made by the goroutine that steps the loops. Close
// and the calls of a TLS handshake may also be made by another goroutine, while no loop is stepped.
type Kernel interface {
	// Clock is Clock's value: monotonic nanoseconds, never 0.
	Clock() int64
	// Wall is the time of day, which may be set back and forth.
	Wall() time.Time
	// CPU is the processor time of the loop that is stepped, in nanoseconds.
	CPU() int64

	// Socket makes a socket of the address's family. This socket, and those that Accept returns,
	// hold at most UnsentLimit unsent bytes.
	Socket(to Address) (fd int, err error)
	// Connect begins to connect; EINPROGRESS is not an error here. EAGAIN says that a unix socket's
	// accept queue is full: the socket can be connected later, and no event tells when.
	Connect(fd int, to Address) error
	// Listen makes a bound, listening socket. shared says that other sockets may listen on the same
	// address.
	Listen(on Address, backlog int, shared bool) (fd int, err error)
	// LocalAddress is what the socket is bound to.
	LocalAddress(fd int) (Address, error)
	Accept(fd int) (accepted int, peer netip.AddrPort, errno syscall.Errno)
	Recv(fd int, p []byte) (int, syscall.Errno)
	// Peek says whether Recv would find a byte (1), the end (0, no error) or nothing.
	Peek(fd int) (int, syscall.Errno)
	Send(fd int, p []byte) (int, syscall.Errno)
	// SocketError takes the socket's pending error, 0 for none.
	SocketError(fd int) syscall.Errno
	// Unacknowledged is how many bytes were sent that the peer has not acknowledged.
	Unacknowledged(fd int) int
	// PeerEnded reports whether the peer will send no more, even if bytes are still unread.
	PeerEnded(fd int) bool
	// Shutdown ends reading, writing or both; how is a SHUT_ constant.
	Shutdown(fd, how int)
	// ResetOnClose makes Close report an error to the peer.
	ResetOnClose(fd int)
	Close(fd int)
	// Reserve opens a spare descriptor; -1 when there is none left.
	Reserve() (fd int)

	// NewPoller makes the readiness interface of one loop.
	NewPoller(l *Loop) (Poller, error)
	// Run runs a loop: it calls Step until the loop has stopped.
	Run(l *Loop)
}

// Poller is a Kernel's counterpart of epoll.
type Poller interface {
	// Add watches a descriptor until it is closed or removed. It reports each change once, in both
	// directions. With level, it reports readability, and as long as it lasts.
	Add(fd int, token uint64, level bool) error
	Remove(fd int)
	// Poll writes up to len(events) ready events to events and returns their number. It does not
	// wait.
	Poll(events []Event) int
	// Wake causes the loop to be stepped although nothing is ready. Any goroutine may call it.
	Wake()
	Close()
}

// Event is what became true of a descriptor.
type Event struct {
	Token     uint64
	Readable  bool
	Writable  bool
	PeerEnded bool // the peer will send no more
	Broken    bool // an error is pending, or both directions have ended
}

// model replaces the machine's kernel if it is not nil. Testing it costs less than 1 ns; a system
// call costs 200 to 2,000 ns.
var model Kernel

// Simulate makes k the kernel of every loop and socket from now on; nil means the machine's own. It
// must be called while there are no loops and no sockets.
func Simulate(k Kernel) { model = k }

// Step runs one turn of a loop for a Kernel. late is how many nanoseconds the Kernel let the loop
// wait for its processor. sleep is how many nanoseconds the loop would sleep now, for ever when
// negative, unless something becomes ready or a function is posted. running is false once the loop
// has stopped.
func (l *Loop) Step(late int64) (sleep int64, running bool) {
	l.sleeping.Store(false)
	now := Clock()
	if l.made == 0 {
		l.made, l.now = now, now
	}
	l.stats.Waited += now - l.now // a turn takes no time
	l.now, l.lag = now, late
	l.stepping = true
	l.turn(l.poll.poll())
	if l.stopped {
		l.end() // still inside the step: it touches the listeners that are still closing
		l.stepping = false
		return 0, false
	}
	l.stepping = false
	if len(l.later) > 0 {
		return 0, true
	}
	l.sleeping.Store(true)
	if l.pending.Load() {
		l.sleeping.Store(false)
		return 0, true
	}
	sleep, spin := l.sleepFor()
	if spin {
		return 0, true
	}
	return sleep, true
}

// The functions below are the system calls, made to the machine's kernel or to its model.

func recv(fd int, p []byte) (int, syscall.Errno) {
	if model != nil {
		return model.Recv(fd, p)
	}
	return sysRecv(fd, p)
}

func send(fd int, p []byte) (int, syscall.Errno) {
	if model != nil {
		return model.Send(fd, p)
	}
	return sysSend(fd, p)
}

// sendVector sends front and parts, in this order, as far as the socket takes them.
func (l *Loop) sendVector(fd int, front []byte, parts [][]byte) (int, syscall.Errno) {
	if model != nil {
		return model.Send(fd, slices.Concat(front, slices.Concat(parts...)))
	}
	return l.vector.send(fd, front, parts)
}

// peek reports whether a byte or the end can be read, without consuming anything.
func peek(fd int) (int, syscall.Errno) {
	if model != nil {
		return model.Peek(fd)
	}
	return sysPeek(fd)
}

// accept takes a connection off a listening socket.
func accept(fd int) (int, netip.AddrPort, syscall.Errno) {
	if model != nil {
		return model.Accept(fd)
	}
	return sysAccept(fd)
}

// newSocket makes a non-blocking, close-on-exec stream socket of the address's family.
func newSocket(to Address) (int, error) {
	if model != nil {
		return model.Socket(to)
	}
	fd, err := sysSocket(to.family())
	if err == nil && to.Path == "" {
		setNoDelay(fd)
		limitUnsent(fd, UnsentLimit)
	}
	return fd, err
}

// connect begins to connect. EINPROGRESS is not an error.
func connect(fd int, to Address) error {
	if model != nil {
		return model.Connect(fd, to)
	}
	sa, _ := to.sockaddr()
	if err := syscall.Connect(fd, sa); err != nil && err != syscall.EINPROGRESS {
		return err
	}
	return nil
}

// socketError takes the socket's pending error.
func socketError(fd int) error {
	if model != nil {
		if errno := model.SocketError(fd); errno != 0 {
			return errno
		}
		return nil
	}
	code, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err != nil {
		return err
	}
	if code != 0 {
		return syscall.Errno(code)
	}
	return nil
}

// unacknowledged is how many bytes the peer has not acknowledged, including those that have not
// left the machine.
func unacknowledged(fd int) int {
	if model != nil {
		return model.Unacknowledged(fd)
	}
	return sysUnacknowledged(fd)
}

func shutdown(fd, how int) {
	if model != nil {
		model.Shutdown(fd, how)
		return
	}
	syscall.Shutdown(fd, how)
}

func resetOnClose(fd int) {
	if model != nil {
		model.ResetOnClose(fd)
		return
	}
	syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
}

// closeSocket closes at once.
func closeSocket(fd int) {
	if model != nil {
		model.Close(fd)
		return
	}
	sysClose(fd)
}

// acknowledge sends the acknowledgement that the kernel delays in the hope of sending it with data.
func acknowledge(fd int) {
	if model == nil {
		sysAcknowledge(fd)
	}
}
