package gateway

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	codec "plimsoll/internal/http2"
)

// silentService speaks HTTP/2, or 1.1, and answers nothing until it is let, or over HTTP/2 nothing but an
// event. It keeps next to nothing of what it is asked.
type silentService struct {
	event string // what a response begins with at once; "" for nothing
	asked atomic.Int64
	let   chan struct{}
	ln    net.Listener
}

func newSilentService(t *testing.T) *silentService {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silentService{let: make(chan struct{}), ln: ln}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *silentService) serve(conn net.Conn) {
	defer conn.Close()
	preface := make([]byte, len(codec.Preface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	if string(preface) != codec.Preface { // HTTP/1.1: one request
		s.asked.Add(1)
		<-s.let
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		return
	}
	conn.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00"))
	var last atomic.Uint32
	var once sync.Once
	var header [9]byte
	for {
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		length := int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2])
		switch http2.FrameType(header[3]) {
		case http2.FramePing:
			header[4] |= byte(http2.FlagPingAck)
			answer := append(header[:], make([]byte, length)...)
			if _, err := io.ReadFull(conn, answer[9:]); err != nil {
				return
			}
			conn.Write(answer)
			continue
		case http2.FrameHeaders:
			io.CopyN(io.Discard, conn, length)
		default:
			io.CopyN(io.Discard, conn, length)
			continue
		}
		last.Store(binary.BigEndian.Uint32(header[5:]))
		if s.event != "" {
			begins := append([]byte("\x00\x00\x01\x01\x04"), header[5:]...)
			begins = append(append(begins, "\x88\x00\x00"...), byte(len(s.event)), 0, 0)
			conn.Write(append(append(begins, header[5:]...), s.event...))
		}
		s.asked.Add(1)
		once.Do(func() {
			go func() {
				<-s.let
				answer := []byte("\x00\x00\x01\x01\x05\x00\x00\x00\x00\x88")
				if s.event != "" {
					answer = []byte("\x00\x00\x00\x00\x01\x00\x00\x00\x00")
				}
				for id := uint32(1); id <= last.Load(); id += 2 {
					binary.BigEndian.PutUint32(answer[5:], id)
					conn.Write(answer)
				}
			}()
		})
	}
}

// answersOf reads on each connection until n streams have ended, each with the status 200, and answers
// PINGs meanwhile.
func answersOf(peers []*peer, n int) (results chan error) {
	results = make(chan error, len(peers))
	for _, p := range peers {
		go func() { results <- p.answers(n) }()
	}
	return results
}

func (p *peer) answers(n int) error {
	framer := http2.NewFramer(p, p)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for n > 0 {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.PseudoValue("status") != "200" {
				return fmt.Errorf("stream %d got %v", f.StreamID, f.Fields)
			}
			if f.StreamEnded() {
				n--
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				n--
			}
		case *http2.PingFrame:
			framer.WritePing(true, f.Data)
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return fmt.Errorf("got %v", f)
		}
	}
	return nil
}
