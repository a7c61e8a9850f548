package proxy_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// framedTarget is a bed whose target speaks HTTP/2 with prior knowledge. Bodies of up to hold bytes
// are received first.
func framedTarget(b *bed, hold int64) *bed {
	s := b.snapshot(b.upstream)
	s.Upstreams[0].Protocol = upstream.HTTP2
	s.Routes[0].HoldBody = hold
	b.loop.Post(func() { b.acceptor.Worker.Install(s) })
	b.turn()
	return b
}

// framedAnswer is the head of a response with a body of so many bytes, on a target's first stream.
func framedAnswer(length int) string {
	var e hpack.Encoder
	e.Init(hpack.Initial, false)
	block := e.AppendField(e.AppendStatus(e.Begin(nil), 200), []byte("content-length"),
		strconv.AppendInt(nil, int64(length), 10), hpack.Once)
	return string(http2.AppendHeaders(nil, 1, block, false, 1<<14))
}

// inReads cuts text into what so many bytes a read bring.
func inReads(text string, n int) (reads []string) {
	for len(text) > n {
		reads, text = append(reads, text[:n]), text[n:]
	}
	return append(reads, text)
}

// A target chooses how its content is framed, and the kernel, or TLS, how it is read. The client's
// socket is written to once for what a read brought, as far as that is less than a record.
func TestHazardFramesOfATargetAreNotAWriteEach(t *testing.T) {
	const length = 48_000
	for _, c := range []struct{ frame, read, most int }{
		{frame: 1 << 14, read: 1 << 14, most: 4},
		{frame: 1 << 14, read: 10_000, most: 6},
		{frame: 1 << 14, read: 1 << 16, most: 4},
		{frame: 5000, read: 1 << 14, most: 4},
		{frame: 4096, read: 1 << 16, most: 7},
		{frame: 100, read: 1 << 14, most: 5},
		{frame: 100, read: 1 << 16, most: 7},
	} {
		t.Run(fmt.Sprint(c.frame, " in reads of ", c.read), func(t *testing.T) {
			body := bytes.Repeat([]byte("0123456789abcdef"), length/16)
			text := string(http2.AppendSettings(nil)) + framedAnswer(length)
			for rest := body; len(rest) > 0; {
				n := min(len(rest), c.frame)
				text += string(http2.AppendDataHeader(nil, 1, n, n == len(rest))) + string(rest[:n])
				rest = rest[n:]
			}
			b := framedTarget(newBed(t, nil), 0)
			client := b.client(saying(silence, get))
			target := b.asked()
			reads := inReads(text, c.read)
			target.in = saying(silence, reads...)
			for range reads {
				b.tell(target)
				b.turn()
			}
			_, got, _ := strings.Cut(string(client.out), "\r\n\r\n")
			if got != string(body) {
				t.Fatalf("the client got %d bytes of a body of %d, or other ones", len(got), length)
			}
			if client.sends > c.most {
				t.Errorf("%d writes to the client, want at most %d", client.sends, c.most)
			}
		})
	}
}

// What is sent in one turn goes out together, from whatever memory it comes.
func TestFramesOfAHeldBodyGoOutTogether(t *testing.T) {
	const length = 60_000
	b := framedTarget(newBed(t, nil), length)
	head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", length)
	client := b.client(saying(silence, inReads(head+strings.Repeat("x", length), 1<<14)...))
	for range 4 {
		b.tell(client)
		b.turn()
	}
	target := b.asked()
	target.in = saying(silence, string(http2.AppendSettings(nil)))
	before := target.sends
	b.tell(target)
	b.turn()
	if n := target.sends - before; n < 1 || n > 2 {
		t.Errorf("%d writes for a body of %d bytes, want one for 64 KB", n, length)
	}
}

// However many requests wait for a connection that has just begun, a target that takes nothing has
// a bounded part of them queued. The others go elsewhere.
func TestRequestsThatWaitForSettingsAreNotQueuedBeyondTheBound(t *testing.T) {
	b := framedTarget(newBed(t, nil), 0)
	request := "GET / HTTP/1.1\r\nHost: a\r\nX-Large: " + strings.Repeat("x", 15_000) + "\r\n\r\n"
	for range 90 {
		b.client(saying(silence, request))
	}
	target := b.asked()
	target.stuck = true
	target.in = saying(silence, string(http2.AppendSettings(nil)))
	before := b.memory()
	b.tell(target)
	b.turn()
	most := reactor.HighWater + 3*reactor.ScratchSize
	if n := b.memory() - before; n < reactor.HighWater || n > most {
		t.Errorf("%d bytes are queued, want about %d", n, reactor.HighWater)
	}
	if len(b.dialed) < 2 {
		t.Error("no other connection was dialed for the rest")
	}
}
