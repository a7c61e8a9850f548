package head

import "time"

// ParseDate reads an HTTP-date (RFC 9110, section 5.6.7) as seconds since 1970. now, nanoseconds
// since 1970, tells the century of a year with two digits.
func ParseDate(b []byte, now int64) (int64, bool) {
	if t, ok := parseFixdate(b); ok {
		return t, true
	}
	if len(b) < 24 || len(b) > 33 {
		return 0, false
	}
	if t, err := time.Parse("Mon Jan _2 15:04:05 2006", string(b)); err == nil {
		return t.Unix(), true
	}
	t, err := time.Parse("Monday, 02-Jan-06 15:04:05 GMT", string(b))
	if err != nil {
		return 0, false
	}
	// A year that seems more than 50 years ahead is the last one in the past with these digits.
	this := time.Unix(0, now).UTC()
	year := this.Year() - this.Year()%100 + t.Year()%100
	at := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	if at.After(this.AddDate(50, 0, 0)) {
		at = at.AddDate(-100, 0, 0)
	}
	return at.Unix(), true
}

const fixdate = "Mon, 02 Jan 2006 15:04:05 GMT"

// parseFixdate reads the one form that is still written, and allocates nothing.
func parseFixdate(b []byte) (int64, bool) {
	if len(b) != len(fixdate) || b[3] != ',' || b[4] != ' ' || b[7] != ' ' || b[11] != ' ' || b[16] != ' ' ||
		b[19] != ':' || b[22] != ':' || string(b[25:]) != " GMT" || !isWeekday(b[:3]) {
		return 0, false
	}
	month := monthOf(b[8:11])
	day, ok1 := digits(b[5:7])
	year, ok2 := digits(b[12:16])
	hour, ok3 := digits(b[17:19])
	minute, ok4 := digits(b[20:22])
	sec, ok5 := digits(b[23:25])
	if month == 0 || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || day < 1 || hour > 23 || minute > 59 || sec > 60 {
		return 0, false
	}
	// A leap second is read as the one before, a date that does not exist not at all.
	t := time.Date(year, month, day, hour, minute, min(sec, 59), 0, time.UTC)
	return t.Unix(), t.Day() == day
}

func digits(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func isWeekday(b []byte) bool {
	switch string(b) {
	case "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun":
		return true
	}
	return false
}

var months = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// monthOf is the month that a name of three letters stands for, 0 for none.
func monthOf(b []byte) time.Month {
	for i, name := range months {
		if string(b) == name {
			return time.Month(i + 1)
		}
	}
	return 0
}

// AppendDate appends a time, nanoseconds since 1970, as an HTTP-date.
func AppendDate(dst []byte, at int64) []byte {
	return time.Unix(0, at).UTC().AppendFormat(dst, fixdate)
}
