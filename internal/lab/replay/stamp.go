package replay

import "bytes"

// stamp is a parsed time of a log.
type stamp struct {
	at   int64 // Unix nanoseconds
	unit int64 // unit of its last digit, in nanoseconds: 1e9 for whole seconds
}

// The accepted years. Their nanoseconds fit in 64 bits.
const firstYear, lastYear = 1970, 2200

const secondNs = 1_000_000_000

// parseStamp parses a time in any of the usual forms of access logs: the local time of nginx and
// Apache (20/Nov/2026:08:00:00 +0100), ISO 8601 (2026-11-20T08:00:00.123+01:00; UTC if it has no
// zone), and seconds since 1970 with a fraction. A whole number too large for seconds is
// milliseconds, microseconds or nanoseconds.
func parseStamp(b []byte) (stamp, bool) {
	switch {
	case len(b) > 4 && b[2] == '/':
		return parseLocal(b)
	case len(b) > 4 && b[4] == '-':
		return parseISO(b)
	}
	return parseNumber(b)
}

// parseLocal reads 02/Jan/2006:15:04:05 -0700.
func parseLocal(b []byte) (s stamp, ok bool) {
	if len(b) != len("02/Jan/2006:15:04:05 -0700") || b[2] != '/' || b[6] != '/' || b[11] != ':' ||
		b[20] != ' ' {
		return s, false
	}
	day, ok1 := digits(b[:2])
	month, ok2 := monthOf(b[3:6])
	year, ok3 := digits(b[7:11])
	clock, ok4 := parseClock(b[12:20])
	zone, ok5 := parseZone(b[21:])
	days, ok6 := daysSince1970(year, month, day)
	return stamp{(days*86400 + clock - zone) * secondNs, secondNs},
		ok1 && ok2 && ok3 && ok4 && ok5 && ok6
}

// parseISO reads 2006-01-02T15:04:05 with or without a fraction and a zone.
func parseISO(b []byte) (s stamp, ok bool) {
	const whole = len("2006-01-02T15:04:05")
	if len(b) < whole || b[4] != '-' || b[7] != '-' ||
		(b[10] != 'T' && b[10] != ' ' && b[10] != 't') {
		return s, false
	}
	year, ok1 := digits(b[:4])
	month, ok2 := digits(b[5:7])
	day, ok3 := digits(b[8:10])
	clock, ok4 := parseClock(b[11:whole])
	days, ok5 := daysSince1970(year, month, day)
	if !(ok1 && ok2 && ok3 && ok4 && ok5) {
		return s, false
	}
	rest := b[whole:]
	fraction, unit := int64(0), int64(secondNs)
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		n := 1
		for n < len(rest) && isDigit(rest[n]) {
			n++
		}
		if fraction, unit, ok = parseFraction(rest[1:n]); !ok {
			return s, false
		}
		rest = rest[n:]
	}
	zone := int64(0)
	if len(rest) > 0 && string(rest) != "Z" && string(rest) != "z" {
		if zone, ok = parseZone(rest); !ok {
			return s, false
		}
	}
	return stamp{(days*86400+clock-zone)*secondNs + fraction, unit}, true
}

// parseNumber reads seconds since 1970 with a fraction, or a whole number of a smaller unit.
func parseNumber(b []byte) (s stamp, ok bool) {
	whole, fraction, dot := bytes.Cut(b, []byte("."))
	if len(whole) == 0 || len(whole) > 19 || dot && len(fraction) == 0 {
		return s, false
	}
	n, ok := digits(whole)
	if !ok {
		return s, false
	}
	s = stamp{0, secondNs}
	switch {
	case n < 1e11:
	case dot:
		return s, false
	case n < 1e14:
		s.unit = 1_000_000
	case n < 1e17:
		s.unit = 1_000
	default:
		s.unit = 1
	}
	if n > daysMax*86400*(secondNs/s.unit) {
		return s, false
	}
	s.at = n * s.unit
	if dot {
		var f int64
		if f, s.unit, ok = parseFraction(fraction); !ok {
			return s, false
		}
		s.at += f
	}
	return s, true
}

// parseFraction reads the digits after a decimal point as nanoseconds, and drops anything finer.
func parseFraction(b []byte) (ns, unit int64, ok bool) {
	if len(b) == 0 || len(b) > 30 {
		return 0, 0, false
	}
	if len(b) > 9 {
		if _, ok := digits(b[9:min(len(b), 27)]); !ok {
			return 0, 0, false
		}
		b = b[:9]
	}
	n, ok := digits(b)
	unit = secondNs
	for range b {
		unit /= 10
	}
	return n * unit, unit, ok
}

// parseSeconds reads a duration such as 0.123, in nanoseconds, up to a day.
func parseSeconds(b []byte) (ns int64, ok bool) {
	s, ok := parseNumber(b)
	return s.at, ok && s.at <= 86400*secondNs
}

// parseClock reads 15:04:05 as seconds of the day.
func parseClock(b []byte) (int64, bool) {
	h, ok1 := digits(b[:2])
	m, ok2 := digits(b[3:5])
	s, ok3 := digits(b[6:8])
	ok := ok1 && ok2 && ok3 && b[2] == ':' && b[5] == ':' && h < 24 && m < 60 && s <= 60
	return h*3600 + m*60 + s, ok
}

// parseZone reads -0700 or -07:00 as seconds east of Greenwich.
func parseZone(b []byte) (int64, bool) {
	if len(b) == 6 && b[3] == ':' {
		b = []byte{b[0], b[1], b[2], b[4], b[5]}
	}
	if len(b) != 5 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	h, ok1 := digits(b[1:3])
	m, ok2 := digits(b[3:5])
	east := h*3600 + m*60
	if b[0] == '-' {
		east = -east
	}
	return east, ok1 && ok2 && h < 24 && m < 60
}

var months = [12]string{
	"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
}

func monthOf(b []byte) (int64, bool) {
	for i, m := range months {
		if string(b) == m {
			return int64(i + 1), true
		}
	}
	return 0, false
}

// daysMax is roughly the last day of the last accepted year.
const daysMax = (lastYear - firstYear + 1) * 366

var daysIn = [13]int64{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// daysSince1970 counts days in the Gregorian calendar. It lets years begin in March, so that the
// leap day is the last of a year.
func daysSince1970(year, month, day int64) (int64, bool) {
	if year < firstYear || year > lastYear || month < 1 || month > 12 || day < 1 ||
		day > daysIn[month] {
		return 0, false
	}
	leap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
	if month == 2 && day == 29 && !leap {
		return 0, false
	}
	if month <= 2 {
		year--
		month += 12
	}
	ofYear := (153*(month-3)+2)/5 + day - 1
	return year*365 + year/4 - year/100 + year/400 + ofYear - 719468, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits reads a whole number of up to 18 digits, or of 19 if it fits in an int64.
func digits(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n >= 0
}
