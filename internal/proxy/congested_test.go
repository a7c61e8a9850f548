package proxy_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/reactor"
)

// congested has a client send two requests and take nothing. The first response fills its queue but
// for some bytes, an interim one the rest, and the answer to the second is not read.
func (b *bed) congested(address string) (client, target *sock) {
	b.t.Helper()
	client = b.clientFrom(address, saying(silence, get+get))
	target = b.asked()
	client.stuck = true
	first := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", reactor.HighWater-300)
	target.in = saying(silence, first+strings.Repeat("x", reactor.HighWater-300))
	for range 4 {
		b.tell(target)
		b.turn()
	}
	if target.sends != 2 {
		b.t.Fatalf("the target was sent %d requests, want 2", target.sends)
	}
	interim := "HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("y", 400) + "\r\n\r\n"
	target.in = saying(silence, interim, okResponse)
	for range 2 {
		b.tell(target)
		b.turn()
	}
	return client, target
}

// HAZARDS: a client that does not read passes for a target that does not answer. Bytes that are
// queued before the answer, of the response before or of interim ones, stop the reading from the
// target; its answer is there all the time.
func TestHazardAClientThatDoesNotReadMakesNoTargetFail(t *testing.T) {
	b := newBed(t, nil)
	b.acceptor.Listener.SendTimeout = 1000 * int64(time.Hour)
	client, target := b.congested("127.0.0.1")
	reads := target.reads
	for range 5 {
		b.now += int64(time.Hour) + 1
		b.turn()
	}
	if target.reads != reads {
		t.Fatal("the target was read although the client takes nothing")
	}
	if n := b.upstream.Status().Targets[0].ConsecutiveFailures; target.closed || n != 0 {
		t.Errorf("the target has failed %d times; its connection is closed: %v", n, target.closed)
	}
	b.drains(client)
	b.turn()
	b.turn()
	if !bytes.HasSuffix(client.out, []byte("\r\n\r\nok")) {
		t.Errorf("the client got\n%q", client.out[max(0, len(client.out)-300):])
	}
}
