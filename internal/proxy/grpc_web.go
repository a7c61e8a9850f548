package proxy

import (
	"plimsoll/internal/grpc"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
)

// gRPC-Web is gRPC for clients that cannot read trailers, such as browsers: the trailers are the
// last frame of the body. In text mode, for clients that cannot read bytes either, both bodies are
// base64. On a route with grpc_web such calls are sent on as gRPC, and the response is translated
// back, part by part as it comes. A response that is not gRPC is passed on unchanged: its status
// says enough.

// webCall is the state of the translation of a call.
type webCall struct {
	asked   bool // the request was translated, and the response is to be
	textUp  bool // the request's body is in text mode
	down    bool // the response is translated
	encoder grpc.TextEncoder
	// tail is the frame of trailers of a response whose head has everything.
	tail []byte
}

// textPiece is how many bytes of a response are encoded at a time.
const textPiece = 24 << 10

// translateRequest makes the request's head one of gRPC. In text mode it removes the length, which
// is that of the encoded body.
func (f *flow) translateRequest() {
	f.call.web.asked = true
	fields := &f.req.Fields
	kind := fields.Value(head.ContentType)
	fields.Set(contentTypeName, grpc.Translated(f.Alloc(len(kind))[:0], kind, grpc.Native))
	fields.Set(teName, teTrailers)
	if f.call.kind == grpc.WebText {
		f.call.web.textUp = true
		fields.RemoveID(head.ContentLength)
		if f.req.Length > 0 {
			f.req.Length = head.Unknown
		}
	}
}

// translateResponse makes the head of a gRPC response one of gRPC-Web. The length is no longer
// known, and there are no trailers that could be announced.
func (f *flow) translateResponse() {
	c, fields := f.call, &f.res.Fields
	kind := fields.Value(head.ContentType)
	c.web.down = f.res.Status == 200 && grpc.KindOf(kind) == grpc.Native
	if !c.web.down {
		return
	}
	c.web.tail = c.web.tail[:0]
	if c.ended { // the head has everything
		c.web.tail = grpc.BeginTrailers(c.web.tail)
		for i := range fields.Len() {
			if field := fields.At(i); belongsBehind(field.Name) {
				c.web.tail = grpc.AppendTrailer(c.web.tail, field.Name, field.Value)
			}
		}
		grpc.EndTrailers(c.web.tail, 0)
		fields.RemoveFunc(func(field *head.Field) bool { return belongsBehind(field.Name) })
	}
	fields.Set(contentTypeName, grpc.Translated(f.Alloc(len(kind) + maxMediaType)[:0], kind, c.kind))
	fields.RemoveID(head.ContentLength)
	fields.RemoveID(head.Trailer)
	f.res.Framing, f.res.Length = http1.Chunked, head.Unknown
}

// belongsBehind reports whether a field of a head without a body is a part of the result, which
// clients look for in the frame of trailers.
func belongsBehind(name []byte) bool {
	return head.EqualFold(name, grpcStatusName) || head.EqualFold(name, grpcMessageName) ||
		head.EqualFold(name, grpcDetailsName)
}

var grpcDetailsName = []byte("Grpc-Status-Details-Bin")

// sendWeb is send for a response that is translated.
func (f *flow) sendWeb(buf []byte, from, to int, parts parts) bool {
	c := f.call
	c.down.Pass(buf[from:to])
	ends := parts & withEnd
	parts &^= withEnd
	if c.kind == grpc.Web {
		if (to > from || parts&withHead != 0) && !f.sendParts(buf, from, to, parts) {
			return false
		}
	} else if !f.sendText(buf[from:to], parts) {
		return false
	}
	if ends == 0 {
		return true
	}
	tail := f.webTail()
	if c.kind == grpc.WebText {
		tail = c.web.encoder.Flush(c.web.encoder.Append(f.w.textDown[:0], tail))
		f.w.keepTextDown(tail)
	}
	return f.sendParts(tail, 0, len(tail), withEnd)
}

// sendText sends content in text mode. At the end of a message it flushes the encoder, so that the
// client can decode everything that it has got.
func (f *flow) sendText(data []byte, parts parts) bool {
	c, w := f.call, f.w
	for first := true; first || len(data) > 0; first = false {
		piece := data[:min(len(data), textPiece)]
		data = data[len(piece):]
		if w.textDown == nil {
			w.textDown = make([]byte, 0, scratchRoom+textRoom)
		}
		out := c.web.encoder.Append(w.textDown[:scratchRoom], piece)
		if len(data) == 0 && c.down.Between() {
			out = c.web.encoder.Flush(out)
		}
		if len(out) == scratchRoom && parts&withHead == 0 {
			return true
		}
		if !f.sendParts(out, scratchRoom, len(out), parts|scratch) {
			return false
		}
		parts &^= withHead
	}
	return true
}

// textRoom is how many characters at most a piece becomes, together with what the encoder has kept.
const textRoom = (textPiece + 4) / 3 * 4

// keepTextDown keeps memory that had to grow, within bounds, for the next use.
func (w *Worker) keepTextDown(grown []byte) {
	if cap(grown) > cap(w.textDown) && cap(grown) <= reactor.ScratchSize {
		w.textDown = grown[:0]
	}
}

// webTail returns the frame of trailers that ends a response.
func (f *flow) webTail() []byte {
	c := f.call
	if len(c.web.tail) > 0 && c.own == nil {
		return c.web.tail
	}
	c.web.tail = grpc.BeginTrailers(c.web.tail[:0])
	if l := f.trailersBehind(); l != nil {
		for i := range l.Len() {
			field := l.At(i)
			c.web.tail = grpc.AppendTrailer(c.web.tail, field.Name, field.Value)
		}
	}
	grpc.EndTrailers(c.web.tail, 0)
	return c.web.tail
}

// webAnswer returns the body of an answer of the gateway's own.
func (f *flow) webAnswer(message []byte) []byte {
	c := f.call
	frame := grpc.BeginTrailers(c.web.tail[:0])
	frame = grpc.AppendTrailer(frame, grpcStatusName, grpc.AppendCode(f.Alloc(3)[:0], c.code))
	frame = grpc.AppendTrailer(frame, grpcMessageName, message)
	grpc.EndTrailers(frame, 0)
	c.web.tail = frame
	if c.kind != grpc.WebText {
		return frame
	}
	var encoder grpc.TextEncoder
	return encoder.Flush(encoder.Append(f.Alloc((len(frame) + 2) / 3 * 4)[:0], frame))
}
