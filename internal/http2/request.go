package http2

import (
	"bytes"

	"plimsoll/internal/head"
)

// maxMethod is the length of the longest method that is accepted, as in package http1.
const maxMethod = 32

// RequestHead assembles and validates the head of a request from its decoded fields (RFC 9113,
// sections 8.2 and 8.3). Call Reset before use. The first reason other than OK refuses the request,
// and all further calls return the same reason. The caller must then still decode the block,
// because later blocks depend on it, but need not pass on its fields.
type RequestHead struct {
	// Protocol is :protocol of an extended CONNECT (RFC 8441), such as "websocket"; nil for others.
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

// Reset prepares r for a request. r keeps lim. extendedConnect says that we have announced
// SETTINGS_ENABLE_CONNECT_PROTOCOL.
func (r *RequestHead) Reset(lim *Limits, extendedConnect bool) {
	*r = RequestHead{lim: lim, extended: extendedConnect, fields: fields{length: head.Unknown}}
}

// Field takes the next decoded field. A pseudo-field sets its part of req; a regular field is
// appended to req.Fields. req must have been reset. It aliases name and value until the exchange is
// over. No other code may rely on value, because End lower-cases the authority in place.
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

// End makes the checks that need the whole head, and completes req: Host, Query and Length, which
// depends on Content-Length and on endStream, which says that no body follows. Several Cookie
// fields become one, whose value is appended to buf; End returns buf, which grows only in that
// case.
//
// Scheme is what the client has sent; a caller that knows the connection's real scheme, and needs
// it, may overwrite it. Path is left unchanged. An extended CONNECT has the Method CONNECT and a
// Protocol.
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
	// Other spellings of CONNECT are different methods, but readers that ignore case would take
	// them for CONNECT.
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

// concludeHost determines the request's authority (RFC 9113, section 8.3.1), as package http1 does.
// If there is a Host field as well, it gets the same value.
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
