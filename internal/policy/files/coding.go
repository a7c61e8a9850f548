package files

import (
	"bytes"

	"plimsoll/internal/head"
)

// weightOf is how much a client likes a coding, in thousandths; 0 for a client that does not take it
// (RFC 9110, section 12.5.3). Without Accept-Encoding every coding would do; who does not say so may
// not know any, so none is given.
func weightOf(fields *head.List, coding string) int {
	weight, star := weights(fields, coding)
	if weight >= 0 {
		return weight
	}
	return max(star, 0)
}

// identityWeight is how much a client prefers content that is not encoded over one that is: 0 unless
// it says so.
func identityWeight(fields *head.List) int {
	weight, _ := weights(fields, "identity")
	return max(weight, 0)
}

// weights are those of a coding and of "*", in thousandths; -1 for one that is not named.
func weights(fields *head.List, coding string) (weight, star int) {
	weight, star = -1, -1
	if !fields.Has(head.AcceptEncoding) {
		return
	}
	for i := range fields.Len() {
		f := fields.At(i)
		if f.ID != head.AcceptEncoding {
			continue
		}
		for rest := f.Value; len(rest) > 0; {
			var member []byte
			member, rest, _ = bytes.Cut(rest, []byte(","))
			name, parameter, _ := bytes.Cut(member, []byte(";"))
			switch name = head.Trim(name); {
			case head.FoldsTo(name, coding), coding == "gzip" && head.FoldsTo(name, "x-gzip"):
				weight = quality(parameter)
			case string(name) == "*":
				star = quality(parameter)
			}
		}
	}
	return
}

// quality reads a weight (RFC 9110, section 12.4.2) in thousandths: "" is 1, and what is no weight is
// 0, because nothing says that its coding is wanted.
func quality(parameter []byte) int {
	parameter = head.Trim(parameter)
	if len(parameter) == 0 {
		return 1000
	}
	name, value, _ := bytes.Cut(parameter, []byte("="))
	value = head.Trim(value)
	if !head.FoldsTo(head.Trim(name), "q") || len(value) == 0 || len(value) > 5 || len(value) > 1 &&
		value[1] != '.' {
		return 0
	}
	n := int(value[0]) - '0'
	for i := range 3 {
		n *= 10
		if at := 2 + i; at < len(value) {
			if value[at] < '0' || value[at] > '9' {
				return 0
			}
			n += int(value[at] - '0')
		}
	}
	if n < 0 || n > 1000 {
		return 0
	}
	return n
}
