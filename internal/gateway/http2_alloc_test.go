//go:build !race

package gateway

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	codec "plimsoll/internal/http2"
)

// prepared is a client of HTTP/2 that allocates nothing: its requests are made beforehand, with all
// fields in the table, and what comes is read into one buffer.
type prepared struct {
	*peer
	request []byte // its frames
	streams []int  // where in them a stream's identifier stands
	next    uint32
	buf     []byte
}

// newPrepared sends a first request, which fills the table.
func newPrepared(t *testing.T, g *instance, body string, fields ...string) *prepared {
	t.Helper()
	return newPreparedWith(t, g, body, nil, fields...)
}

// newPreparedWith is newPrepared for a request with trailers.
func newPreparedWith(t *testing.T, g *instance, body string, trailers []byte, fields ...string) *prepared {
	t.Helper()
	p := &prepared{peer: g.dial(), next: 1, buf: make([]byte, 64<<10)}
	p.send(codec.Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	var block, frames bytes.Buffer
	encoder, framer := hpack.NewEncoder(&block), http2.NewFramer(&frames, nil)
	for range 2 {
		block.Reset()
		frames.Reset()
		for i := 0; i < len(fields); i += 2 {
			encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: block.Bytes(), EndStream: body == "", EndHeaders: true,
		})
		p.streams = []int{5}
		if body != "" {
			p.streams = append(p.streams, frames.Len()+5)
			framer.WriteData(1, trailers == nil, []byte(body))
		}
		if trailers != nil {
			p.streams = append(p.streams, frames.Len()+5)
			framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 1, BlockFragment: trailers, EndStream: true, EndHeaders: true,
			})
		}
		p.request = bytes.Clone(frames.Bytes())
		p.exchange(t)
	}
	return p
}

// exchange sends the request once more, and reads until its stream is over.
func (p *prepared) exchange(t *testing.T) {
	id := p.next
	p.next += 2
	for _, at := range p.streams {
		binary.BigEndian.PutUint32(p.request[at:], id)
	}
	if _, err := p.Write(p.request); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; {
		m, err := p.Read(p.buf[n:])
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		n += m
		at := 0
		for at+9 <= n {
			length := int(p.buf[at])<<16 | int(p.buf[at+1])<<8 | int(p.buf[at+2])
			if at+9+length > n {
				break
			}
			kind, flags := p.buf[at+3], p.buf[at+4]
			if binary.BigEndian.Uint32(p.buf[at+5:]) == id && kind <= 1 && flags&1 != 0 {
				return // with everything else that came: nothing follows it
			}
			if kind == byte(http2.FrameRSTStream) || kind == byte(http2.FrameGoAway) || err != nil {
				t.Fatalf("got %q and %v", p.buf[at:n], err)
			}
			at += 9 + length
		}
		n = copy(p.buf, p.buf[at:n])
	}
}

// someTrailers is a field block that needs no table.
var someTrailers = []byte("\x00\x0bgrpc-status\x010\x00\x0cgrpc-message\x04fine")

func TestAllocNothingPerRequestOfHTTP2(t *testing.T) {
	const everything = `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["ADDRESS"]}}
routes: [{match: /, upstream: s, sla: P2, fallback: {body: later}, request_id: true, trace: true, max_body: 1MB, access: {deny: [10.0.0.0/8]},
  request_headers: {set: {X-Client: "${client_address}"}}, response_headers: {set: {X-Route: "${route}"}}}]
access_log: {path: access.log}
`
	plain := []string{":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/a"}
	browser := append(strings.Split(":method|GET|:scheme|http|:authority|shop.example|:path|/catalogue?page=3|user-agent|"+
		"Mozilla/5.0 (X11; Linux x86_64) "+
		"Chrome/131.0|accept|text/html,application/xhtml+xml;q=0.9,*/*;q=0.8|accept-language|"+
		"en-GB,en;q=0.7|accept-encoding|gzip, "+
		"br|referer|http://localhost/|sec-fetch-mode|navigate|cache-control|no-cache", "|"),
		"cookie", "session=8d2f0c5e9b7a4f3d", "cookie", "theme=dark")
	post := append([]string{":method", "POST"}, plain[2:]...)
	const chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
	for _, c := range []struct {
		name, config, body string
		fields             []string
		response           string
	}{
		{"trailers up", oneUpstream("ADDRESS"), "abc", append(post, "te", "trailers"), okResponse},
		{"trailers down", oneUpstream("ADDRESS"), "", append(plain, "te", "trailers"),
			strings.Replace(chunks, "0\r\n\r\n", "0\r\nX-Status: 0\r\n\r\n", 1)},
		{"plain", oneUpstream("ADDRESS"), "", plain, okResponse},
		{"a browser's headers", oneUpstream("ADDRESS"), "", browser, okResponse},
		{"a body up", oneUpstream("ADDRESS"), "abc", append(post, "content-length", "3"), okResponse},
		{"a body of unknown length up", oneUpstream("ADDRESS"), "abc", post, okResponse},
		{"chunks down", oneUpstream("ADDRESS"), "", plain, chunks},
		{"nothing down", oneUpstream("ADDRESS"), "", plain, "HTTP/1.1 204 No Content\r\n\r\n"},
		{"policies and an access log", everything, "", browser, okResponse},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := fixedService(t, []byte(c.response))
			g := serve(t, withH2(strings.ReplaceAll(c.config, "ADDRESS", address)))
			var trailers []byte
			if strings.HasPrefix(c.name, "trailers up") {
				trailers = someTrailers
			}
			p := newPreparedWith(t, g, c.body, trailers, c.fields...)
			expectNoAllocations(t, 300, 600, func() { p.exchange(t) })
		})
	}
}
