package reactor_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"plimsoll/internal/reactor"
)

// fill writes n bytes to a connection on its loop, whatever its marks say.
func fill(t *testing.T, l *reactor.Loop, c *conn, n int) []byte {
	sent := noise(n)
	on(t, l, func() {
		for p := sent; len(p) > 0; p = p[reactor.ScratchSize:] {
			if err := c.Write(p[:reactor.ScratchSize]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return sent
}

func TestTheKernelHoldsLittleForAPeerThatDoesNotRead(t *testing.T) {
	const sent = 8 << 20
	most := int64(reactor.UnsentLimit + 1<<20) // beside it, what the peer's kernel has taken and is on its way
	l := newLoops(t, 1)[0]
	_, c := accepts(t, l)
	fill(t, l, c, sent)
	settle(t, l)
	on(t, l, func() {
		if held := c.Written() - int64(c.Queued()); held > most {
			t.Errorf("the kernel took %d bytes of an accepted connection, want at most %d", held, most)
		}
	})
	ln, dialled := server(t, "tcp", "127.0.0.1:0")
	d := &conn{}
	on(t, l, func() {
		if err := d.Dial(l, address(t, ln.Addr().String()), d); err != nil {
			t.Error(err)
		}
	})
	d.closeLater(t)
	far := receive(t, dialled, "the connection")
	defer far.Close()
	fill(t, l, d, sent)
	settle(t, l)
	on(t, l, func() {
		if held := d.Written() - int64(d.Queued()); held > most {
			t.Errorf("the kernel took %d bytes of a dialled connection, want at most %d", held, most)
		}
	})
}

func TestAckedIsWhatThePeerHasAcknowledged(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, c := accepts(t, l)
	sent := fill(t, l, c, 4<<20)
	on(t, l, func() {
		if c.Written() != 4<<20 || c.Acked() >= c.Written()-int64(c.Queued()) {
			t.Errorf("%d of %d bytes are acknowledged, %d queued, by a peer that has read nothing", c.Acked(), c.Written(), c.Queued())
		}
		c.CloseWrite()
	})
	if got, err := io.ReadAll(near); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("the peer got %d bytes, %v", len(got), err)
	}
	acknowledged(t, l, c)
}

// acknowledged waits until the peer has taken everything, the end too.
func acknowledged(t *testing.T, l *reactor.Loop, c *conn) {
	deadline := time.Now().Add(patience)
	for acked, written := int64(-1), int64(0); acked != written; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d bytes are acknowledged by a peer that has read all", acked, written)
		}
		on(t, l, func() { acked, written = c.Acked(), c.Written() })
	}
}

func TestCutWriteSendsTheEndInPlaceOfWhatIsQueued(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, c := accepts(t, l)
	sent := fill(t, l, c, 4<<20)
	on(t, l, func() {
		c.CutWrite()
		if c.Queued() != 0 || c.Congested() {
			t.Errorf("%d bytes are still queued", c.Queued())
		}
	})
	got, err := io.ReadAll(near)
	if err != nil || len(got) == 0 || len(got) >= len(sent) || !bytes.Equal(got, sent[:len(got)]) {
		t.Errorf("the peer got %d of %d bytes, %v, want the first ones and an orderly end", len(got), len(sent), err)
	}
	acknowledged(t, l, c)
}

func TestManyQueuesHoldLittleEach(t *testing.T) {
	const peers = 300
	l := newLoops(t, 1)[0]
	fd, to := bind(t, "127.0.0.1:0")
	conns := make(chan *conn, peers)
	listen(t, l, fd, acceptor{accepted: func(l *reactor.Loop, s reactor.Socket) {
		c := &conn{}
		if err := c.Attach(l, s, c); err != nil {
			t.Error(err)
		}
		conns <- c
	}})
	sum, written := 0, noise(reactor.ScratchSize)
	for range peers {
		near := dial(t, "tcp", to)
		near.(*net.TCPConn).SetReadBuffer(4 << 10)
		c := receive(t, conns, "the connection")
		c.closeLater(t)
		on(t, l, func() {
			for !c.Congested() {
				if err := c.Write(written[:l.Piece()]); err != nil {
					t.Fatal(err)
				}
			}
			sum += c.Queued()
		})
	}
	if most := reactor.LoopQueue + reactor.HighWater + reactor.ScratchSize + peers*2*reactor.TightWater; sum > most {
		t.Errorf("%d peers that do not read make the loop hold %d bytes, want at most %d", peers, sum, most)
	}
	if sum < reactor.LoopQueue {
		t.Errorf("the queues hold %d bytes, too few to have been bounded", sum)
	}
}
