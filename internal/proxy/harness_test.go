package proxy_test

import (
	"testing"

	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
)

const ask = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// asked is a client, and the target's end of the connection that its request went to.
type asked struct{ client, target *sock }

// closed counts the sockets that were closed.
func closed(all []*sock) (n int) {
	for _, s := range all {
		if s.closed {
			n++
		}
	}
	return n
}

// ended says whether the client got a GOAWAY.
func ended(t *testing.T, client *sock) bool { return has(framesTo(t, client), http2.GoAway, 0) }

// framed makes the bed's listener offer HTTP/2.
func framed(b *bed) *bed {
	b.acceptor.Listener.OffersHTTP2 = true
	b.acceptor.Listener.HTTP2 = http2.Limits{Path: 8 << 10, Fields: 100, Head: 36 << 10}
	return b
}

// greeting is what a client says first.
var greeting = http2.Preface + string(http2.AppendSettings(nil))

// askBlock is the field block of a request, with fields of its own: names and values in turn.
func askBlock(method string, fields ...string) []byte {
	var e hpack.Encoder
	e.Init(hpack.Initial, false)
	all := append([]string{":method", method, ":scheme", "http", ":authority", "a", ":path", "/"}, fields...)
	block := e.Begin(nil)
	for i := 0; i < len(all); i += 2 {
		block = e.AppendField(block, []byte(all[i]), []byte(all[i+1]), hpack.Once)
	}
	return block
}

// framedAsk is a request without a body.
func framedAsk(stream uint32, fields ...string) string {
	return string(http2.AppendHeaders(nil, stream, askBlock("GET", fields...), true, 1<<14))
}

// framesTo are the frames that a client got.
func framesTo(t *testing.T, client *sock) (list []http2.Frame) {
	t.Helper()
	var r http2.Reader
	r.Reset(false, 1<<14)
	for in := client.out; len(in) > 0; {
		f, n, err := r.Next(in)
		if err.Failed() || n == 0 {
			t.Fatalf("the client got what is not a frame: %v, %q", err, in)
		}
		list = append(list, f)
		in = in[n:]
	}
	return list
}

// has says whether a frame of the type came for the stream.
func has(list []http2.Frame, kind http2.Type, stream uint32) bool {
	for _, f := range list {
		if f.Type == kind && f.Stream == stream {
			return true
		}
	}
	return false
}
