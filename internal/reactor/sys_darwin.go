package reactor

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// The calls below behave as their Linux namesakes do. They go through the C library, as macOS
// requires.

// errnoOf is the errno in an error of a system call: 0 if err is nil, EIO if it has none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		return syscall.EIO
	}
	return errno
}

func sysRecv(fd int, p []byte) (int, syscall.Errno) {
	n, err := unix.Read(fd, p)
	return n, errnoOf(err)
}

func sysPeek(fd int) (int, syscall.Errno) {
	var b [1]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n, errnoOf(err)
}

// sysSend needs no flag against SIGPIPE: Go's runtime catches it for every descriptor above 2.
func sysSend(fd int, p []byte) (int, syscall.Errno) {
	n, err := unix.Write(fd, p)
	return n, errnoOf(err)
}

// vector is empty on macOS: each part takes a call of its own. macOS has a different sendfile,
// which is not used, because macOS is only for development: files are read and written.
type vector struct{}

func (*vector) send(fd int, front []byte, parts [][]byte) (int, syscall.Errno) {
	total := 0
	for next := front; ; next, parts = parts[0], parts[1:] {
		n, errno := 0, syscall.Errno(0)
		if len(next) > 0 {
			n, errno = sysSend(fd, next)
		}
		if errno != 0 && total == 0 {
			return 0, errno
		}
		total += max(n, 0)
		if errno != 0 || n < len(next) || len(parts) == 0 {
			return total, 0
		}
	}
}

const hasSendFile = false

func sysSendMore(fd int, p []byte) (int, syscall.Errno) { return sysSend(fd, p) }

func sysSendFile(int, int, int64, int64) (int, syscall.Errno) { return 0, syscall.ENOSYS }

func sysAccept(fd int) (int, netip.AddrPort, syscall.Errno) {
	accepted, peer, err := unix.Accept(fd)
	if err != nil {
		return -1, netip.AddrPort{}, errnoOf(err)
	}
	unix.CloseOnExec(accepted)
	if err := unix.SetNonblock(accepted, true); err != nil {
		unix.Close(accepted)
		return -1, netip.AddrPort{}, errnoOf(err)
	}
	switch from := peer.(type) {
	case *unix.SockaddrInet4:
		return accepted, netip.AddrPortFrom(netip.AddrFrom4(from.Addr), uint16(from.Port)), 0
	case *unix.SockaddrInet6:
		return accepted, netip.AddrPortFrom(netip.AddrFrom16(from.Addr).Unmap(), uint16(from.Port)), 0
	}
	return accepted, netip.AddrPort{}, 0
}

func sysSocket(family int) (int, error) {
	// On macOS, socket has no flags for close-on-exec and non-blocking. The lock keeps a fork from
	// coming in between.
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

func sysClose(fd int) { unix.Close(fd) }

// threadID is 0, which turns off the check that a loop is used only on its thread: macOS gives
// thread numbers only to C.
func threadID() int { return 0 }

// ThreadCPU is the processor time of the calling thread in nanoseconds, user and system. On a loop,
// that is the loop's thread.
func ThreadCPU() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

// limitUnsent sets TCP_NOTSENT_LOWAT.
func limitUnsent(fd, bytes int) {
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
}

// sysAcknowledge does nothing: macOS has no such call.
func sysAcknowledge(int) {}

// sysPeerEnded always returns false on macOS; callers must read to find the end.
func sysPeerEnded(int) bool { return false }

// sysUnacknowledged is SO_NWRITE.
func sysUnacknowledged(fd int) int {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NWRITE)
	if err != nil {
		return 0
	}
	return n
}

// setTimerSlack does nothing: kqueue keeps to its timeouts in nanoseconds without it.
func setTimerSlack(uintptr) {}
