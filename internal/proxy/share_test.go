package proxy_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"plimsoll/internal/upstream"
)

const upload = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc"

// bounded is a bed whose target may have so many connections.
func bounded(t *testing.T, connections int) *bed {
	t.Helper()
	o := upstream.DefaultOptions("127.0.0.1:1")
	o.MaxConnections, o.PendingTimeout = connections, time.Hour
	b := newBedWith(t, o, nil)
	b.acceptor.Listener.SendTimeout = int64(1000 * time.Hour)
	return b
}

// uploading has a client begin a request whose body does not come.
func (b *bed) uploading(address string) *sock {
	b.t.Helper()
	client := b.clientFrom(address, saying(silence, upload))
	b.asked()
	return client
}

// looks has the loop look at its pools a number of times, a second apart.
func (b *bed) looks(times int) {
	for range times {
		b.now += int64(time.Second) + int64(time.Millisecond)
		b.turn()
	}
}

func refused(clients []*sock) (n int) {
	for _, c := range clients {
		if bytes.Contains(c.out, []byte("pool_full")) {
			n++
		}
	}
	return n
}

// HAZARDS: what stands for many is taken for one. Each address that has its share was left out by
// its bucket's bit; there are 64 buckets, and with some hundred addresses nobody was left.
func TestHazardManyAddressesWithTheirShareHideNobodyWhoHasLess(t *testing.T) {
	const addresses = 300
	b := bounded(t, 2*addresses)
	var holders []*sock
	for i := range addresses {
		for range 2 {
			holders = append(holders, b.uploading(fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)))
		}
	}
	if len(b.dialed) != 2*addresses {
		t.Fatalf("%d connections, want %d", len(b.dialed), 2*addresses)
	}
	b.now += int64(time.Second)
	waits := b.clientFrom("10.1.0.1", saying(silence, get))
	b.turn()
	b.looks(2)
	if n := refused(holders); n != 1 {
		t.Errorf("%d connections were reclaimed for one request that waits, want 1", n)
	}
	last := b.dialed[len(b.dialed)-1]
	if len(b.dialed) != 2*addresses+1 || last.closed || refused([]*sock{waits}) != 0 {
		t.Errorf("the one that waits has no connection; it got %q", waits.out)
	}
}

// An answer that is there, and that its client leaves no room for, waits for the client and not for
// the service.
func TestAConnectionWhoseAnswerIsNotTakenIsReclaimed(t *testing.T) {
	b := bounded(t, 2)
	for range 2 {
		b.congested("127.0.0.2")
	}
	b.clientFrom("127.0.0.3", saying(silence, get))
	b.turn()
	dialed := len(b.dialed)
	b.looks(2)
	if !b.dialed[0].closed && !b.dialed[1].closed || len(b.dialed) != dialed+1 {
		t.Errorf("%d connections were made, want one more than %d", len(b.dialed), dialed)
	}
}

// Where the service has not answered yet it is the service that is waited for.
func TestAConnectionWhoseServiceIsSlowIsLeftAlone(t *testing.T) {
	b := bounded(t, 2)
	for range 2 {
		b.clientFrom("127.0.0.2", saying(silence, get))
		b.asked()
	}
	b.clientFrom("127.0.0.3", saying(silence, get))
	b.turn()
	b.looks(3)
	if b.dialed[0].closed || b.dialed[1].closed {
		t.Error("a connection was reclaimed although its service has not answered")
	}
}

func TestConnectionsOfAnUpstreamThatAReloadHasReplacedAreReclaimedToo(t *testing.T) {
	b := bounded(t, 2)
	holders := []*sock{b.uploading("127.0.0.2"), b.uploading("127.0.0.2")}
	b.clientFrom("127.0.0.3", saying(silence, get))
	b.turn()
	next := newUpstream(t, upstream.DefaultOptions("127.0.0.1:2"), b.loop)
	b.loop.Post(func() {
		b.acceptor.Worker.Install(b.snapshot(next))
		b.acceptor.Worker.Retire(b.upstream, func() {})
	})
	b.turn()
	b.looks(3)
	if n := refused(holders); n != 1 || len(b.dialed) != 3 {
		t.Errorf("%d connections were reclaimed, and %d made, want 1 and 3", n, len(b.dialed))
	}
}
