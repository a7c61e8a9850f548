package exchange

// variable says what a part of a template stands for.
type variable uint8

const (
	literal variable = iota
	clientAddress
	clientPort
	requestID
	method
	host
	path
	query
	scheme
	routeName
	upstreamName
	target
	listener
	tlsVersion
	tlsClientSubject
	pathValue
)

var variables = map[string]variable{
	"client_address": clientAddress, "client_port": clientPort, "request_id": requestID,
	"method": method, "host": host,
	"path": path, "query": query, "scheme": scheme, "route": routeName, "upstream": upstreamName,
	"target":   target,
	"listener": listener, "tls_version": tlsVersion, "tls_client_subject": tlsClientSubject,
}

// Append appends the filled-in template to dst. It allocates only if dst is too short.
func (t *Template) Append(dst []byte, x *Exchange) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		if p.what == literal {
			dst = append(dst, p.text...)
			continue
		}
		from := len(dst)
		dst = p.appendValue(dst, x)
		switch t.escape {
		case forURI:
			dst = encodeFrom(dst, from)
		case forJSON, forMarkup:
			dst = t.escape.escapeFrom(cutFrom(dst, from), from)
		case forText:
			dst = cutFrom(dst, from)
			fallthrough
		default:
			blankFrom(dst, from)
		}
	}
	return dst
}

// Render returns the filled-in template, in memory that lives until the exchange is over. Loop
// only.
func (x *Exchange) Render(t *Template) []byte {
	if text, ok := t.Constant(); ok {
		return text
	}
	return x.arena.keep(t.Append(x.arena.open(), x))
}

// appendValue appends a variable's value as the exchange has it.
func (p *part) appendValue(dst []byte, x *Exchange) []byte {
	switch p.what {
	case clientAddress:
		if x.Client.IsValid() {
			return x.Client.AppendTo(dst)
		}
	case clientPort:
		// The port of a client behind a trusted proxy is not known.
		if x.Peer.IsValid() && x.Client == x.Peer.Addr().Unmap().WithZone("") {
			return appendPort(dst, x.Peer.Port())
		}
	case requestID:
		return append(dst, x.ID...)
	case method:
		return append(dst, x.Request.Method...)
	case host:
		return append(dst, x.Request.Host...)
	case path:
		return append(dst, x.Request.Path...)
	case query:
		return append(dst, x.Request.Query...)
	case scheme:
		return append(dst, x.Request.Scheme...)
	case routeName:
		return append(dst, x.Route...)
	case upstreamName:
		return append(dst, x.UpstreamName...)
	case target:
		return append(dst, x.Target...)
	case listener:
		return append(dst, x.Listener...)
	case tlsVersion:
		if x.TLS != nil {
			return append(dst, x.TLS.Version...)
		}
	case tlsClientSubject:
		if x.TLS != nil {
			return append(dst, x.TLS.Subject...)
		}
	case pathValue:
		if x.Params != nil {
			return append(dst, x.Params.Value(p.name)...)
		}
	}
	return dst
}

func appendPort(dst []byte, port uint16) []byte {
	var digits [5]byte
	i := len(digits)
	for {
		i--
		digits[i] = '0' + byte(port%10)
		if port /= 10; port == 0 {
			return append(dst, digits[i:]...)
		}
	}
}

// blankFrom replaces control characters by spaces, so that no value can end its header field
// (response splitting).
func blankFrom(b []byte, from int) {
	for i, c := range b[from:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[from+i] = ' '
		}
	}
}

// encodeFrom percent-encodes, in b[from:], the bytes that a URI must not contain. Usually there are
// none. Otherwise it extends b and moves bytes from the end backwards, so that none is overwritten
// before it is read.
func encodeFrom(b []byte, from int) []byte {
	bad := 0
	for _, c := range b[from:] {
		if !inURI[c] && c != '%' {
			bad++
		}
	}
	if bad == 0 {
		return b
	}
	const digits = "0123456789ABCDEF"
	read := len(b) - 1
	for range bad {
		b = append(b, 0, 0)
	}
	for write := len(b) - 1; write > read; read-- {
		c := b[read]
		if inURI[c] || c == '%' {
			b[write] = c
			write--
			continue
		}
		b[write-2], b[write-1], b[write] = '%', digits[c>>4], digits[c&15]
		write -= 3
	}
	return b
}

// inURI are the bytes that stand for themselves somewhere in a URI before its fragment (RFC 3986,
// section 2), "%" excepted.
var inURI = func() (t [256]bool) {
	for c := range t {
		t[c] = '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	for _, c := range []byte("-._~:/?[]@!$&'()*+,;=") {
		t[c] = true
	}
	return
}()
