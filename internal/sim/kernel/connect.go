package kernel

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"plimsoll/internal/reactor"
)

// listener is a loop's listening socket.
type listener struct {
	k       *Kernel
	address string
	at      reactor.Address
	backlog int
	queue   []*Endpoint
	file    *file
}

// Service is an actor's listening socket.
type Service struct {
	// Accept gets each connection. It is called through the agenda.
	Accept func(*Endpoint)
	// Down refuses connections. Full leaves them unanswered; on a Unix socket, connect fails at
	// once.
	Down, Full bool
}

// Serve makes s accept on an address.
func (k *Kernel) Serve(address string, s *Service) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.services[address] = s
}

// Occupy makes another program listen on an address.
func (k *Kernel) Occupy(address string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.occupied[address] = true
}

// text formats an address. A run has few addresses and needs them often.
func (k *Kernel) text(a reactor.Address) string {
	text, known := k.texts[a]
	if !known {
		text = a.String()
		k.texts[a] = text
	}
	return text
}

// Listen implements reactor.Kernel.
func (k *Kernel) Listen(on reactor.Address, backlog int, shared bool) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if on.Path == "" && on.IP.Port() == 0 {
		k.nextPort++
		on.IP = netip.AddrPortFrom(on.IP.Addr(), k.nextPort)
	}
	if k.occupied[on.String()] || !shared && len(k.listening[on.String()]) > 0 {
		return -1, fmt.Errorf("listen on %s: %w", on, os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	fd, f, errno := k.open()
	if errno != 0 {
		return -1, fmt.Errorf("listen on %s: %w", on, errno)
	}
	l := &listener{k: k, address: on.String(), at: on, backlog: backlog, file: f}
	f.listens = l
	k.listening[l.address] = append(k.listening[l.address], l)
	return fd, nil
}

// LocalAddress implements reactor.Kernel.
func (k *Kernel) LocalAddress(fd int) (reactor.Address, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.files[fd].file; f != nil && f.listens != nil {
		return f.listens.at, nil
	}
	return reactor.Address{}, os.NewSyscallError("getsockname", syscall.EBADF)
}

// release ends the listener with its last descriptor, and resets the connections in its queue.
func (l *listener) release(process int) {
	k := l.k
	for _, e := range l.queue {
		if k.opened[process]+1 < k.Profile.Descriptors && e.came < k.EndsAt {
			k.Lost++
		}
	}
	all := k.listening[l.address]
	i := slices.Index(all, l)
	k.listening[l.address] = slices.Delete(all, i, i+1)
	for _, e := range l.queue {
		k.trace("%s is reset in the accept queue", e.Name)
		e.abort()
	}
	l.queue = nil
}

// Accept implements reactor.Kernel.
func (k *Kernel) Accept(fd int) (int, netip.AddrPort, syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[fd].file
	if f == nil || f.listens == nil {
		k.violate("accept on descriptor %d, which does not listen", fd)
		return -1, netip.AddrPort{}, syscall.EBADF
	}
	if len(f.listens.queue) == 0 {
		return -1, netip.AddrPort{}, syscall.EAGAIN
	}
	number, accepted, errno := k.open()
	if errno != 0 {
		return -1, netip.AddrPort{}, errno
	}
	e := f.listens.queue[0]
	f.listens.queue = f.listens.queue[1:]
	accepted.socket, e.file = e, accepted
	if k.Trace != nil {
		k.trace("%s accepts %s", k.caller(), e.Name)
	}
	return number, e.remote, 0
}

// Dial connects an actor to an address on which loops listen. It returns the actor's end at once.
// outcome is called through the agenda and says whether the connection was established. Until then
// Write and CloseWrite do nothing.
func (k *Kernel) Dial(name, to string, from netip.AddrPort, outcome func(bool)) *Endpoint {
	k.mu.Lock()
	defer k.mu.Unlock()
	unix := strings.HasPrefix(to, "unix:")
	mine, theirs := k.newEndpoint(name, true, unix), k.newEndpoint(name, false, unix)
	theirs.remote = from
	mine.connecting = true
	k.knock(mine, theirs, to, time.Second, outcome)
	return mine
}

// longestKnock is the pause between two SYNs after which an actor gives up.
const longestKnock = 8 * time.Second

// knock is one SYN of an actor. A full accept queue drops it; the next one follows after a pause
// that doubles.
func (k *Kernel) knock(mine, theirs *Endpoint, to string, pause time.Duration, outcome func(bool)) {
	k.at(k.Clock()+mine.flight(), 0, func() {
		k.mu.Lock()
		var result func()
		defer func() {
			k.mu.Unlock()
			if result != nil {
				result()
			}
		}()
		if mine.closed {
			return
		}
		all := k.listening[to]
		if len(all) == 0 || pause > longestKnock {
			mine.broken = true
			result = func() { outcome(false) }
			return
		}
		l := all[k.rng.IntN(len(all))]
		if len(l.queue) > l.backlog {
			k.trace("the accept queue is full for %s", mine.Name)
			k.at(k.Clock()+int64(pause), 0, func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.knock(mine, theirs, to, 2*pause, outcome)
			})
			return
		}
		k.pair(mine, theirs)
		theirs.came = k.Clock()
		l.queue = append(l.queue, theirs)
		k.wake(l.file)
		result = func() { outcome(true) }
	})
}

