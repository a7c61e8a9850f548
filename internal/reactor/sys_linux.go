package reactor

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are made only on non-blocking sockets, so they return at once and may be raw. Raw
// calls do not notify the scheduler, which saves about 60 ns each. recvfrom and sendto skip the
// file layer, which read and write do not.

func sysRecv(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

func sysPeek(fd int) (int, syscall.Errno) {
	var b [1]byte
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(&b)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func sysSend(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// vectorParts is how many parts one call sends at most, in addition to front.
const vectorParts = 16

// vector holds sendmsg's arguments. A loop has one, so that no call allocates them.
type vector struct {
	message unix.Msghdr
	parts   [1 + vectorParts]unix.Iovec
}

// send sends front and up to vectorParts of parts, in this order, as far as the socket takes them.
func (v *vector) send(fd int, front []byte, parts [][]byte) (int, syscall.Errno) {
	used := 0
	add := func(p []byte) {
		if len(p) > 0 {
			v.parts[used].Base = unsafe.SliceData(p)
			v.parts[used].SetLen(len(p))
			used++
		}
	}
	add(front)
	for _, p := range parts[:min(len(parts), vectorParts)] {
		add(p)
	}
	v.message.Iov = &v.parts[0]
	v.message.SetIovlen(used)
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDMSG, uintptr(fd),
		uintptr(unsafe.Pointer(&v.message)), syscall.MSG_NOSIGNAL, 0, 0, 0)
	clear(v.parts[:used])
	return int(n), errno
}

const hasSendFile = true

// sysSendMore is sysSend with MSG_MORE: the kernel waits for the bytes that follow.
func sysSendMore(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		syscall.MSG_NOSIGNAL|syscall.MSG_MORE, 0, 0)
	return int(n), errno
}

// sysSendFile sends from a file. The file's pages should be in memory, so that it returns at once.
func sysSendFile(fd, file int, at, n int64) (int, syscall.Errno) {
	sent, _, errno := syscall.RawSyscall6(syscall.SYS_SENDFILE, uintptr(fd), uintptr(file),
		uintptr(unsafe.Pointer(&at)), uintptr(n), 0, 0)
	return int(sent), errno
}

func sysAccept(fd int) (int, netip.AddrPort, syscall.Errno) {
	var sa syscall.RawSockaddrAny
	size := uint32(syscall.SizeofSockaddrAny)
	n, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(fd),
		uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)),
		syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
	return int(n), peerAddress(&sa), errno
}

// peerAddress reads what accept wrote. For a unix socket, which has no such address, it returns the
// zero value.
func peerAddress(sa *syscall.RawSockaddrAny) netip.AddrPort {
	switch sa.Addr.Family {
	case syscall.AF_INET:
		v4 := (*syscall.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), bigEndianPort(&v4.Port))
	case syscall.AF_INET6:
		v6 := (*syscall.RawSockaddrInet6)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom16(v6.Addr).Unmap(), bigEndianPort(&v6.Port))
	}
	return netip.AddrPort{}
}

func bigEndianPort(p *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(p))[:])
}

func sysSocket(family int) (int, error) {
	return syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
}

func setReusePort(fd int) error {
	const soReusePort = 15
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort, 1)
}

// limitUnsent sets TCP_NOTSENT_LOWAT (tcp(7)). On an old kernel without it, connections only take
// more memory.
func limitUnsent(fd, bytes int) {
	const notSentLowAt = 25
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, notSentLowAt, bytes)
}

func sysAcknowledge(fd int) { syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1) }

// sysClose closes at once: Linux never blocks in close for a socket without SO_LINGER.
func sysClose(fd int) { syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) }

// sysUnacknowledged is SIOCOUTQ (tcp(7), unix(7)).
func sysUnacknowledged(fd int) int {
	const siocoutq = 0x5411
	var n int32
	if _, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), siocoutq,
		uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0
	}
	return int(n)
}

// sysPeerEnded reads the state of a TCP connection, which is the first byte of TCP_INFO. For a unix
// socket it returns false.
func sysPeerEnded(fd int) bool {
	const closed, closeWait = 7, 8 // of the kernel's net/tcp_states.h
	var state uint8
	size := uint32(unsafe.Sizeof(state))
	_, _, errno := syscall.RawSyscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), syscall.IPPROTO_TCP,
		syscall.TCP_INFO, uintptr(unsafe.Pointer(&state)), uintptr(unsafe.Pointer(&size)), 0)
	return errno == 0 && (state == closed || state == closeWait)
}

func threadID() int { return syscall.Gettid() }

// ThreadCPU is the processor time of the calling thread in nanoseconds, user and system. On a loop,
// that is the loop's thread.
func ThreadCPU() int64 {
	const threadCPUClock = 3
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUClock, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// setTimerSlack sets how late the kernel may wake the calling thread to save power, in nanoseconds;
// 0 is the usual 50 µs.
func setTimerSlack(ns uintptr) {
	const prSetTimerSlack = 29
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, ns, 0)
}
