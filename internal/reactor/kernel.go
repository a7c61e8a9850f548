package reactor

import (
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Kernel is what loops and sockets ask of the operating system. The ordinary one is the machine's,
// behind the functions of sys_linux.go and poll_linux.go (or their darwin namesakes), and no value
// of this type stands for it: Simulate puts a model in its place, for a whole process, so that a
// gateway can run in virtual time against peers that a seed has drawn.
//
// A model's methods keep the contract of the system calls they are named after, on non-blocking
// stream sockets. They are called one at a time, by the goroutine that steps the loops or, for
// Close and the calls of a TLS handshake, by another while no loop is stepped.
type Kernel interface {
	// Clock is Clock's value: monotonic nanoseconds, never 0.
	Clock() int64
	// Wall is the time of day, which may be set back and forth.
	Wall() time.Time
	// CPU is the processor time of the loop that is stepped, in nanoseconds.
	CPU() int64

	// Socket makes a socket for a peer of that address's family. It and what Listen accepts hold at
	// most UnsentLimit unsent.
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
	// PeerEnded says that the peer will send no more, whatever of it has not been read yet.
	PeerEnded(fd int) bool
	// Shutdown ends reading, writing or both; how is a SHUT_ constant.
	Shutdown(fd, how int)
	// ResetOnClose makes Close tell the peer of an error.
	ResetOnClose(fd int)
	Close(fd int)
	// Reserve opens a descriptor that stands for nothing, -1 when there is none left.
	Reserve() (fd int)

	// NewPoller makes the readiness interface of one loop.
	NewPoller(l *Loop) (Poller, error)
	// Run is a loop's life: the model calls Step until that says that the loop has stopped, then
	// returns.
	Run(l *Loop)
}

// Poller is epoll, or its like, as a Kernel has it.
type Poller interface {
	// Add watches a descriptor until it is closed or removed: both ways, each change told once, or,
	// with level, whether it is readable, told as long as it is.
	Add(fd int, token uint64, level bool) error
	Remove(fd int)
	// Poll writes what is ready to events, at most as many as there is room for, and does not wait.
	Poll(events []Event) int
	// Wake makes the loop be stepped although nothing is ready. Any goroutine may call it.
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

// model stands for the machine's kernel where it is not nil. The branch on it costs less than 1 ns
// of a system call's 200 to 2,000.
var model Kernel

// Simulate makes k the kernel of every loop and socket from now on; nil is the machine's own. It
// must be called while there are none.
func Simulate(k Kernel) { model = k }

// Step is one turn of a loop that a Kernel runs, and has let wait for its processor for late
// nanoseconds. It returns for how many nanoseconds the loop would sleep now, for ever when negative,
// unless something becomes ready or somebody posts; running is false once the loop has stopped.
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
		l.end() // which is inside, too: listeners that are still closing end with the loop
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

// What follows are the system calls, to the machine or to its model.

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

// sendVector is send of front and parts, in this order, as far as they are taken.
func (l *Loop) sendVector(fd int, front []byte, parts [][]byte) (int, syscall.Errno) {
	if model != nil {
		return model.Send(fd, slices.Concat(front, slices.Concat(parts...)))
	}
	return l.vector.send(fd, front, parts)
}

// peek looks at whether something, or the end, is there to be read, and takes nothing.
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

// newSocket makes a non-blocking stream socket, for a peer of that address, that no child inherits.
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

// connect begins to connect.
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

// unacknowledged is how many bytes the peer has not acknowledged, those included that have not left
// the machine.
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

// acknowledge sends the acknowledgement that the kernel puts off in the hope that data will carry
// it.
func acknowledge(fd int) {
	if model == nil {
		sysAcknowledge(fd)
	}
}
