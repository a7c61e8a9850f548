package rules

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/head"
)

// Treatment says how a field of a request is treated if the answer to the request may be stored.
// Nothing that one client sends may change an answer that others get, so a field is either hidden
// from the origin, or part of the key, or known not to change the answer. Requests that pass the
// cache are not changed.
type Treatment uint8

// The treatments.
const (
	// Drop: the origin does not see it.
	Drop Treatment = iota
	// Keyed: the origin sees its normalised value, which is part of the key.
	Keyed
	// Negotiated: the origin sees its normalised value, which is part of the key if the answer's
	// Vary names the field. This relies on the origin to name it.
	Negotiated
	// Credential: the origin sees it. The answer to a request with Authorization is stored only if
	// it says that it is for all clients (RFC 9111, section 3.5). With any other credential it is
	// stored only if Vary names the field.
	Credential
	// Plain: the origin sees it unchanged, and the operator guarantees that no answer depends on
	// it.
	Plain
)

// personal reports whether the answer to a request with such a field may be only for its client.
func (t Treatment) personal() bool { return t == Credential || t == Negotiated }

// KeyOptions say which parts of a request the key consists of.
type KeyOptions struct {
	// Fields are the treatments of fields by lower-case name. They override DefaultTreatment.
	Fields map[string]Treatment
	// SortQuery sorts the query's parameters by name; parameters with the same name keep their
	// order.
	SortQuery bool
	// DropQuery names parameters that are left out of the key and of the query that the origin
	// sees. A '*' at the end matches the rest of a name. Names are compared as sent,
	// percent-encoded.
	DropQuery []string
	// Encodings are the content codings, in lower case, that are offered to the origin if the
	// client accepts them; nil for br, gzip and zstd.
	Encodings []string
	// Added names, in lower case, the fields that the gateway adds to forwarded requests, with
	// values that are not part of the key, such as the client's address. A response that varies by
	// one of them is not stored.
	Added []string
}

// Key is compiled KeyOptions. The zero value is that of no options. It is immutable.
type Key struct {
	fields    map[string]Treatment
	names     []string // of keyed fields, sorted
	sortQuery bool
	drop      []string
	encodings []string
	added     []string
}

// DefaultTreatment is the treatment of a field that no option names. name is in lower case. It does
// not concern fields that the gateway itself adds on the way to the origin, which happens later.
func DefaultTreatment(name string) Treatment {
	switch name {
	case "accept", "accept-language", "origin":
		return Keyed
	case "accept-encoding":
		return Negotiated
	case "authorization", "cookie":
		return Credential
	case "host":
		return Plain // the key has it as the host
	}
	return Drop
}

var (
	defaultNames     = []string{"accept", "accept-language", "origin"}
	defaultEncodings = []string{"br", "gzip", "zstd"}
)

const (
	maxKeyed = 32 // fields of a key
	maxName  = 64 // bytes of a name that can have a treatment
)

// NewKey compiles options. The error names the option that makes no sense.
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

// treat is treatment for a name in any letter case.
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

// AppendURI appends the part of the key that does not depend on the request's fields: space, which
// separates routes that answer differently for the same URI, and the URI. path is the path of the
// request to the origin; the query is that of AppendQuery. The parts contain no NUL, so different
// URIs give different results.
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
			dst = dst[:before-1] // the query is empty now, and the URI is that without a query
		}
	}
	return append(dst, 0)
}

// AppendFields appends the keyed fields to the result of AppendURI. Together they are the primary
// key.
func (k *Key) AppendFields(dst []byte, h *head.Request) []byte {
	for _, name := range k.keyedNames() {
		dst = k.appendField(dst, name, &h.Fields)
	}
	return dst
}

// appendField appends a field's name and value to a key. It appends nothing if the request does not
// have the field or its normalised value is empty: the origin does not see it then (Forward).
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

// AppendVariant appends to a primary key what distinguishes answers that vary by names, a list made
// by Vary.
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

// AppendQuery appends the query for the key and for the origin: without dropped parameters, and
// sorted if SortQuery is set.
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
