package quicio

import "syscall"

// sendFlags: a packet that does not fit is lost, and an end that has gone is an error.
const sendFlags = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL

// socketPair makes two ends of a pipe that keeps messages whole and says when the other end has
// gone.
func socketPair() (ours, theirs int, err error) {
	const kind = syscall.SOCK_SEQPACKET | syscall.SOCK_CLOEXEC | syscall.SOCK_NONBLOCK
	pair, err := syscall.Socketpair(syscall.AF_UNIX, kind, 0)
	return pair[0], pair[1], err
}
