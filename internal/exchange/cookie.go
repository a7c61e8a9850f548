package exchange

import (
	"bytes"

	"plimsoll/internal/head"
)

// maxCookies is how many cookies Cookie looks at. It does not find any beyond them.
const maxCookies = 256

// Cookie returns the value of the first cookie with that name in a request's fields, or nil. Names
// are case-sensitive (RFC 6265, section 5.4). The value is as received, including quotes, and
// aliases the field. Cookie does not allocate.
func Cookie(fields *head.List, name string) []byte {
	if !fields.Has(head.Cookie) {
		return nil
	}
	left := maxCookies
	for i := range fields.Len() {
		f := fields.At(i)
		if f.ID != head.Cookie {
			continue
		}
		for rest := f.Value; len(rest) > 0 && left > 0; left-- {
			pair := rest
			if end := bytes.IndexByte(rest, ';'); end >= 0 {
				pair, rest = rest[:end], rest[end+1:]
			} else {
				rest = nil
			}
			for len(pair) > 0 && (pair[0] == ' ' || pair[0] == '\t') {
				pair = pair[1:]
			}
			if len(pair) > len(name) && pair[len(name)] == '=' && string(pair[:len(name)]) == name {
				return bytes.TrimRight(pair[len(name)+1:], " \t")
			}
		}
	}
	return nil
}
