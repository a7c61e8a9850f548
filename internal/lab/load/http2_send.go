package load

import (
	"bytes"

	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/lab/measure"
)

// stream is an HTTP/2 stream under way. Streams are reused.
type stream struct {
	exchange
	window  http2.SendWindow
	receipt http2.ReceiveWindow
	length  http2.BodyLength // of the answer
	status  int
	headed  bool   // the answer's head has arrived
	sending bool   // the request's body is not completely sent
	body    []byte // what the windows did not allow of the body when the request began
	sent    int    // how many bytes of body have been sent since
	next    *stream
}

func (w *worker) newStream() *stream {
	s := w.spareOnes
	if s == nil {
		return new(stream)
	}
	w.spareOnes, s.next = s.next, nil
	return s
}

// keptBody limits the memory that a stream keeps for its next use, in bytes.
const keptBody = 64 << 10

func (w *worker) dropStream(s *stream) {
	s.body, s.sent = s.body[:0], 0
	if cap(s.body) > keptBody {
		s.body = nil
	}
	s.next, w.spareOnes = w.spareOnes, s
}

const (
	// mostOut is how many bytes of frames are collected before they are sent.
	mostOut = 64 << 10
	// mostData is the maximum data of a frame, in bytes, even if the target allows more.
	mostData = 64 << 10
)

// send implements protocol.
func (h *http2Conn) send(x *exchange) {
	s := h.at(x.stream)
	w := x.c.w
	s.written = w.now // until the exact time is known: see flush
	h.unsent = append(h.unsent, s.stream)
	body := h.appendHead(s.stream, w.out)
	if len(body) > 0 {
		s.sending = true
		h.sending++
		n := h.appendData(s, body, len(body))
		s.body = append(s.body, body[n:]...)
	}
	h.flushSoon()
}

// appendHead appends the HEADERS of a request in HTTP/1.1 form, and returns its body.
//
// Fields that repeat enter the compression table, as in browsers. The path and the length do not:
// they belong to one request.
func (h *http2Conn) appendHead(id uint32, request []byte) (body []byte) {
	line, fields, body := split(request)
	method, line, _ := bytes.Cut(line, space)
	path, _, _ := bytes.Cut(line, space)
	at := len(h.out)
	var room [http2.HeaderSize]byte
	scheme := schemeHTTP
	if h.c.tls != nil {
		scheme = schemeHTTPS
	}
	e := &h.encoder
	out := e.Begin(append(h.out, room[:]...))
	out = e.AppendStatic(out, hpack.Method, method, hpack.Repeat)
	out = e.AppendStatic(out, hpack.Scheme, scheme, hpack.Once)
	if host := hostOf(fields); host != nil {
		out = e.AppendStatic(out, hpack.Authority, host, hpack.Repeat)
	}
	out = e.AppendStatic(out, hpack.Path, path, hpack.Once)
	for rest := fields; len(rest) > 0; {
		var name, value []byte
		name, value, rest = nextField(rest)
		switch field := head.Lookup(name); {
		case leftOut(field): // RFC 9113, section 8.2.2
		case field == head.TE:
			out = e.AppendField(out, name, trailers, hpack.Repeat)
		case field == head.ContentLength:
			out = e.AppendField(out, name, value, hpack.Once)
		default:
			out = e.AppendField(out, name, value, hpack.Repeat)
		}
	}
	h.out = http2.FinishHeaders(out, at, id, len(body) == 0, h.peer.MaxFrameSize)
	return body
}

var (
	space       = []byte(" ")
	endOfLine   = []byte("\r\n")
	endOfHead   = []byte("\r\n\r\n")
	schemeHTTP  = []byte("http")
	schemeHTTPS = []byte("https")
	trailers    = []byte("trailers")
)

// split cuts an HTTP/1.1 request into its request line, its fields, each with its line ending, and
// its body.
func split(request []byte) (line, fields, body []byte) {
	line, rest, _ := bytes.Cut(request, endOfLine)
	if bytes.HasPrefix(rest, endOfLine) { // no fields
		return line, nil, rest[len(endOfLine):]
	}
	n := bytes.Index(rest, endOfHead) + len(endOfLine)
	return line, rest[:n], rest[n+len(endOfLine):]
}

