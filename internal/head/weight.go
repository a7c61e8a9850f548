package head

import "bytes"

// Full is the weight of what comes without one, in thousandths.
const Full = 1000

// Weight reads what follows a member of Accept-Encoding and its like: nothing, or q= and a number
// from 0 to 1 with three digits at most (RFC 9110, section 12.4.2). It is given in thousandths.
// False: it is malformed.
func Weight(parameters []byte) (thousandths int, ok bool) {
	p := bytes.TrimSpace(parameters)
	if len(p) == 0 {
		return Full, true
	}
	if len(p) < 3 || p[0]|0x20 != 'q' || p[1] != '=' || p[2] != '0' && p[2] != '1' {
		return 0, false
	}
	thousandths = int(p[2]-'0') * Full
	if p = p[3:]; len(p) == 0 {
		return thousandths, true
	}
	if p[0] != '.' || len(p) > 4 {
		return 0, false
	}
	for i, unit := 1, Full/10; i < len(p); i, unit = i+1, unit/10 {
		if p[i] < '0' || p[i] > '9' {
			return 0, false
		}
		thousandths += int(p[i]-'0') * unit
	}
	return thousandths, thousandths <= Full
}
