package files

import (
	"bytes"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// maxPath is the longest path of a file in bytes: PATH_MAX, less the terminating zero.
const maxPath = 4095

// wellKnown is the only name beginning with a dot that is always served: it is public (RFC 8615).
const wellKnown = ".well-known"

// key is the path of a file below the root: decoded, without a leading slash, and with a trailing
// slash for a directory. ok is false if the path cannot name a file. The result borrows the
// request's path, or lies in the exchange's memory.
//
// The path is canonical (package route): it has no "." or ".." segments, in any encoding, and no
// empty ones. key only has to refuse what no name can contain, such as an encoded slash, and names
// that are not served.
func (p *Policy) key(x *exchange.Exchange) (key []byte, ok bool) {
	rest := x.Request.Path
	for range p.skip + 1 {
		i := bytes.IndexByte(rest, '/')
		if i < 0 {
			return nil, false
		}
		rest = rest[i+1:]
	}
	if bytes.IndexByte(rest, '%') >= 0 {
		if rest, ok = decode(x.Alloc(len(rest))[:0], rest); !ok {
			return nil, false
		}
	}
	return rest, len(rest) <= maxPath && p.served(rest)
}

// decode appends a decoded path. It refuses bytes that no file name can contain.
func decode(dst, path []byte) ([]byte, bool) {
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			if len(path)-i < 3 || head.Hex(path[i+1]) == head.NotHex || head.Hex(path[i+2]) == head.NotHex {
				return nil, false
			}
			c = head.Hex(path[i+1])<<4 | head.Hex(path[i+2])
			i += 2
			if c == '/' || c == '\\' {
				return nil, false
			}
		}
		if c == 0 {
			return nil, false
		}
		dst = append(dst, c)
	}
	return dst, true
}

// served reports whether all names in a path may be served.
func (p *Policy) served(path []byte) bool {
	for rest := path; ; {
		name, after, more := bytes.Cut(rest, []byte("/"))
		switch {
		case len(name) > 255, len(name) == 0 && more, string(name) == ".", string(name) == "..":
			return false
		case len(name) > 0 && name[0] == '.' && !p.o.Dotfiles && string(name) != wellKnown:
			return false
		case !more:
			return true
		}
		rest = after
	}
}
