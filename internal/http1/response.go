package http1

import "plimsoll/internal/head"

// Reset makes r ready for the next response. It keeps the fields' memory and forgets the buffer.
func (r *Response) Reset() {
	fields := r.Fields
	fields.Reset()
	*r = Response{}
	r.Fields = fields
}

// Parse reads the head of a response as Request.Parse reads that of a request, as strictly, and
// with the same rules for b. toHEAD says that the request was a HEAD. After a 1xx other than 101
// the caller calls Reset and Parse for the next head, which follows at once.
//
// Framing is None for a response to HEAD, 1xx, 204 and 304, whatever their fields announce: who
// forwards such a head decides about its Content-Length. A 204 that announces a body is the last of
// its connection, because its sender may send one; a 1xx that does is refused. Without a length or
// chunks the body ends with the connection: ToEOF, Length Unknown, KeepAlive false.
func (r *Response) Parse(b []byte, lim *Limits, toHEAD bool) (n int, err Error) {
	if r.failed != OK {
		return 0, r.failed
	}
	if n, err = r.parse(b, lim, toHEAD); err != OK {
		n, r.failed = 0, err
	}
	return n, err
}

func (r *Response) parse(b []byte, lim *Limits, toHEAD bool) (n int, err Error) {
	if r.fields == 0 {
		line, err := r.startLine(b, lim)
		if line == nil {
			return 0, err
		}
		if err := r.statusLine(line); err != OK {
			return 0, blame(line, err)
		}
		r.parser.fields = r.line
	}
	if n, err = r.readFields(b, lim, &r.Fields); n == 0 {
		return 0, err
	}
	return n, r.conclude(toHEAD)
}

// statusLine reads "version SP 3DIGIT [SP reason]" (RFC 9112, section 4). Many servers leave out
// the space before an empty reason.
func (r *Response) statusLine(line []byte) (err Error) {
	const before, least = len("HTTP/1.1 "), len("HTTP/1.1 200")
	if len(line) < before || line[before-1] != ' ' {
		return BadLine
	}
	if r.Minor, err = version(line[:before-1]); err != OK {
		return err
	}
	if len(line) < least || len(line) > least && line[least] != ' ' {
		return BadStatus
	}
	for _, c := range line[before:least] {
		if !isDigit(c) {
			return BadStatus
		}
		r.Status = r.Status*10 + int(c-'0')
	}
	if r.Status < 100 || r.Status > 599 {
		return BadStatus
	}
	if !head.IsText(line[least:]) {
		return BadLine
	}
	return OK
}

// conclude settles framing (RFC 9112, section 6.3) and what else depends on all fields.
func (r *Response) conclude(toHEAD bool) Error {
	if r.said&saidChunked != 0 && r.Minor == 0 {
		return LengthAndCoding
	}
	r.KeepAlive = r.keepAlive(r.Minor)
	r.Upgrade = r.upgrade(r.Minor, &r.Fields)
	announced := r.length > 0 || r.said&saidChunked != 0
	switch {
	case r.Status < 200 && announced:
		if r.length > 0 {
			return BadContentLength
		}
		return LengthAndCoding
	case r.Status == 204:
		r.KeepAlive = r.KeepAlive && !announced
	case toHEAD || r.Status < 200 || r.Status == 304:
	case r.said&saidChunked != 0:
		r.Framing, r.Length = Chunked, head.Unknown
	case r.length > 0:
		r.Framing, r.Length = Length, r.length
	case r.said&saidLength == 0:
		r.Framing, r.Length = ToEOF, head.Unknown
		r.KeepAlive = false
	}
	return OK
}
