//go:build !race

package gateway

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// fixedH2Service answers every request with the same frames, with trailers or nil, and allocates nothing.
func fixedH2Service(t *testing.T, kind, body string, trailers []byte) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	var block, answer bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.WriteField(hpack.HeaderField{Name: ":status", Value: "200", Sensitive: true})
	e.WriteField(hpack.HeaderField{Name: "content-length", Value: fmt.Sprint(len(body)), Sensitive: true})
	e.WriteField(hpack.HeaderField{Name: "content-type", Value: kind, Sensitive: true})
	f := http2.NewFramer(&answer, nil)
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	places := []int{5, answer.Len() + 5}
	f.WriteData(1, trailers == nil, []byte(body))
	if trailers != nil {
		places = append(places, answer.Len()+5)
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: trailers, EndStream: true, EndHeaders: true})
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go answerAlways(c, answer.Bytes(), places...)
		}
	}()
	return ln.Addr().String()
}

// answerAlways answers what comes on a connection of HTTP/2 with an answer, in which a stream's
// identifier stands at some places.
func answerAlways(c net.Conn, answer []byte, places ...int) {
	defer c.Close()
	answer = bytes.Clone(answer)
	buf := make([]byte, 64<<10)
	n, first := 0, true
	const greeting = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x00\x04\x01\x00\x00\x00\x00" +
		"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\x00\x00\x00"
	if _, err := io.WriteString(c, greeting); err != nil {
		return
	}
	for {
		m, err := c.Read(buf[n:])
		if err != nil {
			return
		}
		n += m
		at := 0
		if first && n >= len(http2.ClientPreface) {
			at, first = len(http2.ClientPreface), false
		}
		for at+9 <= n {
			length := int(buf[at])<<16 | int(buf[at+1])<<8 | int(buf[at+2])
			if at+9+length > n {
				break
			}
			if kind, flags := buf[at+3], buf[at+4]; kind <= 1 && flags&1 != 0 {
				for _, place := range places {
					copy(answer[place:], buf[at+5:at+9])
				}
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
			at += 9 + length
		}
		n = copy(buf, buf[at:n])
	}
}

func TestAllocNothingPerRequestToAServiceOfHTTP2(t *testing.T) {
	get := []string{":method", "GET", ":scheme", "http", ":authority", "x", ":path", "/a", "user-agent", "u"}
	post := append([]string{":method", "POST"}, get[2:]...)
	for _, c := range []struct {
		name, sent, response string
		fields               []string
	}{
		{"trailers both ways", "abc", "ok", append(post, "te", "trailers")},
		{"nothing up", "", "ok", get},
		{"a body up", "abc", "ok", append(post, "content-length", "3")},
		{"a body of unknown length up", "abc", "ok", post},
		{"16 KB down", "", strings.Repeat("x", 16<<10), get},
	} {
		t.Run(c.name, func(t *testing.T) {
			var trailers []byte
			if strings.HasPrefix(c.name, "trailers") {
				trailers = someTrailers
			}
			address := fixedH2Service(t, "text/plain", c.response, trailers)
			g := serve(t, withH2(strings.Replace(oneUpstream(address), "{targets", "{protocol: h2c, targets", 1)))
			p := newPreparedWith(t, g, c.sent, trailers, c.fields...)
			open := func() { // the window of the connection, for all that comes
				frame := binary.BigEndian.AppendUint32([]byte{0, 0, 4, 8, 0, 0, 0, 0, 0}, 1<<24)
				p.send(string(frame))
			}
			for range 4 {
				open()
			}
			expectNoAllocations(t, 300, 600, func() { p.exchange(t) })
			if opened := g.stats("s").Opened; opened != 1 {
				t.Errorf("%d connections for one request at a time", opened)
			}
		})
	}
}
