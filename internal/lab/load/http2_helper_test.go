package load_test

import (
	"bytes"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"plimsoll/internal/lab/load"
)

// over2 makes a run speak HTTP/2 over one connection.
func over2(o load.Options, streams int) load.Options {
	o.Connections, o.Streams = 1, streams
	return o
}

// serve2 is net/http's server, which speaks HTTP/2 without TLS. most is how many streams it allows;
// 0 leaves that to it.
func serve2(t testing.TB, most int, handler http.HandlerFunc) string {
	t.Helper()
	s := unstarted2(most, handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL + "/"
}

// secure2 is net/http's server, which speaks HTTP/2 with TLS, and a file with its authority.
func secure2(t testing.TB, handler http.HandlerFunc) (url, ca string) {
	t.Helper()
	s := unstarted2(0, handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL + "/", ca
}

func unstarted2(most int, handler http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: most}
	return s
}

// peer is the server's side of an HTTP/2 connection; the test sends each frame.
type peer struct {
	*http2.Framer
	c net.Conn
	// seen is the frames that next has read.
	seen []http2.FrameHeader
}

// script is a server that calls part on each connection, with its number from 1, and then closes
// it. By the time of the call it has read the preface and sent settings.
func script(t testing.TB, settings []http2.Setting, part func(n int64, p *peer)) *server {
	t.Helper()
	return accept(t, func(n int64, c net.Conn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		if string(preface) != http2.ClientPreface {
			t.Errorf("the connection begins with %q", preface)
			return
		}
		p := &peer{Framer: http2.NewFramer(c, c), c: c}
		p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		p.WriteSettings(settings...)
		part(n, p)
	})
}

// next returns the next frame other than SETTINGS and WINDOW_UPDATE; nil at the end.
func (p *peer) next() http2.Frame {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return nil
		}
		p.seen = append(p.seen, f.Header())
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				p.WriteSettingsAck()
			}
		case *http2.WindowUpdateFrame:
		default:
			return f
		}
	}
}

// head returns the head of the next request; nil at the end. It skips other frames.
func (p *peer) head() *http2.MetaHeadersFrame {
	for f := p.next(); f != nil; f = p.next() {
		if head, ok := f.(*http2.MetaHeadersFrame); ok {
			return head
		}
	}
	return nil
}

// await passes over frames until one of a type; false at the end.
func (p *peer) await(of http2.FrameType) bool {
	for f := p.next(); f != nil; f = p.next() {
		if f.Header().Type == of {
			return true
		}
	}
	return false
}

// drain reads until the connection ends.
func (p *peer) drain() {
	for p.next() != nil {
	}
}

// block encodes fields, name and value in turn.
func block(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

// headers sends a head.
func (p *peer) headers(id uint32, end bool, fields ...string) {
	p.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: block(fields...), EndHeaders: true, EndStream: end,
	})
}

// ok answers a request.
func (p *peer) ok(id uint32) {
	p.headers(id, false, ":status", "200", "content-length", "2")
	p.WriteData(id, true, []byte("ok"))
}

// serveAll answers every request.
func (p *peer) serveAll() {
	for head := p.head(); head != nil; head = p.head() {
		p.ok(head.StreamID)
	}
}
