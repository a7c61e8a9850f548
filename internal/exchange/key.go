package exchange

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/head"
)

// Key names the part of a request that distinguishes clients or things: what a balancer hashes,
// what keeps a client on one upstream, or what a limit counts separately. With the zero value all
// requests have the same key. A Key is immutable.
type Key struct {
	kind  KeyKind
	name  string
	bytes []byte // the name as bytes
	text  string
}

// KeyKind says where in a request a key is found.
type KeyKind uint8

// The kinds of keys, and how each is written.
const (
	NoKey      KeyKind = iota // ""
	AddressKey                // "client_address"
	HeaderKey                 // "header:NAME"
	CookieKey                 // "cookie:NAME"
	PathKey                   // "path:NAME", a value of the route's pattern
	QueryKey                  // "query:NAME"
)

var keyForms = [...]string{
	NoKey: "", AddressKey: "client_address", HeaderKey: "header:NAME", CookieKey: "cookie:NAME",
	PathKey: "path:NAME", QueryKey: "query:NAME",
}

// ParseKey reads a key in the form of one of the allowed kinds. The error lists these forms.
func ParseKey(text string, allowed ...KeyKind) (Key, error) {
	if text == "" {
		return Key{}, nil
	}
	place, name, named := strings.Cut(text, ":")
	for kind := AddressKey; int(kind) < len(keyForms); kind++ {
		form, _, needsName := strings.Cut(keyForms[kind], ":")
		if place != form || named != needsName || !slices.Contains(allowed, kind) || needsName &&
			!kind.names(name) {
			continue
		}
		return Key{kind, name, []byte(name), text}, nil
	}
	return Key{}, fmt.Errorf("%q is not a key; write one of %s", text, KeyForms(allowed))
}

// KeyForms lists how keys of these kinds are written.
func KeyForms(kinds []KeyKind) string {
	forms := make([]string, len(kinds))
	for i, kind := range kinds {
		forms[i] = keyForms[kind]
	}
	return strings.Join(forms, ", ")
}

// names reports whether a key of this kind can have the name.
func (kind KeyKind) names(name string) bool {
	switch kind {
	case HeaderKey, CookieKey:
		return head.IsToken([]byte(name))
	case PathKey:
		return IsPatternName(name)
	default:
		return name != "" && !strings.ContainsAny(name, "&=#% ")
	}
}

// IsPatternName reports whether a value of a route's pattern can have the name.
func IsPatternName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Kind is where the key is.
func (k Key) Kind() KeyKind { return k.kind }

// Name is the header's, cookie's, parameter's or pattern value's name, empty for other kinds.
func (k Key) Name() string { return k.name }

// String is the key as it was written.
func (k Key) String() string { return k.text }

// Find returns the key's value in a request, or nil if the request has none. The value lives as
// long as the exchange. An address has 16 bytes, IPv4 being mapped into IPv6. A query parameter is
// decoded, because one value can be encoded in many ways; the first one with the name counts.
func (k Key) Find(x *Exchange) []byte {
	switch k.kind {
	case AddressKey:
		if x.Client.IsValid() {
			address := x.Client.As16()
			return append(x.Alloc(len(address))[:0], address[:]...)
		}
	case HeaderKey:
		if f := x.Request.Fields.Find(k.bytes); f != nil {
			return f.Value
		}
	case CookieKey:
		return Cookie(&x.Request.Fields, k.name)
	case PathKey:
		if x.Params != nil { // a mirror's copy has none
			return x.Params.Value(k.name)
		}
	case QueryKey:
		return k.inQuery(x)
	}
	return nil
}

func (k Key) inQuery(x *Exchange) []byte {
	for rest := x.Request.Query; ; {
		name, value, after, ok := head.NextParam(rest)
		if !ok {
			return nil
		}
		if rest = after; head.DecodesTo(name, k.name) {
			return head.AppendDecoded(x.Alloc(len(value))[:0], value)
		}
	}
}
