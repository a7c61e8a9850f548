package proxy_test

import (
	"bytes"
	"slices"
	"testing"

	"plimsoll/internal/http2"
)

// asksAlive counts the PINGs that a target or a client got.
func asksAlive(target *sock) int {
	return bytes.Count(target.out, http2.AppendPing(nil, false, [8]byte{}))
}

// passes has time pass, which timers see.
func (b *bed) passes(seconds int64) {
	b.now += seconds * 1e9
	for range 4 {
		b.turn()
	}
}

// A target that says nothing while a request waits for it is asked after 15 seconds, and given up after as
// long again. One that answers is asked again.
func TestATargetThatIsSilentIsAskedWhetherItIsThere(t *testing.T) {
	for _, answers := range []int{0, 1} {
		b := framedTarget(newBed(t, nil), 0)
		client := b.client(saying(silence, get))
		target := b.asked()
		target.dialed = false // what it gets is kept
		target.in = saying(silence, string(http2.AppendSettings(nil)))
		b.tell(target)
		b.turn()
		b.passes(16) // it has spoken in this time
		if n := asksAlive(target); n != 0 {
			t.Fatalf("a target that has just spoken is asked %d times", n)
		}
		for i := range answers {
			b.passes(16)
			if n := asksAlive(target); n != i+1 {
				t.Fatalf("a target that is silent for the %dth time was asked %d times", i+1, n)
			}
			target.in = saying(silence, string(http2.AppendPing(nil, true, [8]byte{})))
			b.tell(target)
			b.turn()
			b.passes(16)
		}
		b.passes(16)
		if n := asksAlive(target); n != answers+1 || target.closed {
			t.Fatalf("the target was asked %d times, and is given up at once: %v", n, target.closed)
		}
		b.passes(14)
		if target.closed {
			t.Fatal("the target is given up before it could answer")
		}
		b.passes(2)
		if !target.closed || !bytes.Contains(client.out, []byte(" 502 ")) {
			t.Errorf("the target is given up: %v, and the client got %q", target.closed, client.out)
		}
	}
}

// Servers of gRPC end a connection that gets a fourth PING within five minutes while they have nothing to
// say. A stream may be silent for hours.
func TestATargetIsNotAskedMoreOftenThanServersOfGRPCTake(t *testing.T) {
	b := framedTarget(newBed(t, nil), 0)
	client := b.client(saying(silence, get))
	target := b.asked()
	target.dialed = false
	says := func(frames string) {
		target.in = saying(silence, frames)
		b.tell(target)
		b.turn()
	}
	says(string(http2.AppendSettings(nil)))
	answered := 0
	for seconds := 0; seconds < 3600; seconds += 16 {
		b.passes(16)
		if n := asksAlive(target); n > answered {
			answered = n
			says(string(http2.AppendPing(nil, true, [8]byte{})))
		}
		if seconds == 300 && answered != 2 {
			t.Fatalf("within five minutes the target was asked %d times, want 2", answered)
		}
	}
	if answered < 8 || answered > 13 {
		t.Errorf("within an hour the target was asked %d times, want once in five minutes and a half", answered)
	}
	// What it says itself shows that it takes PINGs again.
	says(framedAnswer(4))
	for range 4 {
		b.passes(16)
	}
	if n := asksAlive(target); n != answered+1 || !target.closed || len(client.out) == 0 {
		t.Errorf("after its head it was asked %d more times, and is given up: %v", n-answered, target.closed)
	}
}

// A connection that carries nothing is not asked: its pool has its own time-out.
func TestATargetThatCarriesNothingIsNotAsked(t *testing.T) {
	b := framedTarget(newBed(t, nil), 0)
	b.client(saying(silence, get))
	target := b.asked()
	target.dialed = false
	target.in = saying(silence, string(http2.AppendSettings(nil))+framedAnswer(2)+
		string(http2.AppendDataHeader(nil, 1, 2, true))+"ok")
	b.tell(target)
	b.turn()
	for range 3 {
		b.passes(16)
	}
	if n := asksAlive(target); n != 0 || target.closed {
		t.Errorf("an idle target was asked %d times, and closed: %v", n, target.closed)
	}
}

// waitsFramed is a client of HTTP/2 with a request that its target does not answer.
func waitsFramed(t *testing.T) (*bed, *sock) {
	b := framed(newBed(t, nil))
	client := b.client(silence)
	b.turn()
	b.says(client, greeting+framedAsk(1))
	return b, client
}

// A client that says nothing while a request of it is under way is asked after limits.ping_after, and
// ended after as long again. One that answers is asked again, for as long as it takes.
func TestAClientThatIsSilentIsAskedWhetherItIsThere(t *testing.T) {
	for _, answers := range []int{0, 3} {
		b, client := waitsFramed(t)
		b.passes(2)
		b.passes(14)
		if n := asksAlive(client); n != 0 {
			t.Fatalf("a client that has just spoken is asked %d times", n)
		}
		b.passes(2)
		for i := range answers {
			if n := asksAlive(client); n != i+1 {
				t.Fatalf("a client that is silent for the %dth time was asked %d times", i+1, n)
			}
			b.says(client, string(http2.AppendPing(nil, true, [8]byte{})))
			b.passes(2)
			b.passes(16)
		}
		b.passes(14)
		if n := asksAlive(client); n != answers+1 || ended(t, client) {
			t.Fatalf("the client was asked %d times, and is ended at once: %v", n, ended(t, client))
		}
		b.passes(2)
		if !ended(t, client) {
			t.Error("a client that does not answer is not ended")
		}
		b.passes(4) // it is given some time to read that
		if !client.closed {
			t.Error("the connection of a client that does not answer is left")
		}
	}
}

// A client that still takes what it was given before the PING cannot have answered it.
func TestAClientThatReadsWhatIsInFrontOfThePingIsThere(t *testing.T) {
	b, client := waitsFramed(t)
	b.passes(2)
	b.unacknowledged = 16
	b.passes(16)
	const ping = http2.HeaderSize + 8
	for b.unacknowledged = ping + 15; b.unacknowledged > ping; b.unacknowledged -= 5 {
		b.passes(16)
		if asksAlive(client) != 1 || ended(t, client) {
			t.Fatalf("with %d bytes in front of the PING the client is ended", b.unacknowledged-ping)
		}
	}
	b.passes(16)
	b.passes(16)
	if !ended(t, client) {
		t.Error("a client that takes nothing any more is not ended")
	}
}

// A client without a stream is not asked: limits.idle_timeout ends it.
func TestAClientWithoutAStreamIsNotAsked(t *testing.T) {
	b := framed(newBed(t, nil))
	client := b.client(silence)
	b.turn()
	b.says(client, greeting)
	for range 3 {
		b.passes(16)
	}
	if n := asksAlive(client); n != 0 || ended(t, client) {
		t.Errorf("an idle client was asked %d times, and ended: %v", n, ended(t, client))
	}
}

// A loop with many clients looks at some of them in a sweep, and at all within a few.
func TestASilentClientIsAskedHoweverManyThereAre(t *testing.T) {
	b, client := waitsFramed(t)
	var others []*sock
	for range 4200 {
		other := b.client(silence)
		b.turn()
		b.says(other, greeting)
		others = append(others, other)
	}
	b.passes(2)
	b.passes(2)
	b.passes(16)
	b.passes(2)
	if n := asksAlive(client); n != 1 {
		t.Errorf("a silent client behind thousands of others was asked %d times, want once", n)
	}
	if n := slices.IndexFunc(others, func(s *sock) bool { return s.closed }); n >= 0 {
		t.Fatalf("the %dth of the others has been closed", n)
	}
}
