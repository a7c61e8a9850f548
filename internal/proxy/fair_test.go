package proxy_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
)

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// readsPerTurn is the most reads of one socket, or pieces of an answer, that a turn may have: a
// burst for an event, another for what was put off, and what came before either.
const readsPerTurn = 2*16 + 2

// mostReads is the most reads of a socket in one of so many turns, each of which has an event for
// it.
func (b *bed) mostReads(s *sock, turns int) (most int) {
	for range turns {
		before := s.reads
		b.tell(s)
		b.turn()
		most = max(most, s.reads-before)
	}
	return most
}

func TestNoClientHasTheLoopForItself(t *testing.T) {
	for name, c := range map[string]struct{ request, response string }{
		"in a tunnel": {
			"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
			"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
		},
		"with an upload":                       {"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000\r\n\r\n", ""},
		"that sends on after its last request": {"GARBAGE\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil)
			client := b.client(saying(endless, c.request))
			target := b.asked()
			if c.response != "" {
				target.in = saying(silence, c.response)
				b.tell(target)
			}
			if most := b.mostReads(client, 100); most > readsPerTurn {
				t.Errorf("a client was read %d times in one turn, want at most %d", most, readsPerTurn)
			}
			if client.reads < 200 || target != nil && target.sends < 200 {
				t.Errorf("a client was read only %d times in 100 turns", client.reads)
			}
		})
	}
}

// Over TLS a client can send each byte of its head as a record of its own, and each of them takes a
// read. Here short reads stand for the records: after its peer's end a socket is read until it says
// so.
func TestAHeadInManyPiecesDoesNotHaveTheLoopForItself(t *testing.T) {
	b := newBed(t, answerer("ok"))
	client := b.client(saying(silence, "G"))
	b.turn()
	client.in = saying(silence, strings.Split("ET /"+strings.Repeat("x", 1000), "")...)
	b.events = append(b.events, reactor.Event{Token: client.token, Readable: true, PeerEnded: true})
	for turn := 0; turn < 1000 && client.reads < 1000; turn++ {
		before := client.reads
		b.turn()
		if n := client.reads - before; n > readsPerTurn {
			t.Fatalf("a client was read %d times in one turn, want at most %d", n, readsPerTurn)
		}
	}
	if client.reads < 1000 {
		t.Errorf("a client was read only %d times", client.reads)
	}
}

func TestATargetThatSendsWithoutEndDoesNotHaveTheLoopForItself(t *testing.T) {
	b := newBed(t, nil)
	b.client(saying(silence, get))
	target := b.asked()
	target.in = saying(endless, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
	if most := b.mostReads(target, 20); most > readsPerTurn {
		t.Errorf("a target was read %d times in one turn, want at most %d", most, readsPerTurn)
	}
}

// answerer is a policy that answers with a body.
type answerer []byte

func (a answerer) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	x.Answer(200, exchange.RouteAnswer, a)
	return exchange.Answered
}

func TestALongAnswerGoesOutOverSeveralTurns(t *testing.T) {
	body := bytes.Repeat([]byte("plimsoll"), 1<<20)
	b := newBed(t, answerer(body))
	client := b.client(saying(silence, get, get))
	for _, nudged := range []bool{false, true} { // the second time with an event in each turn
		client.out = nil
		turns := 0
		for ; turns < 1000 && !bytes.HasSuffix(client.out, body); turns++ {
			before := len(client.out)
			if nudged || turns == 0 {
				b.tell(client)
			}
			b.turn()
			if sent := len(client.out) - before; sent > readsPerTurn*reactor.ScratchSize {
				t.Fatalf("%d bytes of an answer were sent in one turn", sent)
			}
		}
		if !bytes.HasSuffix(client.out, body) || bytes.Count(client.out, []byte("HTTP/1.1 200")) != 1 {
			t.Fatalf("got %d bytes in %d turns, want one answer of %d", len(client.out), turns, len(body))
		}
	}
}

// Each event finds further requests while the one before still waits for the turn's end.
func TestAClientHasAtMostTwoExchangesATurn(t *testing.T) {
	b := newBed(t, answerer("ok"))
	const requests = 1000
	client := b.client(saying(silence, strings.Repeat(get, requests)))
	answers := func() int { return bytes.Count(client.out, []byte("HTTP/1.1 200")) }
	for turn := 0; turn < 2*requests && answers() < requests; turn++ {
		before := answers()
		b.tell(client)
		b.turn()
		if n := answers() - before; n > 2 {
			t.Fatalf("turn %d answered %d requests of one client, want at most 2", turn, n)
		}
	}
	if answers() != requests {
		t.Errorf("%d of %d requests were answered", answers(), requests)
	}
}

func TestHoweverManyWaitForAFullUnixTargetItIsAskedRarely(t *testing.T) {
	const waiting = 50
	b := newBedFor(t, "unix:/s", nil)
	b.refuse = syscall.EAGAIN
	for range waiting {
		b.client(saying(silence, get))
		b.turn()
	}
	if tries := len(b.dialed); tries != 1 {
		t.Errorf("%d requests that came together tried to connect %d times, want once", waiting, tries)
	}
	for range 1000 {
		b.now += int64(time.Millisecond)
		b.turn()
	}
	if tries := len(b.dialed); tries < 10 || tries > 40 {
		t.Errorf("%d requests tried to connect %d times in a second, want about twenty times", waiting, tries)
	}
	b.refuse, b.dialed = nil, nil
	for range 100 {
		b.now += int64(time.Millisecond)
		b.turn()
	}
	if len(b.dialed) != waiting {
		t.Errorf("%d of %d requests connected when there was room", len(b.dialed), waiting)
	}
}
