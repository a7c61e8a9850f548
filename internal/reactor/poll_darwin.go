package reactor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// poller is kqueue, with a user event that wakes it. It exists so that people can develop on a Mac:
// it keeps epoll's contract and makes no attempt at its speed.
type poller struct {
	model *modelPoller // if not nil, used instead of kqueue
	kq    int
	raw   [maxEvents]unix.Kevent_t
	found [maxEvents]event
	// tokens has the token of each watched descriptor. kqueue could carry the token itself, but in
	// a field that Go declares as a pointer, where the garbage collector may take a number for an
	// address.
	tokens map[int]uint64
}

type event struct {
	token uint64
	ready readiness
}

// readiness is what became true of a descriptor.
type readiness uint32

const (
	readable readiness = 1 << iota
	writable
	peerEnded // the peer will send no more
	broken
)

// interest is how a descriptor is watched.
type interest uint32

const (
	// edge reports each change once, in both directions. It is registered once in a connection's
	// life.
	edge interest = iota
	// level reports in each turn as long as there is something to accept, so that a turn may leave
	// connections for the next one.
	level
)

const (
	wakeToken = ^uint64(0)
	wakeIdent = 0
)

func (p *poller) open(l *Loop) (err error) {
	if model != nil {
		p.model, err = newModelPoller(l)
		return err
	}
	kq, err := unix.Kqueue()
	if err != nil {
		return fmt.Errorf("kqueue: %w", err)
	}
	unix.CloseOnExec(kq)
	p.kq, p.tokens = kq, make(map[int]uint64)
	if err := p.change(unix.Kevent_t{Ident: wakeIdent, Filter: unix.EVFILT_USER,
		Flags: unix.EV_ADD | unix.EV_CLEAR}); err != nil {
		unix.Close(kq)
		return err
	}
	return nil
}

func (p *poller) close() {
	if p.model != nil {
		p.model.Close()
		return
	}
	unix.Close(p.kq)
}

func (p *poller) change(changes ...unix.Kevent_t) error {
	if _, err := unix.Kevent(p.kq, changes, nil, nil); err != nil {
		return fmt.Errorf("kevent: %w", err)
	}
	return nil
}

func (p *poller) add(fd int, token uint64, mode interest) error {
	if p.model != nil {
		return p.model.Add(fd, token, mode == level)
	}
	read := unix.Kevent_t{Ident: uint64(fd), Filter: unix.EVFILT_READ, Flags: unix.EV_ADD}
	if mode == level {
		p.tokens[fd] = token
		return p.change(read)
	}
	read.Flags |= unix.EV_CLEAR
	write := read
	write.Filter = unix.EVFILT_WRITE
	// The token of a closed descriptor stays in the map until its number is reused; this line then
	// replaces it.
	p.tokens[fd] = token
	return p.change(read, write)
}

// remove removes a descriptor that stays open. The filters are removed one by one, because a
// listener has only one of them.
func (p *poller) remove(fd int) {
	if p.model != nil {
		p.model.Remove(fd)
		return
	}
	delete(p.tokens, fd)
	for _, filter := range []int16{unix.EVFILT_READ, unix.EVFILT_WRITE} {
		// The only error is that the filter is not there, which is the desired state.
		_ = p.change(unix.Kevent_t{Ident: uint64(fd), Filter: filter, Flags: unix.EV_DELETE})
	}
}

// poll asks what is ready and does not wait.
func (p *poller) poll() int {
	if p.model != nil {
		return p.model.poll()
	}
	return p.wait(0)
}

// wait waits for at most the given number of nanoseconds, for ever if it is negative.
func (p *poller) wait(nanoseconds int64) int {
	var timeout *unix.Timespec
	if nanoseconds >= 0 {
		t := unix.NsecToTimespec(nanoseconds)
		timeout = &t
	}
	n, err := unix.Kevent(p.kq, nil, p.raw[:], timeout)
	if err != nil {
		return 0
	}
	// Tokens are looked up now, before any handler can close a descriptor and have its number given
	// to another connection.
	for i := range n {
		p.found[i] = p.translate(&p.raw[i])
	}
	return n
}

// waitBriefly is wait: the scheduler's cost has not been measured on macOS.
func (p *poller) waitBriefly(nanoseconds int64) (n int, over bool) {
	n = p.wait(nanoseconds)
	return n, n == 0
}

func (p *poller) translate(k *unix.Kevent_t) event {
	token, known := p.tokens[int(k.Ident)]
	if k.Filter == unix.EVFILT_USER || !known {
		return event{token: wakeToken}
	}
	e := event{token: token}
	ended := k.Flags&unix.EV_EOF != 0
	if k.Filter == unix.EVFILT_READ {
		e.ready = readable
		if ended {
			e.ready |= peerEnded
		}
	} else {
		// The end of the write side may be our own half-close, so it says nothing about the peer.
		e.ready = writable
	}
	if ended && k.Fflags != 0 {
		e.ready |= broken
	}
	return e
}

// event is the i-th event that poll or wait found. The token of a wake-up refers to no slot.
func (p *poller) event(i int) (token uint64, ev readiness) {
	if p.model != nil {
		return p.model.event(i)
	}
	return p.found[i].token, p.found[i].ready
}

// wake makes a waiting poller return. Any goroutine may call it.
func (p *poller) wake() {
	if p.model != nil {
		p.model.Wake()
		return
	}
	// It fails only when the loop has closed its poller, and then there is no loop to wake.
	_ = p.change(unix.Kevent_t{Ident: wakeIdent, Filter: unix.EVFILT_USER, Fflags: unix.NOTE_TRIGGER})
}
