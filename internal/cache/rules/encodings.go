package rules

import (
	"bytes"
	"cmp"
	"slices"

	"plimsoll/internal/head"
)

// maxEncodings is how many content codings a key may distinguish.
const maxEncodings = 8

// preference is a coding that a client accepts, with its weight.
type preference struct {
	coding string
	weight int // thousandths
}

// normalEncodings rewrites Accept-Encoding as the known codings that the client prefers to plain
// content, in order of preference. Codings that it prefers equally are sorted and have the same
// weight; the weights are 1, and 0.1 less for each step. So the client's preference reaches the
// service, and the number of different values is limited; all browsers use the same one. If no
// coding is acceptable, the value is empty, which asks for no coding. "identity;q=0" is ignored: if
// the origin does not encode, there is nothing else for such a client.
func (k *Key) normalEncodings(b []byte, start int) []byte {
	value := b[start:]
	codings := k.encodings
	if codings == nil {
		codings = defaultEncodings
	}
	plain, _ := weightOf(value, "identity", false)
	var few [maxEncodings]preference
	taken := few[:0]
	for _, coding := range codings {
		weight, _ := weightOf(value, coding, true)
		if weight > 0 && weight >= plain && len(taken) < maxEncodings {
			taken = append(taken, preference{coding, weight})
		}
	}
	slices.SortStableFunc(taken, func(a, b preference) int { return cmp.Compare(b.weight, a.weight) })
	b = b[:start]
	step := 0
	for i, t := range taken {
		if i > 0 {
			b = append(b, ", "...)
			if t.weight < taken[i-1].weight {
				step++
			}
		}
		b = append(b, t.coding...)
		if step > 0 {
			b = append(b, ";q=0."...)
			b = append(b, byte('0'+10-step))
		}
	}
	return b
}

// weightOf returns the weight, in thousandths, that a value of Accept-Encoding gives to a coding
// (RFC 9110, section 12.5.3), and whether the value names it. star says that "*" stands for the
// coding if it is not named.
func weightOf(value []byte, coding string, star bool) (weight int, named bool) {
	others := 0
	for len(value) > 0 {
		var member []byte
		member, value = nextMember(value)
		name, parameters, _ := bytes.Cut(member, []byte(";"))
		name = trim(name)
		said, ok := head.Weight(parameters)
		switch {
		case !ok: // malformed, so it is ignored
		case is(name, coding), coding == "gzip" && is(name, "x-gzip"):
			named, weight = true, max(weight, said)
		case string(name) == "*":
			others = said
		}
	}
	if !named && star {
		return others, false
	}
	return weight, named
}

// forbidsTransform reports whether a request has no-transform (RFC 9111, section 5.2.1.6). Such a
// request is looked up and fetched as if it accepted no coding, because responses stored under
// codings may have been encoded by the gateway.
func forbidsTransform(fields *head.List) bool {
	if !fields.Has(head.CacheControl) {
		return false
	}
	var d Directives
	d.reset()
	for i := range fields.Len() {
		if f := fields.At(i); f.ID == head.CacheControl {
			d.add(f.Value)
		}
	}
	return d.Has(NoTransform)
}
