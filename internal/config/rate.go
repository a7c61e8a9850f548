package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of a rate. The limits' own arithmetic has room for these.
const (
	maxRateCount  = 1_000_000_000
	minRatePeriod = time.Millisecond
	maxRatePeriod = 366 * 24 * time.Hour
	maxRate       = 10_000_000 // a second
)

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour}

// ParseRate reads a rate as it is written in a configuration: so many requests in a time.
func ParseRate(text string) (count int64, per time.Duration, err error) {
	digits, unit, found := strings.Cut(text, "/")
	number, err := strconv.ParseUint(digits, 10, 63)
	if !found || err != nil && strings.Trim(digits, "0123456789") != "" || digits == "" {
		return 0, 0, fmt.Errorf("%q is not a rate; write a number of requests and a time, such "+
			"as \"100/s\" or \"20/10s\"",
			clip(text))
	}
	per, known := rateUnits[unit]
	if !known {
		d, err := ParseDuration(unit)
		if err != nil {
			return 0, 0, fmt.Errorf("%q is not a rate; write s, m, h, d or a duration such as "+
				"10s behind the slash",
				clip(text))
		}
		per = time.Duration(d)
	}
	switch {
	case err != nil || number > maxRateCount:
		return 0, 0, fmt.Errorf("%s counts more than %d requests; ask for fewer, in a shorter time",
			clip(text), maxRateCount)
	case number == 0:
		return 0, 0, fmt.Errorf("%s lets nothing pass; give at least 1, or deny by access", clip(text))
	case per < minRatePeriod || per > maxRatePeriod:
		return 0, 0, fmt.Errorf("%s is over a time outside 1ms to 366 days; choose one within", clip(text))
	case float64(number)/per.Seconds() > maxRate:
		return 0, 0, fmt.Errorf("%s is more than %d a second; ask for less, or remove the limit",
			clip(text), maxRate)
	}
	return int64(number), per, nil
}
