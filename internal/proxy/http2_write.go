package proxy

import (
	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// Content of more than batchBytes is not copied into the frames that a connection gathers: it is
// written, and so encrypted, from where it is, with what was gathered in front of it. The socket
// gathers what is written in a batch (reactor.Conn.Cork).

// outSize is how many bytes of frames are gathered.
const outSize = 16 << 10

// recordSize is how many bytes are written at once: a full TLS record. More would have to be put
// together from two records, by a copy. So the rest of a response of 16 KB is sent with what other
// streams send. recordSize is also the size of the largest frame that every peer accepts.
const recordSize = 16 << 10

// room returns what was gathered, with a capacity of at least n bytes more. The caller appends
// frames and passes the longer slice to wrote.
func (l *http2Link) room(n int) []byte {
	loop := l.w.loop
	if l.out != nil && len(l.out.Room()) < n {
		l.flush()
	}
	if l.out == nil {
		l.out = loop.GetBuffer(max(n, outSize))
	}
	if !l.flushing {
		l.flushing = true
		loop.AfterBatch(l)
	}
	return l.out.Data()
}

func (l *http2Link) wrote(dst []byte) { l.out.End = len(dst) }

// Run implements reactor.Runner. It sends the frames of the turn.
func (l *http2Link) Run() {
	l.flushing = false
	l.flush()
	l.side.push()
}

// flush writes what was gathered.
func (l *http2Link) flush() {
	if out := l.out; out != nil {
		l.out = nil
		l.side.write(out.Data())
		l.w.loop.PutBuffer(out)
	}
}

// gather adds whole frames to those of this turn.
func (l *http2Link) gather(frames []byte) {
	if len(frames) > outSize {
		l.flush()
		l.side.write(frames)
		return
	}
	l.wrote(append(l.room(len(frames)), frames...))
}

// writeBehind writes what was gathered, and the content buf[from:to] behind it, in one call. If the
// content is in scratch memory, what was gathered is copied in front of it; otherwise the content
// is copied. With two calls every record would be two packets, one of them with little more than
// the header of a frame.
func (l *http2Link) writeBehind(buf []byte, from, to int, scratch bool) {
	out := l.out
	if !scratch || len(out.Data()) > from {
		l.gather(buf[from:to])
		l.flush()
		return
	}
	l.out = nil
	from -= copy(buf[from-len(out.Data()):], out.Data())
	l.w.loop.PutBuffer(out)
	l.side.write(buf[from:to])
}

var frameRoom [http2.HeaderSize]byte

// sendBlock sends the field block in out, which begins with room for the header of its frame, and
// returns the length of the frame.
func (l *http2Link) sendBlock(id uint32, out []byte, ends bool) int {
	out = http2.FinishHeaders(out, 0, id, ends, l.peer.MaxFrameSize)
	l.budget.Sent()
	l.gather(out)
	return len(out)
}

// Indexes of hpack's static table.
var (
	indexContentLength = hpack.StaticIndex([]byte("content-length"))
	indexDate          = hpack.StaticIndex([]byte("date"))
)

var viaName = []byte("via")

// appendFields appends the fields of a message that HTTP/2 may carry, except those whose ID is in
// drop. status is 0 for a request.
func (l *http2Link) appendFields(out []byte, fields *head.List, status int, drop uint64) []byte {
	for i := range fields.Len() {
		field := fields.At(i)
		if drop>>field.ID&1 == 0 && http2.MaySend(field, status) {
			out = l.encoder.AppendField(out, field.Name, field.Value, hpack.Once)
		}
	}
	return out
}

// trailerFrame returns the frame of a trailer section, in a buffer of its size. The frame may wait
// behind content while other blocks are sent, so it must not depend on the order of blocks: every
// field is written out, and a change of the table's size is left to the next block.
func (l *http2Link) trailerFrame(id uint32, fields *head.List) *reactor.Buffer {
	out := l.appendFields(append(l.w.out[:0], frameRoom[:]...), fields, 0, 0)
	out = http2.FinishHeaders(out, 0, id, true, l.peer.MaxFrameSize)
	frame := l.w.loop.GetBuffer(len(out))
	frame.End = copy(frame.Bytes, out)
	return frame
}
