package head

import (
	"bytes"
	"net/netip"
	"unsafe"
)

// Kinds of bytes of an authority.
const (
	hostBad   = 1 << iota
	hostUpper // a letter that has to be made lower-case
	hostDot
	hostColon // or '[': there is a port, or an address in brackets
	hostGap   // two dots in a row, or one at the beginning
)

var hostClass = func() (t [256]byte) {
	for i := range t {
		switch c := byte(i); {
		case 'a' <= c && c <= 'z', isDigit(c), c == '-', c == '_', c == '~':
		case 'A' <= c && c <= 'Z':
			t[i] = hostUpper
		case c == '.':
			t[i] = hostDot
		case c == ':', c == '[':
			t[i] = hostColon
		default:
			t[i] = hostBad
		}
	}
	return
}()

// CanonicalHost says whether b is uri-host[:port] (RFC 9110, section 7.2) and makes its letters
// lower-case.
//
// Of the characters that a reg-name may have (RFC 3986, section 3.2.2) only the unreserved ones are
// taken: percent-encoding would spell one host in many ways, and the sub-delims, which no name in
// DNS or in a certificate has, are syntax in Forwarded and in lists. No label but the last is
// empty. A port is 1 to 65535 and has no leading zero. User information is refused.
func CanonicalHost(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	var seen byte
	last := byte(hostDot)
	for _, c := range b {
		k := hostClass[c]
		seen |= k | last&k&hostDot<<2
		last = k
	}
	if seen&(hostBad|hostUpper|hostColon|hostGap) == 0 {
		return true
	}
	if seen&hostColon == 0 {
		if seen&(hostBad|hostGap) != 0 {
			return false
		}
		lowerCase(b)
		return true
	}
	return canonicalHostPort(b)
}

// canonicalHostPort does the same for what has a colon or a bracket.
func canonicalHostPort(b []byte) bool {
	if b[0] == '[' {
		end := 1
		for end < len(b) && (Is(b[end], HexByte) || b[end] == ':' || b[end] == '.') {
			end++
		}
		if end == len(b) || b[end] != ']' || !isIPv6(b[1:end]) {
			return false
		}
		lowerCase(b[1:end])
		return end+1 == len(b) || b[end+1] == ':' && isPort(b[end+2:])
	}
	at := bytes.IndexByte(b, ':')
	return at > 0 && isPort(b[at+1:]) && CanonicalHost(b[:at])
}

func isIPv6(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	// The string lives no longer than the call: netip keeps it only in its error.
	addr, err := netip.ParseAddr(unsafe.String(&b[0], len(b)))
	return err == nil && addr.Is6()
}

func isPort(b []byte) bool {
	if len(b) == 0 || len(b) > 5 || b[0] == '0' {
		return false
	}
	n := 0
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 65535
}

func lowerCase(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
}

// WithoutPort is host without port, a ':' and digits, where it ends in that.
func WithoutPort(host []byte, port string) []byte {
	if n := len(host) - len(port); n > 0 && string(host[n:]) == port {
		return host[:n]
	}
	return host
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
