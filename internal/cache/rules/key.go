package rules

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/head"
)

// Treatment says what becomes of a request's field when the request is one whose answer may be
// stored. Nothing that a client sends may change an answer that others get, so a field is either
// kept from the origin, or part of what the answer is stored under, or known to change nothing.
// Requests that pass the cache are not touched.
type Treatment uint8

// The treatments.
const (
	// Drop: the origin does not see it.
	Drop Treatment = iota
	// Keyed: the origin sees its normalised value, which is part of the key.
	Keyed
	// Negotiated: the origin sees its normalised value, which is part of the key where the answer's
	// Vary names it. Who chooses this for a field trusts the origin to do so.
	Negotiated
	// Credential: the origin sees it. With Authorization the answer is stored only when it says that it
	// is for all (RFC 9111, section 3.5), with another one only when Vary names the field.
	Credential
	// Plain: the origin sees it as it is, and the operator vouches that no answer depends on it.
	Plain
)

// personal says whether an answer to a request with such a field may be for its client alone.
func (t Treatment) personal() bool { return t == Credential || t == Negotiated }

// KeyOptions say what of a request its answer is stored under.
type KeyOptions struct {
	// Fields are treatments of fields by their names in lower case, over DefaultTreatment.
	Fields map[string]Treatment
	// SortQuery orders the query's parameters by name; those of one name keep their order.
	SortQuery bool
	// DropQuery names parameters that are left out, of the key and of what the origin sees; a '*'
	// at the end stands for the rest of a name. Names are compared as they are sent,
	// percent-encoded.
	DropQuery []string
	// Encodings are the content codings in lower case that the origin is offered when clients accept
	// them; nil for br, gzip and zstd.
	Encodings []string
	// Added names fields in lower case that the gateway adds to what is forwarded, with values that are
	// not part of the key, such as the client's address: a response that varies by one is not stored.
	Added []string
}

// Key is KeyOptions made ready. The zero value is that of no options. It is immutable.
type Key struct {
	fields    map[string]Treatment
	names     []string // of keyed fields, sorted
	sortQuery bool
	drop      []string
	encodings []string
	added     []string
}

// DefaultTreatment is what becomes of a field, its name in lower case, that no option names. Fields
// that the gateway itself adds on the way to the origin come later and are not concerned.
func DefaultTreatment(name string) Treatment {
	switch name {
	case "accept", "accept-language", "origin":
		return Keyed
	case "accept-encoding":
		return Negotiated
	case "authorization", "cookie":
		return Credential
	case "host":
		return Plain // it is in the key as the host
	}
	return Drop
}

var (
	defaultNames     = []string{"accept", "accept-language", "origin"}
	defaultEncodings = []string{"br", "gzip", "zstd"}
)

const (
	maxKeyed = 32 // fields of a key
	maxName  = 64 // bytes of a name that has a treatment
)

// NewKey makes options ready. The error names what cannot be meant.
func NewKey(o KeyOptions) (Key, error) {
	k := Key{fields: o.Fields, sortQuery: o.SortQuery, drop: o.DropQuery, added: o.Added,
		encodings: slices.Sorted(slices.Values(o.Encodings))}
	for _, name := range defaultNames {
		if _, named := o.Fields[name]; !named {
			k.names = append(k.names, name)
		}
	}
	for name, t := range o.Fields {
		if !head.IsToken([]byte(name)) || strings.ToLower(name) != name || len(name) > maxName {
			return Key{}, fmt.Errorf("%q is not a field name in lower case of at most %d bytes", name,
				maxName)
		}
		if head.Lookup([]byte(name)) == head.Alias {
			return Key{}, fmt.Errorf("%q is never forwarded, because servers read '_' as '-': "+
				"name the field with dashes", name)
		}
		switch name {
		case "range", "if-range", "if-match", "if-none-match", "if-modified-since",
			"if-unmodified-since", "cache-control", "host":
			return Key{}, fmt.Errorf("%q is evaluated by the cache, which leaves no choice: remove it", name)
		}
		if t == Keyed {
			k.names = append(k.names, name)
		}
	}
	if len(k.names) > maxKeyed {
		return Key{}, fmt.Errorf("%d fields are part of the key; at most %d may be", len(k.names), maxKeyed)
	}
	slices.Sort(k.names)
	if k.names == nil {
		k.names = []string{}
	}
	if o.Encodings != nil && k.encodings == nil {
		k.encodings = []string{}
	}
	return k, nil
}

