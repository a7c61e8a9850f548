package files

import (
	"bytes"

	"plimsoll/internal/head"
)

// weightOf is the weight that a client gives to a coding, in thousandths; 0 if it does not accept
// the coding (RFC 9110, section 12.5.3). Without Accept-Encoding every coding would be allowed, but
// such a client may not know any, so none is used.
func weightOf(fields *head.List, coding string) int {
	weight, star := weights(fields, coding)
	if weight >= 0 {
		return weight
	}
	return max(star, 0)
}

// identityWeight is the weight that a client gives to content without a coding; 0 unless it says
// so.
func identityWeight(fields *head.List) int {
	weight, _ := weights(fields, "identity")
	return max(weight, 0)
}

// weights are the weights of a coding and of "*", in thousandths; -1 if not named.
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
			said, ok := head.Weight(parameter)
			switch name = head.Trim(name); {
			case !ok: // malformed, so not accepted
			case head.FoldsTo(name, coding), coding == "gzip" && head.FoldsTo(name, "x-gzip"):
				weight = said
			case string(name) == "*":
				star = said
			}
		}
	}
	return
}
