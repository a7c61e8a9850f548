package main

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"plimsoll/examples/patients/ward"
)

// The limits of the first day are those that many machines still give a service: 1,024 descriptors,
// and a backlog of 128.
const (
	fewDescriptors = 1024
	shortBacklog   = 128
)

// setLimits sets what the first day has, or leaves the limits as they are when the change is made:
// Go's runtime has then raised the descriptors to what the machine allows, and net.Listen takes the
// backlog from the kernel.
func setLimits(p *ward.Patient, changed bool) error {
	if changed {
		return nil
	}
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of descriptors: %w", err)
	}
	limit.Cur = min(limit.Max, fewDescriptors)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("set the limit of descriptors: %w", err)
	}
	listen := p.Listen
	p.Listen = func(address string) (net.Listener, error) {
		l, err := listen(address)
		if err != nil {
			return nil, err
		}
		return l, shorten(l)
	}
	return nil
}

// shorten gives a listener the short backlog: listen(2) may be called again, and changes it.
func shorten(l net.Listener) error {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.Listen(int(fd), shortBacklog)
	}); err != nil {
		return err
	}
	return failed
}
