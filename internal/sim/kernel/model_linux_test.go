package kernel

import (
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/reactor"
)

// modelled is the model as a world. A loop that is never stepped stands behind each poller.
type modelled struct {
	*Kernel
	t       *testing.T
	unix    bool
	made    int // addresses
	newest  *Endpoint
	pollers [2]*poller
}

func newModelled(t *testing.T, family string) *modelled {
	m := &modelled{Kernel: New(1, calm), t: t, unix: family == "unix"}
	for i := range m.pollers {
		m.pollers[i] = newPoller(m.Kernel)
	}
	m.running = m.pollers[0].loop
	return m
}

func (m *modelled) patience() time.Duration { return 10 * time.Second }

// pass lets everything happen that is due within a while in which no retry comes.
func (m *modelled) pass() {
	const while = int64(100 * time.Millisecond)
	now := m.Clock()
	if err := m.Drive(func() bool {
		at, some := m.agenda.peek()
		return !some || at > now+while
	}); err != nil {
		m.t.Error("the model's own bounds are broken:", err)
	}
	m.endTurn(m.running)
}

// underWay is never true once pass has returned.
func (m *modelled) underWay(int, bool) bool { return false }

func (m *modelled) poller(i int) watcher { return m.pollers[i] }

func (m *modelled) address() reactor.Address {
	m.made++
	if m.unix {
		return reactor.Address{Path: "/run/s" + strconv.Itoa(m.made)}
	}
	ip := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	return reactor.Address{IP: netip.AddrPortFrom(ip, uint16(m.made))}
}

func (m *modelled) serve(state string) reactor.Address {
	at := m.address()
	if state != "missing" {
		m.Serve(at.String(), &Service{
			Accept: func(e *Endpoint) {
				e.Buffers(bufferBytes, bufferBytes)
				m.newest = e
			},
			Down: state == "dead", Full: state == "full",
		})
	}
	return at
}

func (m *modelled) accepted() peer {
	if m.newest == nil {
		return nil
	}
	return m.newest
}

func (m *modelled) dial(to reactor.Address) (peer, func() string) {
	outcome := "waiting"
	e := m.Dial("a peer", to.String(), netip.AddrPort{}, func(connected bool) {
		if outcome = "refused"; connected {
			outcome = "connected"
		}
	})
	e.Buffers(bufferBytes, bufferBytes)
	return e, func() string { return outcome }
}

func (m *modelled) accept(fd int) (int, syscall.Errno) {
	accepted, _, errno := m.Accept(fd)
	return accepted, errno
}

func (m *modelled) dup(fd int) int { return m.Dup(fd, 1) }
