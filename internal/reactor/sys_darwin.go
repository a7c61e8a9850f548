package reactor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below keep the contract of their Linux namesakes through the C library, which macOS demands.

// errnoOf is the number in an error of a system call; 0 when there is none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		return syscall.EIO
	}
	return errno
}

func recv(fd int, p []byte) (int, syscall.Errno) {
	n, err := unix.Read(fd, p)
	return n, errnoOf(err)
}

// peek looks at whether something, or the end, is there to be read, and takes nothing.
func peek(fd int) (int, syscall.Errno) {
	var b [1]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n, errnoOf(err)
}

// send needs no flag against SIGPIPE: Go's runtime catches it for every descriptor above 2.
func send(fd int, p []byte) (int, syscall.Errno) {
	n, err := unix.Write(fd, p)
	return n, errnoOf(err)
}

// accept takes a connection off a listening socket. The peer's address is written to sa.
func accept(fd int, sa *syscall.RawSockaddrAny) (int, syscall.Errno) {
	accepted, peer, err := unix.Accept(fd)
	if err != nil {
		return -1, errnoOf(err)
	}
	unix.CloseOnExec(accepted)
	if err := unix.SetNonblock(accepted, true); err != nil {
		unix.Close(accepted)
		return -1, errnoOf(err)
	}
	switch from := peer.(type) {
	case *unix.SockaddrInet4:
		v4 := (*syscall.RawSockaddrInet4)(unsafe.Pointer(sa))
		v4.Family, v4.Port, v4.Addr = syscall.AF_INET, networkOrder(from.Port), from.Addr
	case *unix.SockaddrInet6:
		v6 := (*syscall.RawSockaddrInet6)(unsafe.Pointer(sa))
		v6.Family, v6.Port, v6.Addr = syscall.AF_INET6, networkOrder(from.Port), from.Addr
	}
	return accepted, 0
}

// networkOrder is a port as a socket address has it, on the little-endian machines that macOS runs on.
func networkOrder(port int) uint16 { return uint16(port)<<8 | uint16(port)>>8 }

// newSocket makes a non-blocking stream socket that no child inherits.
func newSocket(family int) (int, error) {
	// macOS has no flags for either in socket itself; the lock keeps a fork from coming between.
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("set a socket non-blocking: %w", err)
	}
	return fd, nil
}

func setReusePort(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}

func closeSocket(fd int) { unix.Close(fd) }

// threadID is 0, which turns the check for touching a loop from outside off: macOS tells a thread's number only to C.
func threadID() int { return 0 }

// ThreadCPU is the processor time of the calling thread in nanoseconds, user and system. On a loop it is the loop's.
func ThreadCPU() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

// acknowledge does nothing: there is no such call here.
func acknowledge(int) {}

// setTimerSlack does nothing: kqueue takes nanoseconds as they are.
func setTimerSlack(uintptr) {}
