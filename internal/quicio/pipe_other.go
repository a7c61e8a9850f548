//go:build !linux

package quicio

import "syscall"

// sendFlags: a packet that does not fit is lost.
const sendFlags = syscall.MSG_DONTWAIT

// socketPair makes two ends of a pipe that keeps messages whole.
func socketPair() (ours, theirs int, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return 0, 0, err
	}
	for _, fd := range pair {
		syscall.CloseOnExec(fd)
		syscall.SetNonblock(fd, true)
	}
	return pair[0], pair[1], nil
}
