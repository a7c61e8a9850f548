package head

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// ID numbers the field names that the gateway itself has to know, so that the hot path compares a
// byte and not a string. There is room for 64, the bits of a List's set of names present.
type ID uint8

// The known names, after two that are not names.
const (
	// Other is every name that is not known.
	Other ID = iota
	// Alias is a name that would be a known one if each '_' in it were read as '-', such as
	// X_Forwarded_For. Many servers behind a gateway make one variable of both, so an alias of a
	// name that the gateway sets or strips must never reach them: serialisers drop aliases.
	Alias
	Host
	Connection
	ContentLength
	TransferEncoding
	Expect
	Upgrade
	KeepAlive
	ProxyConnection
	TE
	Trailer
	ProxyAuthenticate
	ProxyAuthorization
	Via
	Forwarded
	XForwardedFor
	XForwardedHost
	XForwardedProto
	XForwardedPort
	XForwardedPrefix
	XRealIP
	XRequestID
	Traceparent
	Tracestate
	Cookie
	Authorization
	Origin
	Range
	UserAgent
	Referer
	Accept
	AcceptEncoding
	AcceptLanguage
	CacheControl
	ContentType
	Date
	Server
	Vary
	Location
	SetCookie
	HTTP2Settings
	Priority
	names // the count
)

// Text is the usual spelling of each known name.
var Text = [names]string{
	Host: "Host", Connection: "Connection", ContentLength: "Content-Length",
	TransferEncoding: "Transfer-Encoding",
	Expect:           "Expect", Upgrade: "Upgrade", KeepAlive: "Keep-Alive",
	ProxyConnection: "Proxy-Connection", TE: "TE", Trailer: "Trailer",
	ProxyAuthenticate: "Proxy-Authenticate", ProxyAuthorization: "Proxy-Authorization", Via: "Via",
	Forwarded:     "Forwarded",
	XForwardedFor: "X-Forwarded-For", XForwardedHost: "X-Forwarded-Host",
	XForwardedProto: "X-Forwarded-Proto",
	XForwardedPort:  "X-Forwarded-Port", XForwardedPrefix: "X-Forwarded-Prefix",
	XRealIP: "X-Real-Ip", XRequestID: "X-Request-Id",
	Traceparent: "Traceparent", Tracestate: "Tracestate", Cookie: "Cookie",
	Authorization: "Authorization", Origin: "Origin",
	Range: "Range", UserAgent: "User-Agent", Referer: "Referer", Accept: "Accept",
	AcceptEncoding: "Accept-Encoding",
	AcceptLanguage: "Accept-Language", CacheControl: "Cache-Control", ContentType: "Content-Type",
	Date: "Date", Server: "Server",
	Vary: "Vary", Location: "Location", SetCookie: "Set-Cookie", HTTP2Settings: "HTTP2-Settings",
	Priority: "Priority",
}

// longest is the length of the longest known name. Three words of eight bytes, which may overlap,
// cover every name up to it.
const longest = len("Proxy-Authorization")

// spelling is a known name as the words that read makes of it in lower case, and where its letters
// are: setting those bits in what was read makes upper case lower, and turns nothing else into a
// letter.
type spelling struct{ text, letters [3]uint64 }

// A look-up is one load from byShape, which knows the candidate by the name's length and last
// letter, and, for a known name, mostly one comparison of at most three words, where a map of
// strings would hash every byte first. nextShape chains names of one shape. All names of one chain
// have the same length.
var (
	byShape   [32 * 32]ID
	nextShape [names]ID
	spellings [names]spelling
)

// shape is the slot of a name of 1 to longest bytes.
func shape(name []byte) int { return len(name)&31<<5 | int(name[len(name)-1])&31 }

// read covers a name of 1 to longest bytes with three words. Of names of one length, only equal
// ones give equal words.
func read(name []byte) (first, middle, last uint64) {
	switch n := len(name); {
	case n >= 8:
		first, last = binary.LittleEndian.Uint64(name), binary.LittleEndian.Uint64(name[n-8:])
		if n > 16 {
			middle = binary.LittleEndian.Uint64(name[8:])
		}
	case n >= 4:
		first = uint64(binary.LittleEndian.Uint32(name))
		last = uint64(binary.LittleEndian.Uint32(name[n-4:]))
	default:
		first = uint64(name[0]) | uint64(name[n/2])<<8 | uint64(name[n-1])<<16
	}
	return
}

func init() {
	for id := Alias + 1; id < names; id++ {
		text := []byte(strings.ToLower(Text[id]))
		slot := shape(text)
		nextShape[id] = byShape[slot]
		byShape[slot] = id

		letters := make([]byte, len(text))
		for i, c := range text {
			if 'a' <= c && c <= 'z' {
				letters[i] = 'a' - 'A'
			}
		}
		s := &spellings[id]
		s.text[0], s.text[1], s.text[2] = read(text)
		s.letters[0], s.letters[1], s.letters[2] = read(letters)
	}
}

// Lookup is the ID of name, whatever its case.
func Lookup(name []byte) ID {
	if len(name) == 0 || len(name) > longest {
		return Other
	}
	candidate := byShape[shape(name)]
	if candidate == Other {
		return Other
	}
	if id := match(name, candidate); id != Other {
		return id
	}
	if bytes.IndexByte(name, '_') >= 0 && isAlias(name, candidate) {
		return Alias
	}
	return Other
}

// match is the one of the chain that begins at id which name spells, or Other.
func match(name []byte, id ID) ID {
	first, middle, last := read(name)
	for id != Other {
		s := &spellings[id]
		if first|s.letters[0] == s.text[0] && last|s.letters[2] == s.text[2] &&
			middle|s.letters[1] == s.text[1] {
			break
		}
		id = nextShape[id]
	}
	return id
}

// isAlias says whether name spells one of the chain that begins at id with '_' for '-'. No known
// name ends in '-', so an alias has the shape of what it stands for.
func isAlias(name []byte, id ID) bool {
	var dashed [longest]byte
	for i, c := range name {
		if c == '_' {
			c = '-'
		}
		dashed[i] = c
	}
	return match(dashed[:len(name)], id) != Other
}

// EqualFold compares field names, whose letters are ASCII.
func EqualFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if lower[c] != lower[b[i]] {
			return false
		}
	}
	return true
}

// lower maps A-Z to a-z and everything else to itself.
var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return
}()
