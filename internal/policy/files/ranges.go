package files

import (
	"bytes"

	"plimsoll/internal/head"
)

// maxRanges is how many ranges a request may ask for; one with more gets the whole file.
const maxRanges = 16

// span is the bytes of a file from from up to but not including to.
type span struct{ from, to int64 }

func (s span) len() int64 { return s.to - s.from }

// parseRanges reads a Range for a file of size bytes (RFC 9110, section 14.1.2) into spans. ok is false
// where the field is to be ignored: it is not in bytes, malformed, has more ranges than spans has room
// for, or asks for more than the whole file, as ranges that overlap can (section 17.15). Without a span
// none can be satisfied.
func parseRanges(spans []span, value []byte, size int64) (all []span, ok bool) {
	set, ok := head.ByteRanges(value)
	if !ok {
		return nil, false
	}
	all = spans[:0]
	total, named := int64(0), 0
	for more := true; more; {
		var one []byte
		one, set, more = bytes.Cut(set, []byte(","))
		if one = head.Trim(one); len(one) == 0 {
			continue // a list may have empty members (section 5.6.1.2)
		}
		if named++; named > maxRanges {
			return nil, false
		}
		from, to, kind := head.ParseRange(one, size)
		switch kind {
		case head.RangeIgnored:
			return nil, false
		case head.RangeSatisfiable:
			all = append(all, span{from, to})
			total += to - from
		}
	}
	return all, named > 0 && total <= size
}
