package files

import (
	"bytes"

	"plimsoll/internal/head"
)

// maxRanges is how many ranges a request may ask for; one with more gets the whole file.
const maxRanges = 16

// span is a range of a file's bytes. It includes from and excludes to.
type span struct{ from, to int64 }

func (s span) len() int64 { return s.to - s.from }

// parseRanges reads a Range for a file of size bytes (RFC 9110, section 14.1.2) into spans. ok is
// false if the field must be ignored: its unit is not bytes, it is malformed, it has more than
// maxRanges ranges, or they add up to more than the whole file, which overlapping ranges can
// (section 17.15). If spans is empty and ok is true, no range can be satisfied.
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
