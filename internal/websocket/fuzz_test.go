package websocket_test

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"plimsoll/internal/websocket"
)

// seen is what a decoder made of the bytes of one direction.
type seen struct {
	messages []int // their lengths
	controls int   // close frames among them
	code     int   // of the close frame, 0 for none
	wrong    bool  // it is not RFC 6455
}

// tape is a connection that reads what was recorded, and throws away what is written. As a client's
// it answers the handshake first.
type tape struct {
	net.Conn
	asked []byte
	in    io.Reader
	data  []byte
}

func (c *tape) Write(p []byte) (int, error) {
	if c.in != nil {
		return len(p), nil
	}
	if c.asked = append(c.asked, p...); !bytes.HasSuffix(c.asked, []byte("\r\n\r\n")) {
		return len(p), nil
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(c.asked)))
	if err != nil {
		return 0, err
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c.in = io.MultiReader(strings.NewReader("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"+
		"Connection: Upgrade\r\nSec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n"),
		bytes.NewReader(c.data))
	return len(p), nil
}

func (c *tape) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *tape) Close() error                     { return nil }
func (c *tape) SetDeadline(time.Time) error      { return nil }
func (c *tape) SetReadDeadline(time.Time) error  { return nil }
func (c *tape) SetWriteDeadline(time.Time) error { return nil }

// hijacked is a server's end of a tape.
type hijacked struct {
	http.ResponseWriter
	c *tape
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.c, bufio.NewReadWriter(bufio.NewReader(strings.NewReader("")), bufio.NewWriter(io.Discard)), nil
}

// oracle has another implementation decode the bytes.
func oracle(t *testing.T, data []byte, fromClient bool) (s seen) {
	t.Helper()
	conn, err := (*gorilla.Conn)(nil), error(nil)
	if fromClient {
		ask := &http.Request{Method: "GET", Header: http.Header{
			"Connection": {"upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
			"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}}
		conn, err = (&gorilla.Upgrader{}).Upgrade(hijacked{c: &tape{in: bytes.NewReader(data)}}, ask, nil)
	} else {
		d := gorilla.Dialer{NetDial: func(string, string) (net.Conn, error) { return &tape{data: data}, nil }}
		conn, _, err = d.Dial("ws://a/", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	count := func(string) error { s.controls++; return nil }
	conn.SetPingHandler(count)
	conn.SetPongHandler(count)
	conn.SetCloseHandler(func(code int, _ string) error { s.controls++; s.code = code; return nil })
	for {
		_, p, err := conn.ReadMessage()
		if err == nil {
			s.messages = append(s.messages, len(p))
			continue
		}
		var end *gorilla.CloseError
		switch {
		case errors.As(err, &end) && (s.code != 0 || end.Code == gorilla.CloseAbnormalClosure):
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		default:
			s.wrong = true
		}
		return s
	}
}

// watched is what the watcher makes of them, in pieces of sizes.
func watched(data []byte, fromClient bool, sizes []byte) (s seen) {
	var w websocket.Watcher
	w.Start(fromClient, false)
	for i := 0; len(data) > 0; i++ {
		piece := data
		if len(sizes) > 0 {
			piece = data[:min(len(data), 1+int(sizes[i%len(sizes)]))]
		}
		data = data[len(piece):]
		for len(piece) > 0 {
			before := w.Messages
			n := w.Next(piece)
			if n <= 0 || n > len(piece) {
				panic("Next took more than there is, or nothing")
			}
			piece = piece[n:]
			if w.Messages > before {
				s.messages = append(s.messages, int(w.Message()))
			}
		}
	}
	s.controls, s.code, s.wrong = int(w.Controls), int(w.Code()), w.Broken()
	return s
}

// compose makes frames as a script tells it, most of them right. odd says that there is one that
// only the watcher refuses: a longer length than needed, a close frame that makes no sense.
func compose(script []byte, fromClient bool) (data []byte, odd bool) {
	within := false
	for len(script) >= 3 {
		what, size, fill := script[0], int(script[1]), script[2]
		script = script[3:]
		first, second := byte(0x82), byte(0)
		switch what % 16 {
		case 0, 1, 2, 3:
			if first = 0x80; !within {
				first = 0x82
			}
			within = false
		case 4, 5, 6:
			if first = 0x00; !within {
				first = 0x01
			}
			within = true
		case 7, 8:
			first, size = 0x89, size%126
		case 9:
			first, size = 0x8a, size%126
		case 10:
			first, size, odd = 0x88, size%126, true
		case 11:
			first, size = 0x88, 2
		case 12:
			size *= 700
		case 13:
			first = fill
			odd = odd || fill&0x0f == 8
		}
		if fromClient != (what >= 0xf8) {
			second = 0x80
		}
		switch {
		case what%16 == 14 && size < 126 && first&0x0f < 8:
			data, odd = append(data, first, second|126, 0, byte(size)), true
		case size < 126:
			data = append(data, first, second|byte(size))
		case size < 1<<16:
			data = append(data, first, second|126, byte(size>>8), byte(size))
		default:
			data = append(data, first, second|127, 0, 0, 0, 0, 0, byte(size>>16), byte(size>>8), byte(size))
		}
		if second != 0 {
			data = append(data, 0, 0, 0, 0)
		}
		payload := bytes.Repeat([]byte{fill}, size)
		if first == 0x88 && size == 2 {
			payload = []byte{3, 0xe8 + fill%4} // 1000 to 1003
		}
		data = append(data, payload...)
	}
	if len(script) > 0 { // the end is missing
		data = data[:max(0, len(data)-int(script[0]))]
	}
	return data, odd
}

// FuzzWatcher compares the watcher with another implementation of the protocol.
func FuzzWatcher(f *testing.F) {
	f.Add([]byte{0, 5, 1, 4, 9, 2, 7, 3, 3, 0, 0, 4, 12, 200, 5, 9, 8, 0, 11, 0, 1}, true, []byte{0})
	f.Add([]byte{4, 126, 0, 4, 0, 0, 0, 255, 0, 13, 3, 0x83}, false, []byte{3, 1, 200})
	f.Add([]byte{14, 9, 0, 0, 9, 0}, true, []byte{})
	f.Add([]byte{0xf8, 9, 0}, true, []byte{1})
	f.Fuzz(func(t *testing.T, script []byte, fromClient bool, sizes []byte) {
		if len(script) > 300 {
			return
		}
		data, odd := compose(script, fromClient)
		got := watched(data, fromClient, sizes)
		if whole := watched(data, fromClient, nil); !same(got, whole) {
			t.Fatalf("%x in pieces is %+v, and whole %+v", data, got, whole)
		}
		if want := oracle(t, data, fromClient); !odd && !same(got, want) {
			t.Fatalf("%x is %+v, want %+v", data, got, want)
		}
		watched(script, fromClient, sizes) // whatever bytes: it takes them all
	})
}

func same(a, b seen) bool {
	return slices.Equal(a.messages, b.messages) && a.controls == b.controls && a.code == b.code && a.wrong == b.wrong
}
