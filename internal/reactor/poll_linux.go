package reactor

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"unsafe"
)

// poller is epoll, and an eventfd that wakes it.
type poller struct {
	epfd   int
	wakefd int
	events [maxEvents]epollEvent
	model  *modelPoller // if not nil, used instead of epoll
	// coarse says that the kernel has no epoll_pwait2.
	coarse  bool
	timeout syscall.Timespec // wait's argument; a local variable would escape to the heap
}

// sysEpollPwait2 is epoll_pwait2, whose timeout is in nanoseconds; its number is the same on every
// architecture.
const sysEpollPwait2 = 441

// epollEvent is the kernel's struct epoll_event, with data as one number. On amd64 it is packed to
// 12 bytes; syscall.EpollEvent has the layout of each architecture.
type epollEvent = syscall.EpollEvent

// readiness is what became true of a descriptor.
type readiness uint32

const (
	readable  readiness = syscall.EPOLLIN
	writable  readiness = syscall.EPOLLOUT
	peerEnded readiness = syscall.EPOLLRDHUP // the peer will send no more
	broken    readiness = syscall.EPOLLERR | syscall.EPOLLHUP
)

// interest is how a descriptor is watched.
type interest uint32

const (
	// edge reports each change once, in both directions. It is registered once in a connection's
	// life.
	edge interest = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | 1<<31
	// level reports in each turn as long as there is something to accept, so that a turn may leave
	// connections for the next one.
	level interest = syscall.EPOLLIN
)

const wakeToken = ^uint64(0)

func (p *poller) open(l *Loop) (err error) {
	if model != nil {
		p.model, err = newModelPoller(l)
		return err
	}
	epfd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		syscall.Close(epfd)
		return fmt.Errorf("eventfd2: %w", errno)
	}
	p.epfd, p.wakefd = epfd, int(fd)
	if err := p.add(p.wakefd, wakeToken, interest(syscall.EPOLLIN|1<<31)); err != nil {
		p.close()
		return err
	}
	return nil
}

func (p *poller) close() {
	if p.model != nil {
		p.model.Close()
		return
	}
	syscall.Close(p.wakefd)
	syscall.Close(p.epfd)
}

func (p *poller) add(fd int, token uint64, mode interest) error {
	if p.model != nil {
		return p.model.Add(fd, token, mode == level)
	}
	ev := epollEvent{Events: uint32(mode), Fd: int32(token), Pad: int32(token >> 32)}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(p.epfd),
		syscall.EPOLL_CTL_ADD, uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("epoll_ctl: %w", errno)
	}
	return nil
}

// remove removes a descriptor that stays open.
func (p *poller) remove(fd int) {
	if p.model != nil {
		p.model.Remove(fd)
		return
	}
	var ev epollEvent
	syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(p.epfd), syscall.EPOLL_CTL_DEL, uintptr(fd),
		uintptr(unsafe.Pointer(&ev)), 0, 0)
}

// poll asks what is ready and does not wait.
func (p *poller) poll() int {
	if p.model != nil {
		return p.model.poll()
	}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epfd),
		uintptr(unsafe.Pointer(&p.events[0])), maxEvents, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// wait waits for at most the given number of nanoseconds, for ever if it is negative. The runtime
// may give the processor (P) to other goroutines meanwhile.
func (p *poller) wait(nanoseconds int64) int {
	if !p.coarse {
		var timeout *syscall.Timespec
		if nanoseconds >= 0 {
			p.timeout = syscall.NsecToTimespec(nanoseconds)
			timeout = &p.timeout
		}
		n, _, errno := syscall.Syscall6(sysEpollPwait2, uintptr(p.epfd),
			uintptr(unsafe.Pointer(&p.events[0])), maxEvents, uintptr(unsafe.Pointer(timeout)), 0,
			0)
		if errno == 0 {
			return int(n)
		}
		if errno != syscall.ENOSYS && errno != syscall.EPERM {
			return 0
		}
		p.coarse = true // a kernel before 5.11, or a sandbox that does not know the call
	}
	return p.waitMilliseconds(nanoseconds)
}

// waitBriefly is wait, but the runtime cannot give the processor away meanwhile. over reports that
// the whole time has passed. If it is false, something is ready or a signal of the runtime has
// interrupted the wait; then the loop makes a turn, in which it can be preempted. Without
// epoll_pwait2, waitBriefly is wait.
func (p *poller) waitBriefly(nanoseconds int64) (n int, over bool) {
	if !p.coarse {
		p.timeout = syscall.NsecToTimespec(nanoseconds)
		found, _, errno := syscall.RawSyscall6(sysEpollPwait2, uintptr(p.epfd),
			uintptr(unsafe.Pointer(&p.events[0])), maxEvents, uintptr(unsafe.Pointer(&p.timeout)),
			0, 0)
		switch errno {
		case 0:
			return int(found), found == 0
		case syscall.EINTR:
			return 0, false
		}
	}
	n = p.wait(nanoseconds)
	return n, n == 0
}

// waitMilliseconds is wait for kernels that take only whole milliseconds. It rounds up, so that no
// timer makes the loop spin.
func (p *poller) waitMilliseconds(nanoseconds int64) int {
	timeout := -1
	if nanoseconds >= 0 {
		timeout = int((nanoseconds + 999_999) / 1_000_000)
	}
	n, _, errno := syscall.Syscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epfd),
		uintptr(unsafe.Pointer(&p.events[0])), maxEvents, uintptr(timeout), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// event is the i-th event that poll or wait found. The token of a wake-up refers to no slot.
func (p *poller) event(i int) (token uint64, ev readiness) {
	if p.model != nil {
		return p.model.event(i)
	}
	e := &p.events[i]
	return uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd)), readiness(e.Events)
}

// wake makes a waiting poller return. Any goroutine may call it. The eventfd is edge-triggered, so
// it need not be read until its counter is full, which takes 2^64 wake-ups.
func (p *poller) wake() {
	if p.model != nil {
		p.model.Wake()
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.wakefd), uintptr(unsafe.Pointer(&one)), 8)
}
