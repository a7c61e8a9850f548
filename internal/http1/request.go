package http1

import (
	"bytes"

	"plimsoll/internal/head"
)

// maxMethod is the length of the longest method that is taken for one.
const maxMethod = 32

// Reset makes r ready for the next request. It keeps the fields' memory and forgets the buffer.
func (r *Request) Reset() {
	fields := r.Fields
	fields.Reset()
	*r = Request{}
	r.Fields = fields
}

// Parse reads the head of a request (RFC 9112, sections 2 to 6). b is all bytes from the message's
// first one on; it may go on behind the head. n is the length of the head once it is complete; n 0
// with OK asks for more: call again with the same bytes, at the same address, and what came since.
// A caller that moves them calls Reset and begins again. After an error, or a complete head, only
// Reset may follow; an error is given again until then.
//
// All parts of r alias b, but for the Target of an absolute-form with a query and no path. Parse
// changes b in one way: it makes the letters of the authority lower-case. Path and Scheme stay
// empty.
//
// It accepts the origin-form, the absolute-form of http and https, whose authority must agree with
// Host and which Target then no longer shows, and "*" for OPTIONS. One empty line before the
// request is skipped. Framing is None for a length of 0. Host is nil only where an HTTP/1.0 request
// named none.
func (r *Request) Parse(b []byte, lim *Limits) (n int, err Error) {
	if r.failed != OK {
		return 0, r.failed
	}
	if n, err = r.parse(b, lim); err != OK {
		n, r.failed = 0, err
	}
	return n, err
}

func (r *Request) parse(b []byte, lim *Limits) (n int, err Error) {
	for r.fields == 0 {
		line, err := r.startLine(b, lim)
		if line == nil {
			return 0, err
		}
		if len(line) == 0 && r.said&saidEmptyLine == 0 {
			r.said |= saidEmptyLine
			continue
		}
		if err := r.requestLine(line); err != OK {
			return 0, blame(line, err)
		}
		r.parser.fields = r.line
	}
	if n, err = r.readFields(b, lim, &r.Fields); n == 0 {
		return 0, err
	}
	return n, r.conclude()
}

// requestLine reads "method SP target SP version". The version's length is known, so what lies
// between the first space and it is the target, which has no spaces.
func (r *Request) requestLine(line []byte) (err Error) {
	at := len(line) - len(" HTTP/1.1")
	if at < 0 || line[at] != ' ' {
		return BadLine
	}
	if r.Minor, err = version(line[at+1:]); err != OK {
		return err
	}
	m := 0
	for m < at && head.Is(line[m], head.TokenByte) {
		m++
	}
	if m == at || m == 0 {
		return BadLine
	}
	if line[m] != ' ' || m > maxMethod {
		return BadMethod
	}
	r.Method = line[:m:m]
	if head.FoldsTo(r.Method, "connect") {
		return BadConnect
	}
	if m+1 == at {
		return BadLine
	}
	target := line[m+1 : at : at]
	if !head.IsTarget(target) {
		if bytes.IndexByte(target, ' ') >= 0 {
			return BadLine
		}
		return BadTarget
	}
	return r.target(target)
}

// target takes a request target apart (RFC 9112, section 3.2). Its bytes have been checked.
func (r *Request) target(t []byte) Error {
	switch {
	case t[0] == '/':
		r.Target = t
	case string(t) == "*":
		if string(r.Method) != "OPTIONS" {
			return BadTarget
		}
		r.Target = t
	default:
		if err := r.absolute(t); err != OK {
			return err
		}
	}
	if q := bytes.IndexByte(r.Target, '?'); q >= 0 {
		r.Query = r.Target[q+1:]
	}
	return OK
}

var asterisk = []byte("*")

// absolute reads an absolute-form. An empty path becomes "/", or "*" for OPTIONS (RFC 9112, section
// 3.2.4).
func (r *Request) absolute(t []byte) Error {
	var after int
	switch {
	case len(t) > len("http://") && head.FoldsTo(t[:len("http://")], "http://"):
		after = len("http://")
	case len(t) > len("https://") && head.FoldsTo(t[:len("https://")], "https://"):
		after = len("https://")
		r.said |= saidHTTPS
	default:
		return BadTarget
	}
	end := bytes.IndexAny(t[after:], "/?")
	if end < 0 {
		end = len(t)
	} else {
		end += after
	}
	r.Host = t[after:end:end]
	if !head.CanonicalHost(r.Host) {
		return BadHost
	}
	switch rest := t[end:]; {
	case len(rest) > 0 && rest[0] == '/':
		r.Target = rest
	case len(rest) > 0:
		r.Target = append([]byte("/"), rest...) // the only copy of a parser: nobody sends these twice
	case string(r.Method) == "OPTIONS":
		r.Target = asterisk
	default:
		r.Target = t[after-1 : after : after] // the last slash of "://"
	}
	return OK
}

// conclude settles what depends on all fields.
func (r *Request) conclude() Error {
	switch {
	case r.said&saidChunked != 0:
		if r.Minor == 0 {
			return LengthAndCoding
		}
		r.Framing, r.Length = Chunked, head.Unknown
	case r.length > 0:
		r.Framing, r.Length = Length, r.length
	}
	r.KeepAlive = r.keepAlive(r.Minor)
	r.Expect100 = r.said&said100 != 0 && r.Minor == 1 && r.Framing != None
	r.Upgrade = r.upgrade(r.Minor, &r.Fields)
	return r.concludeHost()
}

// concludeHost settles the one authority of the request: the target's, or Host's. Where both are
// there the field is made to say the same, so that it can be forwarded as it is.
func (r *Request) concludeHost() Error {
	if r.said&saidHosts != 0 {
		return BadHost
	}
	if r.said&saidHost == 0 {
		if r.Minor == 1 {
			return BadHost
		}
		return OK
	}
	f := r.Fields.Get(head.Host)
	if !head.CanonicalHost(f.Value) {
		return BadHost
	}
	if r.Host == nil {
		r.Host = f.Value
		return OK
	}
	port := ":80"
	if r.said&saidHTTPS != 0 {
		port = ":443"
	}
	if !bytes.Equal(head.WithoutPort(r.Host, port), head.WithoutPort(f.Value, port)) {
		return HostMismatch
	}
	if len(r.Host) != len(f.Value) {
		f.Value, f.Line = r.Host, nil
	}
	return OK
}
