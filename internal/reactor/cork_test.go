package reactor_test

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"plimsoll/internal/reactor"
)

// What is written behind Cork goes out in one piece with Push, however many others gather.
func TestWhatIsCorkedGoesOutTogether(t *testing.T) {
	l := newLoops(t, 1)[0]
	type end struct {
		near io.ReadCloser
		c    *conn
	}
	var ends []end
	for range 20 {
		near, far := peers(t, false)
		c, _ := reading(t, l, far)
		ends = append(ends, end{near, c})
	}
	records := [][]byte{noise(16000), noise(17000), noise(200)}
	want := bytes.Join(records, nil)
	for range 10 {
		l.Post(func() {
			for _, e := range ends {
				e.c.Cork()
				for _, p := range records {
					if err := e.c.Write(p); err != nil {
						t.Error(err)
					}
				}
				if e.c.Queued() != 0 || !e.c.Unsent() {
					t.Error("what is gathered waits for the peer, or did not wait at all")
				}
			}
			for _, e := range ends {
				if e.c.Push(); e.c.Unsent() {
					t.Error("something is left behind Push")
				}
			}
		})
		for _, e := range ends {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(e.near, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("the peer got other bytes, %v", err)
			}
		}
	}
	on(t, l, func() {
		for _, e := range ends {
			e.c.Cork()
			e.c.Write(want)
			e.c.Close()
		}
		if out := l.BuffersOut(); out != [len(reactor.Sizes)]int{} {
			t.Errorf("buffers stayed out: %v", out)
		}
	})
	for _, e := range ends {
		if got, err := io.ReadAll(e.near); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the peer got %d bytes before the end, %v", len(got), err)
		}
	}
}

// Of a peer that takes little, what is left waits in as much memory as without Cork.
func TestWhatAPeerLeavesOfTheCorkedWaitsInLittleMemory(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, true)
	drained := make(chan struct{}, 8)
	c := &conn{drained: func() { drained <- struct{}{} }}
	attach(t, l, c, far)
	var sent []byte
	large := len(reactor.Sizes) - 1
	on(t, l, func() {
		for c.Queued() == 0 {
			c.Cork()
			p := noise(5000)
			if err := c.Write(p); err != nil {
				t.Error(err)
			}
			sent = append(sent, p...)
			c.Push()
		}
		if out := l.BuffersOut(); out[large] != 0 {
			t.Errorf("%d bytes wait in a buffer of %d", c.Queued(), reactor.Sizes[large])
		}
	})
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(near, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the peer got other bytes, %v", err)
	}
	if settle(t, l); len(drained) != 0 {
		t.Error("Drained without congestion")
	}

	sent = noise(4 * reactor.HighWater)
	on(t, l, func() {
		c.Cork()
		if c.Write(sent); c.Congested() {
			t.Error("congested by what is corked")
		}
		if c.Push(); !c.Congested() || c.Queued() <= reactor.HighWater {
			t.Errorf("not congested with %d bytes", c.Queued())
		}
	})
	got = make([]byte, len(sent))
	if _, err := io.ReadFull(near, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the peer got other bytes, %v", err)
	}
	receive(t, drained, "Drained")
}

// The owner sees nothing Queued and closes in order: what the socket does not take must not look
// whole.
func TestACorkedResponseThatIsCutOffIsReset(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, true)
	c, _ := reading(t, l, far)
	on(t, l, func() {
		c.Cork()
		c.Write(noise(192 << 10))
		if c.Queued() != 0 {
			t.Error("what is corked is queued")
		}
		c.Close()
	})
	if got, err := io.ReadAll(near); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer got %d bytes and %v, want a reset", len(got), err)
	}
}

func TestTheEndOfWritingComesBehindTheCorked(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, _ := reading(t, l, far)
	sent := noise(3000)
	on(t, l, func() {
		c.Cork()
		c.Write(sent)
		c.CloseWrite()
	})
	if got, err := io.ReadAll(near); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the peer got %d bytes, %v, want %d and the end", len(got), err, len(sent))
	}
}

// One that others push out of the cork learns of a failure as from its own Push.
func TestACorkThatFailsIsSeenBehindPush(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	var others []*conn
	for range 8 {
		_, far := peers(t, false)
		other, _ := reading(t, l, far)
		others = append(others, other)
	}
	near.SetLinger(0)
	near.Close()
	receive(t, told, "the reset")
	on(t, l, func() {
		c.Cork()
		if err := c.Write([]byte("x")); err != nil {
			t.Errorf("Write behind Cork: %v", err)
		}
		for _, other := range others {
			other.Cork()
			other.Write([]byte("x"))
		}
		if c.Push(); !c.Failed() || c.Unsent() {
			t.Error("Failed is false, or something is left")
		}
		for _, other := range others {
			if other.Push(); other.Unsent() || other.Failed() {
				t.Error("another failed with it")
			}
		}
	})
}
