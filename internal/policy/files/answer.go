package files

import (
	"strconv"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

var (
	varyEncoding = exchange.StaticField("Vary", "Accept-Encoding")
	varyAccept   = exchange.StaticField("Vary", "Accept")
	acceptRanges = exchange.StaticField("Accept-Ranges", "bytes")
	rangeName    = []byte("Content-Range")
	typeName     = []byte(head.Text[head.ContentType])
)

// answer answers with a file of an entry: completely, in part, or with a 304 if the client has it.
func (p *Policy) answer(x *exchange.Exchange, e *entry, f *file) exchange.PolicyVerdict {
	if e.kind == isListing {
		x.Answer(200, exchange.RouteAnswer, f.content)
		p.common(x, e)
		x.Response.Fields.Append(f.contentType)
		return exchange.Answered
	}
	var c conditions
	c.read(&x.Request.Fields)
	switch status := c.status(f); status {
	case 304:
		x.Answer(304, exchange.RouteAnswer, nil)
		p.common(x, e)
		x.Response.Fields.Append(f.etag)
		x.Response.Fields.Append(f.lastModified)
		return exchange.Answered
	case 412:
		x.Answer(412, exchange.RouteAnswer, nil)
		return exchange.Answered
	}
	var room [maxRanges]span
	if c.ranges != nil && len(x.Request.Method) == len("GET") && c.rangeHolds(f) {
		if spans, ok := parseRanges(room[:0], c.ranges, f.size); ok {
			return p.answerRanges(x, e, f, spans)
		}
	}
	p.send(x, 200, e, f, span{0, f.size})
	p.describe(x, e, f)
	x.Response.Fields.Append(f.contentType)
	return exchange.Answered
}

// common adds the fields that a 304 has too.
func (p *Policy) common(x *exchange.Exchange, e *entry) {
	fields := &x.Response.Fields
	if p.cacheControl.Name != nil {
		fields.Append(p.cacheControl)
	}
	switch {
	case e.kind == isListing:
		fields.Append(varyAccept)
	case e.vary:
		fields.Append(varyEncoding)
	}
}

// describe adds the fields of a response with content, except its type.
func (p *Policy) describe(x *exchange.Exchange, e *entry, f *file) {
	p.common(x, e)
	fields := &x.Response.Fields
	fields.Append(f.etag)
	fields.Append(f.lastModified)
	fields.Append(acceptRanges)
	if f.encoding.Name != nil {
		fields.Append(f.encoding)
	}
}

// answerRanges answers with parts of the file.
func (p *Policy) answerRanges(x *exchange.Exchange, e *entry, f *file, spans []span) exchange.PolicyVerdict {
	switch len(spans) {
	case 0:
		x.Answer(416, exchange.RouteAnswer, nil)
		addContentRange(x, span{-1, 0}, f.size)
		return exchange.Answered
	case 1:
		p.send(x, 206, e, f, spans[0])
		p.describe(x, e, f)
		x.Response.Fields.Append(f.contentType)
		addContentRange(x, spans[0], f.size)
		return exchange.Answered
	}
	m := p.newMultipart(x, f, spans)
	length := m.length()
	if length > f.size { // with the framing of the parts it would be longer than the whole
		p.send(x, 200, e, f, span{0, f.size})
		p.describe(x, e, f)
		x.Response.Fields.Append(f.contentType)
		return exchange.Answered
	}
	s := p.newSource(x, e, f, spans[0])
	s.multi = m
	s.text = m.head(0)
	x.AnswerFrom(206, exchange.RouteAnswer, length, s)
	p.describe(x, e, f)
	x.Response.Fields.Add(typeName, m.contentType)
	return exchange.Answered
}

// send sets the answer's status and its body, from memory or from a source.
func (p *Policy) send(x *exchange.Exchange, status int, e *entry, f *file, part span) {
	switch {
	case f.fd < 0:
		x.Answer(status, exchange.RouteAnswer, f.content[part.from:part.to])
	case len(x.Request.Method) == len("HEAD"):
		x.AnswerFrom(status, exchange.RouteAnswer, part.len(), nil)
	default:
		x.AnswerFrom(status, exchange.RouteAnswer, part.len(), p.newSource(x, e, f, part))
	}
}

// addContentRange adds Content-Range, with no range for a span that begins before the file.
func addContentRange(x *exchange.Exchange, part span, size int64) {
	b := append(x.Alloc(64)[:0], "bytes "...)
	b = appendRange(b, part, size)
	x.Response.Fields.Add(rangeName, b)
}

func appendRange(b []byte, part span, size int64) []byte {
	if part.from < 0 {
		b = append(b, '*')
	} else {
		b = strconv.AppendInt(b, part.from, 10)
		b = strconv.AppendInt(append(b, '-'), part.to-1, 10)
	}
	return strconv.AppendInt(append(b, '/'), size, 10)
}
