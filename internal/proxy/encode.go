package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
)

const (
	// encodePiece is how much content is read at a time for an encoder, and given to it: a loop has
	// other clients.
	encodePiece = 16 << 10
	// encodeKept bounds what an encoder may keep back. What comes out at once is to fit a loop's
	// largest buffer, also where it does not become smaller: what was kept, and one piece, or the
	// 60 KB that may come with a head.
	encodeKept = 32 << 10
	// encodeBurst is what burst is else. A piece takes 100 µs to a millisecond, ten times what passing
	// on 60 KB does.
	encodeBurst = 4
)

// startEncoding makes the framing of an upstream's response that of its encoded content, whose length
// is not known.
func (f *flow) startEncoding() {
	if f.bodiless() || f.res.Framing == http1.None {
		f.CloseEncoder()
		return
	}
	f.res.Framing, f.res.Length = http1.Chunked, head.Unknown
}

// sendEncoded is send for content that is encoded. The encoder is flushed when nothing more has come,
// so that no client waits for what its service has said.
func (f *flow) sendEncoded(data []byte, parts parts) bool {
	ends := parts & withEnd
	parts &^= withEnd
	for {
		piece := data[:min(len(data), encodePiece)]
		data = data[len(piece):]
		until := exchange.More
		switch {
		case len(data) > 0:
		case ends != 0:
			until = exchange.Last
			parts |= withEnd
		case f.up != nil && !f.up.pending() && f.unflushed+len(piece) > 0:
			until = exchange.Flush // a head alone goes without the beginning of an encoding
		}
		if !f.sendPiece(piece, until, parts) {
			return false
		}
		if len(data) == 0 {
			return true
		}
		parts &^= withHead
	}
}

// sendPiece encodes and sends a piece, which may leave nothing to be sent.
func (f *flow) sendPiece(piece []byte, until exchange.Until, parts parts) bool {
	w := f.w
	if w.encoded == nil {
		w.encoded = make([]byte, scratchRoom, scratchRoom+encodeKept)
	}
	if f.unflushed += len(piece); until == exchange.More && f.unflushed >= encodeKept {
		until = exchange.Flush
	}
	if until != exchange.More {
		f.unflushed = 0
	}
	out, err := f.Encoder.Encode(w.encoded[:scratchRoom], piece, until)
	if err != nil {
		f.failEncoding(parts)
		return false
	}
	if cap(out) > cap(w.encoded) && cap(out) <= 2*reactor.ScratchSize {
		w.encoded = out[:scratchRoom]
	}
	return len(out) == scratchRoom && parts == 0 || f.sendParts(out, scratchRoom, len(out), parts|scratch)
}

// failEncoding ends an exchange whose content cannot be encoded any more.
func (f *flow) failEncoding(parts parts) {
	if parts&withHead != 0 { // nothing has gone out
		f.stage = stagePolicies
		f.fail(500, exchange.EncodeFailed)
		return
	}
	f.cut(exchange.EncodeFailed)
}

// flushEncoder sends what the encoder has kept of content that was given to it.
func (f *flow) flushEncoder() bool {
	return f.Encoder == nil || f.unflushed == 0 || f.sendPiece(nil, exchange.Flush, 0)
}

// flushIdle does that where the upstream has nothing more now. Its last read may have brought nothing
// but framing, or no byte: then the encoder was promised more than came. A client that is behind gets
// it when it has caught up, and the upstream is read again.
func (f *flow) flushIdle() {
	if f.Encoder != nil && f.unflushed > 0 && f.stage == stageStreaming && f.readsOn() && !f.up.pending() {
		f.flushEncoder()
	}
}

// burst is how many reads the exchange's connections may do, or how many pieces of an answer it may be
// sent, until the others are served.
func (f *flow) burst() int {
	if f.Encoder != nil {
		return encodeBurst
	}
	return burst
}

// staleTrailers say something of content that has been encoded since: digests, and the tag of what it
// was (RFC 9530, section 2; RFC 9110, section 8.8.3).
var staleTrailers = exchange.Names{[]byte("Content-MD5"), []byte("Digest"), []byte("Content-Digest"),
	[]byte("Repr-Digest"), []byte("ETag")}
