package proxy_test

import (
	"bytes"
	"strings"
	"testing"

	"plimsoll/internal/http2"
)

// A client that has many requests on its way at once has 64 of them begun in a turn at most, and who else
// asks meanwhile is answered in the turn in which it asks.
func TestAClientWithManyStreamsStarvesNobody(t *testing.T) {
	const requests, perTurn = 1000, 2 * 32
	b := framed(newBed(t, answerer("ok")))
	heavy, light := b.client(silence), b.client(silence)
	b.turn()
	b.says(heavy, greeting)
	var all strings.Builder
	for i := range uint32(requests) {
		all.WriteString(framedAsk(1 + 2*i))
	}
	heavy.in = saying(silence, all.String())
	b.tell(heavy)
	answered := 0
	for turn := 1; turn < requests && answered < requests; turn++ {
		light.in = saying(silence, get)
		b.tell(light)
		b.turn()
		before := answered
		answered = 0
		for _, f := range framesTo(t, heavy) {
			if f.Type == http2.Headers {
				answered++
			}
		}
		if n := answered - before; n > perTurn {
			t.Fatalf("turn %d has answered %d streams of one client, want at most %d", turn, n, perTurn)
		}
		if got := bytes.Count(light.out, []byte("HTTP/1.1 200")); got != turn {
			t.Fatalf("after turn %d another client has %d answers", turn, got)
		}
	}
	if answered != requests {
		t.Errorf("%d of %d streams were answered", answered, requests)
	}
}

// takers is a client with many streams, each of which gets a long response. It takes what comes at once,
// but for the streams that stalled names: of these it opens no window.
func takers(t *testing.T, streams, size int, stalled func(id uint32) bool) (rounds int, got map[uint32]int) {
	s := &sharer{bed: framed(newBed(t, sized{})), next: 1}
	s.reader.Reset(false, 1<<14)
	s.client = s.bed.client(silence)
	s.turn()
	s.say(greeting)
	var asks strings.Builder
	waiting := 0
	for range streams {
		id, frame := s.asks(size)
		asks.WriteString(frame)
		if !stalled(id) {
			waiting++
		}
	}
	got = map[uint32]int{}
	for opened := asks.String(); waiting > 0; rounds++ {
		if rounds > 100*streams {
			t.Fatalf("%d streams are not served", waiting)
		}
		s.say(opened)
		opened = ""
		all := 0
		for _, f := range s.frames {
			if f.Type != http2.Data || len(f.Payload) == 0 {
				continue
			}
			all += len(f.Payload)
			got[f.Stream] += len(f.Payload)
			switch {
			case stalled(f.Stream):
			case got[f.Stream] == size:
				waiting--
			default:
				opened += opens(f.Stream, len(f.Payload))
			}
		}
		s.frames = nil
		if all > 0 {
			opened += opens(0, all)
		}
	}
	return rounds, got
}

// A stream whose consumer has stopped reading holds its own window and nothing else: its siblings get all
// of theirs, in no more rounds than without it.
func TestAStreamThatStallsDoesNotSlowItsSiblings(t *testing.T) {
	const streams, size, window = 100, 150_000, 65_535
	plain, _ := takers(t, streams, size, func(uint32) bool { return false })
	for _, stall := range []uint32{1, 101, 199} {
		rounds, got := takers(t, streams, size, func(id uint32) bool { return id == stall })
		if rounds > plain {
			t.Errorf("with stream %d stalled its siblings need %d rounds, and %d without", stall, rounds, plain)
		}
		for id, n := range got {
			if want := size; id != stall && n != want {
				t.Errorf("stream %d got %d bytes, want %d", id, n, want)
			}
		}
		if got[stall] > window {
			t.Errorf("a stream that stalls got %d bytes, and its window is %d", got[stall], window)
		}
	}
}
