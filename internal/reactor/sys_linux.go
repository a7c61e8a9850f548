package reactor

import (
	"syscall"
	"unsafe"
)

// The calls below are made on non-blocking sockets only, so they return at once and may be raw: the scheduler is not told of
// them, which saves about 60 ns each. recvfrom and sendto are used rather than read and write because they skip the file layer.

func recv(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

// peek looks at whether something, or the end, is there to be read, and takes nothing.
func peek(fd int) (int, syscall.Errno) {
	var b [1]byte
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func send(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// accept takes a connection off a listening socket. The peer's address is written to sa.
func accept(fd int, sa *syscall.RawSockaddrAny) (int, syscall.Errno) {
	size := uint32(syscall.SizeofSockaddrAny)
	n, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(sa)), uintptr(unsafe.Pointer(&size)), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
	return int(n), errno
}

// newSocket makes a non-blocking stream socket that no child inherits.
func newSocket(family int) (int, error) {
	return syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
}

func setReusePort(fd int) error {
	const soReusePort = 15
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort, 1)
}

// acknowledge sends the acknowledgement that the kernel puts off in the hope that data will carry it.
func acknowledge(fd int) { syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1) }

// closeSocket closes at once; linux never blocks in it for a socket without SO_LINGER.
func closeSocket(fd int) { syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) }

func threadID() int { return syscall.Gettid() }

// ThreadCPU is the processor time of the calling thread in nanoseconds, user and system. On a loop it is the loop's.
func ThreadCPU() int64 {
	const threadCPUClock = 3
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUClock, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// setTimerSlack sets how late the kernel may wake the calling thread to save power, in nanoseconds; 0 is the usual 50 µs.
func setTimerSlack(ns uintptr) {
	const prSetTimerSlack = 29
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, ns, 0)
}
