package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
)

const (
	// encodePiece is how many bytes of content are read for an encoder, and given to it, at a time.
	// It is small because a loop has other clients.
	encodePiece = 16 << 10
	// encodeKept bounds how many bytes an encoder may keep back. What it returns at once has to fit
	// into a loop's largest buffer even if the content does not become smaller: what was kept, and
	// one piece, or the 60 KB that may come with a head.
	encodeKept = 32 << 10
	// encodeBurst takes the place of burst for encoded content. A piece takes 100 µs to a
	// millisecond, ten times as long as passing on 60 KB.
	encodeBurst = 4
)

// startEncoding sets the framing of an upstream's response to that of the encoded content, whose
// length is not known.
func (f *flow) startEncoding() {
	if f.bodiless() || f.res.Framing == http1.None {
		f.CloseEncoder()
		return
	}
	f.res.Framing, f.res.Length = http1.Chunked, head.Unknown
}

// sendEncoded is send for content that is encoded. It flushes the encoder when nothing more has
// come, so that no client waits for content that its service has sent.
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
			until = exchange.Flush // but a head alone is sent without the beginning of an encoding
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

// sendPiece encodes a piece, and sends what the encoder returns, which may be nothing.
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
	if parts&withHead != 0 { // nothing was sent
		f.stage = stagePolicies
		f.fail(500, exchange.EncodeFailed)
		return
	}
	f.cut(exchange.EncodeFailed)
}

// flushEncoder sends what the encoder has kept back.
func (f *flow) flushEncoder() bool {
	return f.Encoder == nil || f.unflushed == 0 || f.sendPiece(nil, exchange.Flush, 0)
}

// flushIdle calls flushEncoder if the upstream has nothing more now. sendEncoded did not flush if
// more seemed to follow, but the read after it may bring only framing, or nothing. A client that is
// behind gets the content when it has caught up, and the upstream is read again.
func (f *flow) flushIdle() {
	if f.Encoder != nil && f.unflushed > 0 && f.stage == stageStreaming && f.readsOn() && !f.up.pending() {
		f.flushEncoder()
	}
}

// burst returns how many reads the exchange's connections may do, or how many pieces of an answer
// they may be sent, before others are served.
func (f *flow) burst() int {
	if f.Encoder != nil {
		return encodeBurst
	}
	return burst
}

// staleTrailers are trailers that are no longer true of encoded content: digests, and the entity
// tag (RFC 9530, section 2; RFC 9110, section 8.8.3).
var staleTrailers = exchange.Names{[]byte("Content-MD5"), []byte("Digest"), []byte("Content-Digest"),
	[]byte("Repr-Digest"), []byte("ETag")}
