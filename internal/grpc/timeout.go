package grpc

import "strconv"

import "math"

// A timeout has at most this many digits.
const timeoutDigits = 8

// timeoutUnits are the units of a timeout, the largest first ("Timeout" in PROTOCOL-HTTP2).
var timeoutUnits = [...]struct {
	letter byte
	ns     int64
}{
	{'H', 3600e9}, {'M', 60e9}, {'S', 1e9}, {'m', 1e6}, {'u', 1e3}, {'n', 1},
}

// ParseTimeout reads the value of grpc-timeout as nanoseconds: one to eight digits and a unit. What
// is too long for 63 bits, which only hours can be, is the longest that there is. Not ok: the value
// is malformed. 0 is read as it stands, although the specification asks for a positive number:
// such a call has no time left.
func ParseTimeout(value []byte) (ns int64, ok bool) {
	digits := len(value) - 1
	if digits < 1 || digits > timeoutDigits {
		return 0, false
	}
	var n int64
	for _, c := range value[:digits] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	for _, unit := range timeoutUnits {
		if unit.letter != value[digits] {
			continue
		}
		if n > math.MaxInt64/unit.ns {
			return math.MaxInt64, true
		}
		return n * unit.ns, true
	}
	return 0, false
}

// AppendTimeout appends a time in nanoseconds as the value of grpc-timeout, in the smallest unit in
// which eight digits hold it. It is rounded down, so that nobody gets more time than there is, by
// less than a ten millionth of the time. What is not above 0 is not a time: "0n".
func AppendTimeout(out []byte, ns int64) []byte {
	const most = 99_999_999
	ns = max(0, ns)
	for i := len(timeoutUnits) - 1; ; i-- {
		unit := timeoutUnits[i]
		if n := ns / unit.ns; n <= most {
			return append(strconv.AppendInt(out, n, 10), unit.letter)
		}
	}
}
