package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
)

// encodePiece is how much of a response is encoded at a time: a loop has other clients, and what
// comes out is to fit the memory that is kept for it.
const encodePiece = 16 << 10

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
		case f.up != nil && !f.up.pending():
			until = exchange.Flush
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
		w.encoded = make([]byte, scratchRoom, scratchRoom+encodePiece+encodePiece/8)
	}
	out := f.Encoder.Encode(w.encoded[:scratchRoom], piece, until)
	if cap(out) > cap(w.encoded) && cap(out) <= reactor.ScratchSize {
		w.encoded = out[:scratchRoom]
	}
	f.flags &^= unflushed
	if until == exchange.More && len(piece) > 0 {
		f.flags |= unflushed
	}
	return len(out) == scratchRoom && parts == 0 || f.sendParts(out, scratchRoom, len(out), parts|scratch)
}

// flushEncoder sends what the encoder has kept of content that was given to it.
func (f *flow) flushEncoder() bool {
	return f.Encoder == nil || !f.is(unflushed) || f.sendPiece(nil, exchange.Flush, 0)
}
