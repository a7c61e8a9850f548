package proxy_test

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// HAZARDS: callbacks that re-enter. The last exchange of a snapshot that a reload has replaced
// waits for a connection, and the sweep that ends it goes through the very list that its end
// shortens.
func TestHazardASweepMayEndTheLastExchangeOfAReplacedSnapshot(t *testing.T) {
	o := upstream.DefaultOptions("127.0.0.1:1")
	o.MaxConnections, o.PendingTimeout = 1, time.Second
	b := newBedWith(t, o, nil)
	elsewhere := b.upstream.Local(1)
	if m, _ := elsewhere.Pick(b.now, 0, nil); m == nil || !m.Pool.Open(b.now) {
		t.Fatal("another loop gets no connection")
	}
	w, second := b.acceptor.Worker, newUpstream(t, o, b.loop)
	b.loop.Post(func() { w.Install(b.snapshot(b.upstream, second)) })
	b.turn()
	client := b.client(saying(silence, get))
	b.turn()
	if len(b.dialed) != 0 {
		t.Fatal("the request does not wait")
	}
	ended := 0
	b.loop.Post(func() {
		w.Install(b.snapshot(newUpstream(t, o, b.loop)))
		for _, u := range []*upstream.Upstream{b.upstream, second} {
			w.Retire(u, func() { ended++ })
		}
	})
	b.turn()
	for range 4 {
		b.now += int64(time.Second)
		b.turn()
	}
	if !bytes.Contains(client.out, []byte(" 503 ")) || ended != 2 {
		t.Errorf("%d of 2 upstreams have ended, and the client got %q", ended, client.out)
	}
}

// HAZARDS: callbacks that re-enter. What is cut off frees a connection; the request that waits for
// it cannot connect, which ends its client's connection too: the next of the list that the cut goes
// through.
func TestHazardACutMayEndTheNextClientThroughTheOneBefore(t *testing.T) {
	o := upstream.DefaultOptions("127.0.0.1:1")
	o.MaxConnections = 1
	b := newBedWith(t, o, nil)
	next := b.client(silence)
	b.turn()
	first := b.client(saying(silence, get))
	b.asked()
	next.in = saying(silence, get)
	b.tell(next)
	b.turn()
	b.refuse = syscall.ENETUNREACH
	cut := 0
	b.loop.Post(func() {
		b.acceptor.Worker.Drain()
		cut = b.acceptor.Worker.Cut()
	})
	b.turn()
	if !first.closed || !next.closed || cut != 1 {
		t.Errorf("cut %d exchanges, want the one that has a connection; closed %v and %v",
			cut, first.closed, next.closed)
	}
	if !bytes.Contains(next.out, []byte(" 502 ")) {
		t.Errorf("the client that waited got %q, want 502", next.out)
	}
}

// HAZARDS: a state that is skipped. An exchange whose last bytes wait for the batch is left alone,
// because it ends in this turn; its client's connection does not.
func TestHazardTheLoopsEndClosesClientsWhoseLastBytesWereOnTheirWay(t *testing.T) {
	const pieces = 16 * (reactor.ScratchSize - 4<<10) // as many reads as one event may bring
	b := newBed(t, nil)
	client := b.client(saying(silence, get))
	target := b.asked()
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", pieces)
	target.in = filling(head + string(make([]byte, pieces)))
	b.tell(target)
	b.loop.Post(b.acceptor.Worker.Close)
	b.turn()
	if got := len(client.out); got < pieces || client.closed {
		t.Fatalf("the client got %d bytes, and its connection is closed: %v; want it to be as after an exchange",
			got, client.closed)
	}
	b.loop.Post(b.acceptor.Worker.Stop)
	if b.turn(); !client.closed {
		t.Error("the client's connection is open although the loop has stopped")
	}
}

// HAZARDS: a state that is skipped. A listener that closes may still accept after the worker's end:
// who is taken in then would begin what outlasts the loop.
func TestHazardWhoComesAfterTheWorkersEndIsClosedAtOnce(t *testing.T) {
	b := newBed(t, nil)
	b.loop.Post(b.acceptor.Worker.Close)
	b.turn()
	client := b.client(saying(silence, get))
	b.turn()
	if !client.closed || len(client.out) > 0 || len(b.dialed) > 0 {
		t.Errorf("the client is closed: %v, got %q, and %d connections were dialled; want it closed at once",
			client.closed, client.out, len(b.dialed))
	}
}

// filling fills every buffer it is shown as long as there is something.
func filling(rest string) func([]byte) (int, syscall.Errno) {
	return func(p []byte) (int, syscall.Errno) {
		if rest == "" {
			return 0, syscall.EAGAIN
		}
		n := copy(p, rest)
		rest = rest[n:]
		return n, 0
	}
}
