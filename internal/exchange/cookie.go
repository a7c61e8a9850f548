package exchange

import (
	"bytes"

	"plimsoll/internal/head"
)

// maxCookies bounds the cookies that Cookie looks at; what a client sends beyond them is not found.
const maxCookies = 256

// Cookie is the value of the first cookie of that name in a request's fields, or nil. Names are
// case-sensitive (RFC 6265, section 5.4). The value is as it came, quotes and all, and borrowed
// from the field. It does not allocate.
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
