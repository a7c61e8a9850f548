package kernel

import (
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/reactor"
)

// The tokens under which a test's descriptors are watched.
const (
	connectionToken = 1
	listenerToken   = 2
)

// wire is a connection that a test has dialled and watches, with the actor at its other end.
type wire struct {
	*Kernel
	t     *testing.T
	fd    int
	poll  *poller
	actor *Endpoint
}

// onWire runs a test over a fresh connection, in a bubble.
func onWire(t *testing.T, seed uint64, p Profile, test func(*wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{Kernel: New(seed, p), t: t}
		w.poll = newPoller(w.Kernel)
		at := reactor.Address{IP: netip.MustParseAddrPort("127.0.0.1:80")}
		w.Serve(at.String(), &Service{Accept: func(e *Endpoint) { w.actor = e }})
		w.fd, _ = w.Socket(at)
		if err := w.Connect(w.fd, at); err != nil {
			t.Fatal(err)
		}
		if err := w.poll.Add(w.fd, connectionToken, false); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.told("once connected", "out")
		test(w)
	})
}

// newPoller is a poller whose loop does not run: the test polls.
func newPoller(k *Kernel) *poller {
	p := &poller{k: k, loop: &loop{Loop: &reactor.Loop{ID: 1}}}
	p.loop.poller = p
	return p
}

// settle lets everything happen that is due within a second.
func (w *wire) settle() {
	w.t.Helper()
	over := false
	w.After(time.Second, func() { over = true })
	if err := w.Drive(func() bool { return over }); err != nil {
		w.t.Fatal(err)
	}
}

// told compares what the poller reports with what is expected; "" is nothing.
func (w *wire) told(when, want string) {
	w.t.Helper()
	var events [8]reactor.Event
	got := ""
	for _, ev := range events[:w.poll.Poll(events[:])] {
		got = describe(ev)
	}
	if got != want {
		w.t.Errorf("%s the poller tells %q, want %q", when, got, want)
	}
}

// describe names an event's bits.
func describe(ev reactor.Event) string {
	var bits []string
	for _, b := range []struct {
		set  bool
		name string
	}{{ev.Readable, "in"}, {ev.Writable, "out"}, {ev.PeerEnded, "rdhup"}, {ev.Broken, "broken"}} {
		if b.set {
			bits = append(bits, b.name)
		}
	}
	return strings.Join(bits, "+")
}

func TestAPollerThatFoundASocketFullTellsOfRoom(t *testing.T) {
	onWire(t, 1, calm, func(w *wire) {
		w.actor.Buffers(1, bufferBytes)
		if n, errno := w.Send(w.fd, make([]byte, bufferBytes)); n != bufferBytes {
			t.Fatalf("send: %d, %v", n, errno)
		}
		w.actor.Write([]byte("x"))
		w.settle()
		w.told("with a full socket", "in")
		w.actor.Buffers(2*bufferBytes, bufferBytes)
		w.actor.Read(1)
		w.settle()
		w.told("once the peer has read", "in+out")
	})
}

func TestRoomIsNotToldOfWhenThePollerFoundSome(t *testing.T) {
	onWire(t, 1, calm, func(w *wire) {
		w.Send(w.fd, make([]byte, bufferBytes/2))
		w.settle()
		w.told("after a send that left room", "")
	})
}

func TestTheAcknowledgementOfTheEndIsTold(t *testing.T) {
	onWire(t, 1, calm, func(w *wire) {
		w.Shutdown(w.fd, syscall.SHUT_WR)
		w.told("after shutdown", "out")
		w.settle()
		w.told("after its acknowledgement", "out")
	})
}

func TestAResetDoesNotOvertakeWhatItsSenderSentBefore(t *testing.T) {
	far := calm
	far.Latency = 100 * time.Millisecond
	for seed := range uint64(50) {
		onWire(t, seed, far, func(w *wire) {
			w.Send(w.fd, []byte("this meets a closed socket"))
			w.actor.Write([]byte("hello"))
			w.actor.Close()
			w.settle()
			p := make([]byte, 10)
			n, errno := w.Recv(w.fd, p)
			if errno != 0 || string(p[:max(n, 0)]) != "hello" {
				t.Errorf("seed %d: recv: %q, %v", seed, p[:max(n, 0)], errno)
			}
		})
	}
}

func TestAPeerWhoseBufferShrinksGetsWhatIsOnItsWayLater(t *testing.T) {
	onWire(t, 1, calm, func(w *wire) {
		w.Send(w.fd, make([]byte, 100))
		w.settle()
		w.Send(w.fd, make([]byte, 100))
		w.actor.Buffers(50, bufferBytes)
		w.settle()
		if n := len(w.actor.Read(1000)); n != 100 {
			t.Errorf("the peer reads %d bytes, want what came before", n)
		}
		w.settle()
		if n := len(w.actor.Read(1000)); n != 50 {
			t.Errorf("then it reads %d bytes, want as many as it has room for", n)
		}
	})
}

func TestWhatIsSentArrivesWholeAndInOrder(t *testing.T) {
	onWire(t, 1, harsh, func(w *wire) {
		var sent, got []byte
		for i := 0; len(got) < 50_000; i++ {
			p := slices.Repeat([]byte{byte(i)}, 1000)
			n, errno := w.Send(w.fd, p)
			if errno != 0 && errno != syscall.EAGAIN {
				t.Fatal(errno)
			}
			sent = append(sent, p[:max(n, 0)]...)
			w.settle()
			got = append(got, w.actor.Read(1<<20)...)
		}
		if !slices.Equal(got, sent[:len(got)]) {
			t.Error("other bytes arrive than were sent")
		}
	})
}
