package route

import (
	"bytes"

	"plimsoll/internal/head"
)

// Canonical splits an origin-form target ("/a/b?x=1", RFC 9112, section 3.2.1) into its canonical
// path and its query. The path is what is matched, authorised, logged, keyed and forwarded, so that
// no two of them can read a target differently. In it
//
//   - unreserved characters are not encoded, and every other character that a path cannot hold is
//     (RFC 3986, sections 6.2.2.2 and 3.3); the digits of an encoding are upper-case;
//   - there are no "." and ".." segments (section 5.2.4), encoded or not, and no empty segments but
//     the last;
//   - %2F stays encoded and is not a separator; ";" stays, as a part of its segment.
//
// Targets that servers are known to read in two ways are refused, see Error. The query is what
// follows the first "?", unchanged; it is nil where there is no "?". The target "*" is its own
// path.
//
// Where the path is canonical already, which is by far the most, path is a part of target.
// Otherwise it is appended to dst, which must not overlap target, and is valid as long as dst's
// memory; no memory is allocated when dst has room for 3*len(target) bytes. Both results are nil
// when err is not OK.
func Canonical(dst, target []byte) (path, query []byte, err Error) {
	if len(target) == 0 || target[0] != '/' {
		if len(target) == 1 && target[0] == '*' {
			return target, nil, OK
		}
		return nil, nil, NotOrigin
	}
	path = target
	if q := bytes.IndexByte(target, '?'); q >= 0 {
		path, query = target[:q:q], target[q+1:]
	}
	if isCanonical(path) {
		return path, query, OK
	}
	if path, err = rebuild(dst, path); err != OK {
		return nil, nil, err
	}
	return path, query, OK
}

// HasDots says whether a path for which Canonical has found no error has "." or ".." segments,
// encoded or not.
func HasDots(path []byte) bool {
	for more := true; more; {
		var segment []byte
		segment, path, more = bytes.Cut(path, []byte("/"))
		dots := 0
		for len(segment) > 0 && dots < 3 {
			switch {
			case segment[0] == '.':
				segment = segment[1:]
			case len(segment) >= 3 && segment[0] == '%' && segment[1] == '2' && segment[2]|0x20 == 'e':
				segment = segment[3:]
			default:
				segment, dots = nil, 3
			}
			dots++
		}
		if dots == 1 || dots == 2 {
			return true
		}
	}
	return false
}

// The classes of a path's bytes.
const (
	refused   = iota // controls, space, "#", and what is above 0x7e
	plain            // stands for itself
	slash            // a separator
	percent          // begins an encoding
	encodable        // visible, and nothing that a path may hold: it is forwarded encoded
	backslash
)

// class tells what a byte is in a path. A target's "?" is gone before it is asked for.
var class = func() (t [256]uint8) {
	for c := byte('!'); c <= '~'; c++ {
		t[c] = plain
	}
	for _, c := range []byte("\"<>[]^`{|}?") {
		t[c] = encodable
	}
	t['/'], t['%'], t['\\'], t['#'] = slash, percent, backslash, refused
	return
}()

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' ||
		c == '.' || c == '_' || c == '~'
}

// isCanonical is the fast way: one scan, one table look-up for each byte, and a second look only
// after a slash or a percent sign. It may say no to a path that is canonical, and rebuild then
// makes an equal one; it never says yes to one that is not.
func isCanonical(p []byte) bool {
	for i := 0; i < len(p); i++ {
		switch class[p[i]] {
		case plain:
		case slash:
			if rest := p[i+1:]; len(rest) > 0 && (rest[0] == '/' || rest[0] == '.' && dotsAhead(rest)) {
				return false
			}
		case percent:
			if !isSettled(p[i:]) {
				return false
			}
			i += 2
		default:
			return false
		}
	}
	return true
}

// dotsAhead says whether s, which begins with a dot, may begin with a dot segment, hidden or not.
func dotsAhead(s []byte) bool {
	n := 1
	if len(s) > 1 && s[1] == '.' {
		n = 2
	}
	return len(s) == n || s[n] == '/' || s[n] == ';' || s[n] == '%'
}

// isSettled says whether the encoding at the start of s is one that stays as it is.
func isSettled(s []byte) bool {
	if len(s) < 3 || head.Hex(s[1]) == head.NotHex || head.Hex(s[2]) == head.NotHex ||
		s[1] >= 'a' || s[2] >= 'a' {
		return false
	}
	c := head.Hex(s[1])<<4 | head.Hex(s[2])
	if c == '/' && len(s) > 3 && s[3] == '.' {
		return false
	}
	return c >= ' ' && c != 0x7f && c != '\\' && !unreserved(c)
}

// rebuild appends the canonical form of p, which begins with a slash, to dst and returns what it
// appended. Segments are decoded before they are judged, so that "%2e%2e" is the ".." that the
// upstream would see.
func rebuild(dst, p []byte) ([]byte, Error) {
	base := len(dst)
	open := false // the path ends in a slash
	for len(p) > 0 {
		segment := p[1:]
		p = nil
		if i := bytes.IndexByte(segment, '/'); i >= 0 {
			segment, p = segment[:i], segment[i:]
		}
		mark := len(dst)
		var err Error
		if dst, err = appendSegment(append(dst, '/'), segment); err != OK {
			return nil, err
		}
		open = true
		switch s := dst[mark+1:]; {
		case len(s) == 0, string(s) == ".":
			dst = dst[:mark]
		case string(s) == "..":
			if mark == base {
				return nil, AboveRoot
			}
			dst = dst[:base+bytes.LastIndexByte(dst[base:mark], '/')]
		case hidesDots(s):
			return nil, HiddenDots
		default:
			open = false
		}
	}
	if open {
		dst = append(dst, '/')
	}
	return dst[base:], OK
}

const upperHex = "0123456789ABCDEF"

// appendSegment appends the canonical form of one segment's bytes.
func appendSegment(dst, s []byte) ([]byte, Error) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch class[c] {
		case plain:
			dst = append(dst, c)
			continue
		case refused:
			return nil, BadByte
		case backslash:
			return nil, Backslash
		case percent:
			if len(s)-i < 3 || head.Hex(s[i+1]) == head.NotHex || head.Hex(s[i+2]) == head.NotHex {
				return nil, BadEscape
			}
			c = head.Hex(s[i+1])<<4 | head.Hex(s[i+2])
			i += 2
			if c < ' ' || c == 0x7f {
				return nil, EncodedControl
			}
			if c == '\\' {
				return nil, Backslash
			}
			if unreserved(c) {
				dst = append(dst, c)
				continue
			}
		}
		dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
	}
	return dst, OK
}

// hidesDots says whether a canonical segment would be, or hold, a dot segment for a server that
// decodes %2F before it resolves dots, or that takes ";parameters" off first, as Tomcat does.
func hidesDots(s []byte) bool {
	for more := true; more; {
		var piece []byte
		piece, s, more = bytes.Cut(s, []byte("%2F"))
		piece, _, _ = bytes.Cut(piece, []byte(";"))
		piece, _, _ = bytes.Cut(piece, []byte("%3B"))
		if string(piece) == "." || string(piece) == ".." {
			return true
		}
	}
	return false
}
