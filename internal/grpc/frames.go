package grpc

import "encoding/binary"

// HeadSize is how many bytes stand in front of a message: a byte of flags and four of its length,
// the highest first ("Length-Prefixed-Message" in PROTOCOL-HTTP2).
const HeadSize = 5

// The flags. All others are reserved.
const (
	compressed = 1 << 0 // the message is compressed, as grpc-encoding says
	trailers   = 1 << 7 // gRPC-Web: the frame is not a message but the trailers
)

// Watcher counts the messages of one direction of a call as their bytes go by, in portions of any
// size. It keeps nothing of them. The zero value is at the stream's beginning.
type Watcher struct {
	Messages   int64  // that began, and whose head was complete
	Compressed int64  // of them, those whose flag says so
	Largest    uint32 // content of the largest, in bytes

	left      uint32 // of the present message's content
	head      [HeadSize]byte
	got       uint8 // bytes of the next head
	trailing  bool
	malformed bool
}

// Pass is shown the next bytes. After malformed framing it counts no more.
func (w *Watcher) Pass(p []byte) {
	for len(p) > 0 && !w.malformed {
		if w.left > 0 {
			n := min(uint64(w.left), uint64(len(p)))
			w.left -= uint32(n)
			p = p[n:]
			continue
		}
		n := copy(w.head[w.got:], p)
		w.got += uint8(n)
		p = p[n:]
		if w.got == HeadSize {
			w.got = 0
			w.begin(w.head[0], binary.BigEndian.Uint32(w.head[1:]))
		}
	}
}

// begin is called with the head of a frame.
func (w *Watcher) begin(flags byte, length uint32) {
	switch {
	case flags&^(compressed|trailers) != 0, w.trailing:
		w.malformed = true
		return
	case flags&trailers != 0:
		w.trailing = true
	default:
		w.Messages++
		w.Largest = max(w.Largest, length)
		w.Compressed += int64(flags & compressed)
	}
	w.left = length
}

// Between says that the bytes so far end where a message does, or that none has begun.
func (w *Watcher) Between() bool { return w.left == 0 && w.got == 0 && !w.malformed }

// Malformed says that the bytes cannot be gRPC: a reserved flag, or a frame behind the trailers.
func (w *Watcher) Malformed() bool { return w.malformed }

// Trailing says that the trailers of gRPC-Web have begun.
func (w *Watcher) Trailing() bool { return w.trailing }