func (k *Key) keyedNames() []string {
	if k.names == nil {
		return defaultNames
	}
	return k.names
}

func (k *Key) treatment(lower string) Treatment {
	if t, ok := k.fields[lower]; ok {
		return t
	}
	return DefaultTreatment(lower)
}

// treat is treatment for a name in any case.
func (k *Key) treat(name []byte) Treatment {
	var lower [maxName]byte
	if len(name) > len(lower) {
		return Drop
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	if t, ok := k.fields[string(lower[:len(name)])]; ok {
		return t
	}
	return DefaultTreatment(string(lower[:len(name)]))
}

// AppendURI appends what a request's answers have in common whatever their fields: space, which
// keeps routes apart that answer for one URI in different ways, and the URI. The path is the one
// that the origin is asked for, the query the one that AppendQuery gives. The parts have no NUL, so
// no two URIs look alike.
func (k *Key) AppendURI(dst []byte, space string, h *head.Request, path []byte) []byte {
	dst = append(dst, space...)
	dst = append(dst, 0)
	dst = append(dst, h.Scheme...)
	dst = append(dst, "://"...)
	dst = append(dst, h.Host...)
	dst = append(dst, path...)
	if h.Query != nil {
		dst = append(dst, '?')
		before := len(dst)
		if dst = k.AppendQuery(dst, h.Query); len(dst) == before && len(h.Query) > 0 {
			dst = dst[:before-1] // nothing is left of it, and the URI is the one without a query
		}
	}
	return append(dst, 0)
}

// AppendFields appends the keyed fields to what AppendURI made: together they are the primary key.
func (k *Key) AppendFields(dst []byte, h *head.Request) []byte {
	for _, name := range k.keyedNames() {
		dst = k.appendField(dst, name, &h.Fields)
	}
	return dst
}

// appendField appends a field's name and value for a key, nothing where the request does not have it
// or where nothing is left of it: the origin does not see it then (Forward).
func (k *Key) appendField(dst []byte, name string, fields *head.List) []byte {
	before := len(dst)
	dst = append(dst, name...)
	dst = append(dst, ':')
	with, there := k.appendValue(dst, name, fields)
	if !there || len(with) == len(dst) {
		return dst[:before]
	}
	return append(with, 0)
}

// AppendVariant appends to a primary key what distinguishes answers that vary by names, a list that
// Vary made.
func (k *Key) AppendVariant(dst, names []byte, h *head.Request) []byte {
	dst = append(dst, 1)
	dst = append(dst, names...)
	dst = append(dst, 0)
	for len(names) > 0 {
		var name []byte
		name, names = nextMember(names)
		dst = k.appendField(dst, unsafeString(name), &h.Fields)
	}
	return dst
}

// AppendQuery appends the query that the key has and the origin sees: without the parameters that
// are dropped, and sorted where that is chosen.
func (k *Key) AppendQuery(dst, query []byte) []byte {
	if len(k.drop) == 0 && !k.sortQuery {
		return append(dst, query...)
	}
	start := len(dst)
	var few [32][]byte
	parts := few[:0]
	for rest, more := query, true; more; {
		var part []byte
		part, rest, more = bytes.Cut(rest, []byte("&"))
		if !k.drops(part) {
			parts = append(parts, part)
		}
	}
	if k.sortQuery {
		slices.SortStableFunc(parts, func(a, b []byte) int {
			return bytes.Compare(paramName(a),
				paramName(b))
		})
	}
	for _, part := range parts {
		if len(dst) > start {
			dst = append(dst, '&')
		}
		dst = append(dst, part...)
	}
	return dst
}

func paramName(part []byte) []byte {
	name, _, _ := bytes.Cut(part, []byte("="))
	return name
}

func (k *Key) drops(part []byte) bool {
	name := paramName(part)
	for _, d := range k.drop {
		prefix, open := strings.CutSuffix(d, "*")
		if string(name) == d || open && bytes.HasPrefix(name, []byte(prefix)) {
			return true
		}
	}
	return false
}
