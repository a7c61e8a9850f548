package proxy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/http2"
)

// says has a client send more.
func (b *bed) says(client *sock, text string) {
	client.in = saying(silence, text)
	b.tell(client)
	b.turn()
	b.turn()
}

// HAZARDS: limits that are checked before what they bound has grown. Cookies are joined, so a head
// that is within its limit can become twice as long.
func TestHazardCookiesThatAreTooLongTogether(t *testing.T) {
	b := framed(newBed(t, answerer("ok")))
	long := strings.Repeat("x", 17_500)
	client := b.client(saying(silence, greeting+framedAsk(1, "cookie", long, "cookie", long)+framedAsk(3)))
	b.turn()
	b.turn()
	list := framesTo(t, client)
	if !has(list, http2.Headers, 1) || !has(list, http2.Headers, 3) || has(list, http2.GoAway, 0) {
		t.Errorf("the client got %v", list)
	}
}

// HAZARDS: an error that leaves a state half-way. The head of a request that is refused for its
// frame goes on in further ones.
func TestHazardARefusedHeadGoesOnInContinuation(t *testing.T) {
	for _, at := range []int{0, 1, 5} {
		b := framed(newBed(t, answerer("ok")))
		block := askBlock("GET")
		var frames []byte
		frames = append(frames, make([]byte, http2.HeaderSize)...)
		http2.PutFrameHeader(frames, 5+at, http2.Headers, http2.EndStream|http2.HasPriority, 1)
		frames = append(append(frames, 0, 0, 0, 1, 16), block[:at]...)
		rest := make([]byte, http2.HeaderSize)
		http2.PutFrameHeader(rest, len(block)-at, http2.Continuation, http2.EndHeaders, 1)
		frames = append(append(frames, rest...), block[at:]...)
		client := b.client(saying(silence, greeting+string(frames)+framedAsk(3)))
		b.turn()
		b.turn()
		list := framesTo(t, client)
		if !has(list, http2.RSTStream, 1) || !has(list, http2.Headers, 3) || has(list, http2.GoAway, 0) {
			t.Errorf("with %d bytes in the first frame the client got %v", at, list)
		}
	}
}

// HAZARDS: a timer that nobody sets again. A request that comes between the two GOAWAYs is served,
// and the connection ends all the same.
func TestHazardADrainingConnectionEndsAfterALateRequest(t *testing.T) {
	b := framed(newBed(t, answerer("ok")))
	client := b.client(saying(silence, greeting+framedAsk(1)))
	b.turn()
	b.loop.Post(b.acceptor.Worker.Drain)
	b.turn()
	b.says(client, framedAsk(3))
	for range 4 {
		b.now += int64(time.Second) + 1
		b.turn()
	}
	list := framesTo(t, client)
	last := list[len(list)-1]
	if !has(list, http2.Headers, 3) || last.Type != http2.GoAway || last.LastStream() != 3 {
		t.Errorf("the client got %v", list)
	}
}

// HAZARDS: a promise that grows. A client may send a stream above a GOAWAY's last one again
// elsewhere, so a later GOAWAY must not take it on (RFC 9113, section 6.8).
func TestHazardALaterGoAwayTakesNoFurtherStreamOn(t *testing.T) {
	b := framed(newBed(t, nil))
	upload := string(http2.AppendHeaders(nil, 1, askBlock("POST"), false, 1<<14)) // it stays open
	client := b.client(saying(silence, greeting+upload))
	b.turn()
	b.loop.Post(b.acceptor.Worker.Drain)
	b.turn()
	for range 2 {
		b.now += int64(600 * time.Millisecond)
		b.turn()
	}
	dataOfNoStream := string(http2.AppendDataHeader(nil, 0, 0, false))
	b.says(client, framedAsk(3)+dataOfNoStream)
	var promised []uint32
	for _, f := range framesTo(t, client) {
		if f.Type == http2.GoAway {
			promised = append(promised, f.LastStream())
		}
	}
	if want := []uint32{1<<31 - 1, 1, 1}; !slices.Equal(promised, want) {
		t.Errorf("the last streams of the GOAWAYs are %v, want %v", promised, want)
	}
}
