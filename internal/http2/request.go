package http2

import (
	"bytes"

	"plimsoll/internal/head"
)

// maxMethod is the length of the longest method that is taken for one, as in package http1.
const maxMethod = 32

// RequestHead puts the head of a request together from its decoded fields, and judges it (RFC 9113,
// sections 8.2 and 8.3). Reset makes it ready. The first reason that is not OK refuses the request
// and is given again from then on. The caller goes on decoding the block, because later blocks
// build upon it, and needs to hand over no more of its fields.
type RequestHead struct {
	// Protocol is :protocol of an extended CONNECT (RFC 8441), such as "websocket", else nil.
	Protocol []byte
	// Expect100 says that the client waits for 100 Continue before it sends the body. It is valid
	// after End.
	Expect100 bool

	extended bool // extended CONNECT is allowed
	expects  bool
	hosts    uint8
	lim      *Limits
	fields
}

// The pseudo-fields of requests.
const (
	sawMethod = 1 << iota
	sawScheme
	sawAuthority
	sawPath
	sawProtocol
)

// Reset makes r ready for a request. lim must outlive its use. extendedConnect says that we
// announced SETTINGS_ENABLE_CONNECT_PROTOCOL.
func (r *RequestHead) Reset(lim *Limits, extendedConnect bool) {
	*r = RequestHead{lim: lim, extended: extendedConnect, fields: fields{length: head.Unknown}}
}

// Field takes the next field, as it was decoded: a pseudo-field sets its part of req, a regular one
// is appended to req.Fields. req, which was reset, borrows both until the exchange is over. Nobody
// else may rely on value: End makes the letters of the authority lower-case in it.
func (r *RequestHead) Field(req *head.Request, name, value []byte) Reason {
	if r.failed == OK {
		r.failed = r.field(req, name, value)
	}
	return r.failed
}

func (r *RequestHead) field(req *head.Request, name, value []byte) Reason {
	if reason := r.enter(r.lim, name, value); reason != OK {
		return reason
	}
	if len(name) > 0 && name[0] == ':' {
		return r.pseudoField(req, name, value[:len(value):len(value)])
	}
	id, reason := r.add(&req.Fields, name, value)
	switch id {
	case head.Host:
		r.hosts = min(r.hosts+1, 2)
	case head.Expect:
		r.expects = r.expects || head.FoldsTo(value, "100-continue")
	}
	return reason
}

func (r *RequestHead) pseudoField(req *head.Request, name, value []byte) Reason {
	var bit uint8
	reason := OK
	switch string(name) {
	case ":method":
		bit, req.Method = sawMethod, value
		if !head.IsToken(value) || len(value) > maxMethod {
			reason = BadMethod
		}
	case ":scheme":
		bit = sawScheme
		switch {
		case head.FoldsTo(value, "https"):
			req.Scheme = schemeHTTPS
		case head.FoldsTo(value, "http"):
			req.Scheme = schemeHTTP
		default:
			reason = BadScheme
		}
	case ":authority":
		bit, req.Host = sawAuthority, value
	case ":path":
		bit, req.Target = sawPath, value
		switch {
		case r.lim.Path > 0 && len(value) > r.lim.Path:
			reason = PathTooLong
		case len(value) == 0 || !head.IsTarget(value):
			reason = BadPath
		}
	case ":protocol":
		if !r.extended {
			return UnknownPseudo
		}
		bit, r.Protocol = sawProtocol, value
		if !head.IsToken(value) {
			reason = BadFieldValue
		}
	default:
		return UnknownPseudo
	}
	if order := r.pseudo(bit); order != OK {
		return order
	}
	return reason
}

var (
	schemeHTTP  = []byte("http")
	schemeHTTPS = []byte("https")
)

// End judges what needs the whole head, and completes req: Host, Target and Query, and Length from
// endStream, which says that no body follows, and Content-Length. Several Cookie fields become one,
// whose value is appended to buf; End returns buf, which grew only then.
//
// Scheme is what the client said. Who knows how the client came, and has a use for that, sets it.
// Path stays as it is. An extended CONNECT has its Method and a Protocol.
func (r *RequestHead) End(req *head.Request, endStream bool, buf []byte) ([]byte, Reason) {
	if r.failed == OK {
		r.failed = r.conclude(req, endStream)
	}
	if r.failed != OK {
		return buf, r.failed
	}
	return r.joinCookies(&req.Fields, buf), OK
}

func (r *RequestHead) conclude(req *head.Request, endStream bool) Reason {
	if r.seen&sawMethod == 0 {
		return MissingPseudo
	}
	// Other spellings than CONNECT are other methods, which readers that fold case would take for it.
	switch connect := head.FoldsTo(req.Method, "connect"); {
	case connect && (r.seen&sawProtocol == 0 || string(req.Method) != "CONNECT"):
		return Connect
	case !connect && r.seen&sawProtocol != 0:
		return UnknownPseudo
	case connect && r.length != head.Unknown: // what follows is a tunnel
		return BadContentLength
	}
	if r.seen&(sawScheme|sawPath) != sawScheme|sawPath {
		return MissingPseudo
	}
	if req.Target[0] != '/' && (string(req.Target) != "*" || string(req.Method) != "OPTIONS") {
		return BadPath
	}
	if q := bytes.IndexByte(req.Target, '?'); q >= 0 {
		req.Query = req.Target[q+1:]
	}
	switch {
	case endStream && r.length > 0:
		return LengthMismatch
	case endStream:
		req.Length = 0
	default:
		req.Length = r.length
	}
	r.Expect100 = r.expects && !endStream && req.Length != 0
	return r.concludeHost(req)
}

// concludeHost settles the one authority of the request (RFC 9113, section 8.3.1), as package http1
// does: where Host is there too, it is made to say the same.
func (r *RequestHead) concludeHost(req *head.Request) Reason {
	if r.hosts > 1 {
		return BadHost
	}
	f := req.Fields.Get(head.Host)
	if f != nil && !head.CanonicalHost(f.Value) {
		return BadHost
	}
	if r.seen&sawAuthority == 0 {
		if f == nil {
			return BadHost
		}
		req.Host = f.Value
		return OK
	}
	if !head.CanonicalHost(req.Host) {
		return BadHost
	}
	if f == nil {
		return OK
	}
	port := ":443"
	if len(req.Scheme) == len(schemeHTTP) {
		port = ":80"
	}
	if !bytes.Equal(head.WithoutPort(req.Host, port), head.WithoutPort(f.Value, port)) {
		return HostMismatch
	}
	f.Value = req.Host
	return OK
}