// dialErrors are connect's immediate errors for local failures or a missing route.
var dialErrors = []syscall.Errno{
	syscall.ENETUNREACH, syscall.EADDRNOTAVAIL, syscall.ECONNREFUSED, syscall.EHOSTUNREACH,
	syscall.ENOBUFS,
}

// Socket implements reactor.Kernel.
func (k *Kernel) Socket(to reactor.Address) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fd, f, errno := k.open()
	if errno != 0 {
		return -1, errno
	}
	f.socket = k.newEndpoint("the connection to "+k.text(to), false, to.Path != "")
	f.socket.file = f
	return fd, nil
}

// Connect implements reactor.Kernel.
func (k *Kernel) Connect(fd int, to reactor.Address) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, errno := k.socket(fd)
	if errno != 0 {
		return errno
	}
	if k.chance(k.Profile.DialFails) {
		errno = dialErrors[k.rng.IntN(len(dialErrors))]
		k.trace("%s cannot connect to %s: %v", k.caller(), to, errno)
		return errno
	}
	s := k.services[k.text(to)]
	if to.Path != "" {
		switch {
		case s == nil:
			return syscall.ENOENT
		case s.Down:
			return syscall.ECONNREFUSED
		case s.Full:
			return syscall.EAGAIN
		}
		k.accept(e, s, to)
		return nil
	}
	e.connecting = true
	k.reach(e, to, time.Second)
	return nil
}

// reach is one SYN of a loop.
func (k *Kernel) reach(e *Endpoint, to reactor.Address, pause time.Duration) {
	if k.chance(k.Profile.DialLost) {
		k.trace("nobody will ever answer %s", e.Name)
		return
	}
	k.at(k.Clock()+e.flight(), 0, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if e.closed {
			return
		}
		s := k.services[k.text(to)]
		switch {
		case s == nil || s.Down || k.chance(k.Profile.DialRefused):
			e.connecting, e.broken, e.failure = false, true, syscall.ECONNREFUSED
			k.trace("%s is refused", e.Name)
			e.tell()
		case s.Full:
			k.at(k.Clock()+int64(pause), 0, func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.reach(e, to, 2*pause)
			})
		default:
			k.accept(e, s, to)
		}
	})
}

// accept connects a loop's end with a service's.
func (k *Kernel) accept(e *Endpoint, s *Service, to reactor.Address) {
	theirs := k.newEndpoint("the connection at "+k.text(to), true, e.unix)
	k.pair(e, theirs)
	e.tell()
	k.at(k.Clock(), 0, func() { s.Accept(theirs) })
}