// nextField returns the first of fields as split returns them.
func nextField(fields []byte) (name, value, rest []byte) {
	end := bytes.IndexByte(fields, '\n')
	line, rest := fields[:end-1], fields[end+1:]
	colon := max(bytes.IndexByte(line, ':'), 0)
	value = line[min(colon+1, len(line)):]
	for len(value) > 0 && blank(value[0]) {
		value = value[1:]
	}
	for len(value) > 0 && blank(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	return line[:colon], value, rest
}

// hostOf returns the value of Host, or nil if there is none.
func hostOf(fields []byte) []byte {
	for rest := fields; len(rest) > 0; {
		var name, value []byte
		if name, value, rest = nextField(rest); head.Lookup(name) == head.Host {
			return value
		}
	}
	return nil
}

// leftOut reports whether HTTP/2 and HTTP/3 omit a field: the connection-specific fields, and Host,
// which is a pseudo-field there.
func leftOut(field head.ID) bool {
	switch field {
	case head.Host, head.Connection, head.KeepAlive, head.ProxyConnection, head.Upgrade,
		head.TransferEncoding, head.HTTP2Settings:
		return true
	}
	return false
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// appendData appends DATA frames with the beginning of b, the rest of the stream's body: as much as
// the windows and the socket take, stopping at the first frame that reaches most bytes. It returns
// the number of bytes.
func (h *http2Conn) appendData(s *stream, b []byte, most int) (n int) {
	for n < min(len(b), most) && !h.c.sock.Congested() {
		size := min(len(b)-n, s.window.Available(), h.window.Available(),
			int(min(h.peer.MaxFrameSize, mostData)))
		if size == 0 {
			break
		}
		s.window.Take(size)
		h.window.Take(size)
		h.out = http2.AppendDataHeader(h.out, s.stream, size, n+size == len(b))
		h.out = append(h.out, b[n:n+size]...)
		n += size
		if len(h.out) >= mostOut {
			h.flush()
		}
	}
	if n == len(b) {
		s.sending = false
		h.sending--
	}
	return n
}

// pump sends what the windows and the socket take of unfinished bodies, one frame of each in turn.
func (h *http2Conn) pump() {
	for more := h.sending > 0; more; {
		more = false
		for _, s := range h.slots {
			if s == nil || !s.sending {
				continue
			}
			n := h.appendData(s, s.body[s.sent:], 1)
			s.sent += n
			more = more || n > 0 && s.sending
		}
	}
	if len(h.out) > 0 {
		h.flushSoon()
	}
}

// flushSoon schedules out to be sent with the loop's batch, so that all events of a turn share one
// write and one TLS record.
func (h *http2Conn) flushSoon() {
	if !h.flushing {
		h.flushing = true
		h.c.sock.Batch()
		h.c.w.loop.AfterBatch(h)
	}
}

// Run implements reactor.Runner: the loop sends its batch.
func (h *http2Conn) Run() {
	h.flushing = false
	if len(h.out) == 0 || !h.alive() {
		return
	}
	h.flush()
	if c := h.c; c.state == open && c.sock.Queued() > mostQueued {
		h.lost(measure.ConnectionLost, "the target does not read what it is sent", nil)
	}
}

// flush sends out, and records when the heads in it were sent.
func (h *http2Conn) flush() {
	c := h.c
	w := c.w
	if w.phase == running {
		w.part.out += uint64(len(h.out))
	}
	c.write(h.out)
	h.out = h.out[:0]
	if c.sock.Batched() || c.sock.Unsent() {
		// The time of sending is unknown, so they count from the handover.
		h.unsent = h.unsent[:0]
		return
	}
	sent := c.sock.Sent()
	for _, id := range h.unsent {
		if s := h.at(id); s != nil {
			s.written = sent
		}
	}
	h.unsent = h.unsent[:0]
}
