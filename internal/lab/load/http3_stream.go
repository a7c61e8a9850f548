package load

import (
	"bytes"
	"errors"
	"io"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/head"
	"plimsoll/internal/http2"
	"plimsoll/internal/http3"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// http3Stream is an HTTP/3 request under way.
type http3Stream struct {
	exchange
	q      *quic.Stream
	number quic.StreamID
}

// answer3 is what arrived on a stream.
type answer3 struct {
	w        *worker
	response head.Response
	body     []byte
	cut      bool // the body was longer than what was kept
	in       int  // bytes received
	kind     measure.Kind
	why      string
	err      error
}

// abandon ends the goroutines of a stream.
func (s *http3Stream) abandon() {
	code := quic.StreamErrorCode(http3.RequestCancelled)
	s.q.CancelRead(code)
	s.q.CancelWrite(code)
}

// send implements protocol. A request that quic-go takes whole is sent now; otherwise a goroutine
// writes it as the target takes it.
func (h *http3Conn) send(x *exchange) {
	s := h.of(x)
	w := x.c.w
	out := h.appendRequest(w.out)
	s.written = reactor.Clock()
	if w.phase == running {
		w.part.out += uint64(len(out))
	}
	wanted, toHEAD := s.request.Body, s.request.Head
	switch s.q.TryWriteAll(out) {
	case nil:
		s.q.Close()
	default: // too much for now, or the stream has failed: the read reports why
		go func() {
			if _, err := s.q.Write(out); err == nil {
				s.q.Close()
			}
		}()
	}
	q := h.q
	go func() {
		a := s.read(wanted, toHEAD)
		w.loop.Post(func() { h.answered(q, s, a) })
	}()
}

// appendRequest makes the frames of a request in HTTP/1.1 form.
func (h *http3Conn) appendRequest(request []byte) []byte {
	line, fields, body := split(request)
	method, line, _ := bytes.Cut(line, space)
	path, _, _ := bytes.Cut(line, space)
	e := &h.encoder
	e.Begin()
	e.Field(pseudoMethod, method)
	e.Field(pseudoScheme, schemeHTTPS)
	if host := hostOf(fields); host != nil {
		e.Field(pseudoAuthority, host)
	}
	e.Field(pseudoPath, path)
	for rest := fields; len(rest) > 0; {
		var name, value []byte
		name, value, rest = nextField(rest)
		switch field := head.Lookup(name); {
		case leftOut(field): // RFC 9114, section 4.2
		case field == head.TE:
			e.Field(name, trailers)
		default:
			e.Field(name, value)
		}
	}
	out := e.AppendSection(make([]byte, 0, 256+len(body)))
	if len(body) > 0 {
		out = http3.AppendFrame(out, http3.Data, body)
	}
	return out
}

var (
	pseudoMethod    = []byte(":method")
	pseudoScheme    = []byte(":scheme")
	pseudoAuthority = []byte(":authority")
	pseudoPath      = []byte(":path")
)

// read reads an answer to its end, on the stream's goroutine. wanted reports that the script asks
// to see the body.
func (s *http3Stream) read(wanted, toHEAD bool) *answer3 {
	a := &answer3{w: s.c.w}
	var r http3.Reader
	r.ResetResponse(mostBlock)
	buf := make([]byte, 4<<10)
	var length http2.BodyLength
	interims, headed := 0, false
	for {
		n, err := s.q.Read(buf)
		a.in += n
		for in := buf[:n]; ; {
			part, used, why := r.Next(in)
			in = in[used:]
			bad := http2.OK
			switch {
			case why != http3.OK:
				return a.bad(why)
			case part.Kind == http3.Head:
				if bad, why = a.head(part.Data, toHEAD, err == io.EOF && len(in) == 0); why != http3.OK {
					return a.bad(why)
				}
				length = http2.ExpectLength(a.response.Length)
				if headed = a.response.Status >= 200; !headed {
					r.Interim()
					if interims++; interims > maxInterim {
						bad = http2.EarlyEnd
					}
				}
			case part.Kind == http3.Content:
				bad = length.Add(len(part.Data))
				a.addBody(part.Data, wanted)
			}
			if bad != http2.OK {
				return a.bad(bad)
			}
			if part.Kind == http3.None {
				break
			}
		}
		if err == io.EOF {
			if why := r.End(); why != http3.OK {
				return a.bad(why)
			}
			if bad := length.End(); bad != http2.OK && !toHEAD && headed {
				return a.bad(bad)
			}
			return a
		}
		if err != nil {
			return a.failed(err)
		}
		if len(buf) < mostRead && n == len(buf) {
			buf = make([]byte, mostRead) // a long answer
		}
	}
}

// mostRead is the size of the reads of a long answer.
const mostRead = 64 << 10

// head decodes the field section of a head.
func (a *answer3) head(block []byte, toHEAD, ended bool) (http2.Reason, http3.Reason) {
	fields, why := http3.DecodeFields(block, headLimits.Head, headLimits.Fields)
	if why != http3.OK {
		return http2.OK, why
	}
	a.response = head.Response{}
	var judge http2.ResponseHead
	judge.Reset(&headLimits)
	for _, f := range fields {
		judge.Field(&a.response, f.Name, f.Value)
	}
	return judge.End(&a.response, toHEAD, ended), http3.OK
}

// addBody keeps bytes of a body, if the script asks to see it.
func (a *answer3) addBody(data []byte, wanted bool) {
	if !wanted {
		return
	}
	take := a.w.roomForBody(len(data), len(a.body))
	a.body = append(a.body, data[:take]...)
	a.cut = a.cut || take < len(data)
}

// bad makes this an answer that breaks the rules.
func (a *answer3) bad(why error) *answer3 {
	a.kind, a.why, a.err = measure.BadHTTP, "the answer breaks the rules of HTTP/3", why
	return a
}

// failed makes this an incomplete answer.
func (a *answer3) failed(err error) *answer3 {
	a.kind, a.why, a.err = measure.ConnectionLost, "the target reset the stream", err
	if refused(err) {
		a.kind, a.why = measure.Refused, "the target refused the stream"
	} else if _, reset := errors.AsType[*quic.StreamError](err); !reset {
		a.why = "the connection ended before the whole answer was there"
	}
	return a
}

// answered takes over an answer from the stream's goroutine.
func (h *http3Conn) answered(q *quic.Conn, s *http3Stream, a *answer3) {
	c := h.c
	w := c.w
	w.bodyBytes.Add(-int64(len(a.body)))
	if h.q != q || h.streams[s.number] != s {
		return // the request or the connection has already ended
	}
	w.now = reactor.Clock()
	if w.phase == running {
		w.part.in += uint64(a.in)
	}
	if a.err != nil {
		if a.kind == measure.BadHTTP {
			s.abandon()
		}
		h.fail(s, a.kind, a.why, a.err)
		c.reuse(!h.leaving)
	} else {
		verdict := s.judge(a.response.Status, &a.response.Fields, a.body, a.cut)
		session := s.over(verdict.Kind)
		delete(h.streams, s.number)
		c.next(session, &verdict, !h.leaving)
	}
	w.afterEvent()
}
