package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written as a number with a unit: "1.5s", "5m", "250ms", "1h30m".
// Never negative.
type Duration time.Duration

// Size is a count of bytes, written as "512B", "8KB", "1MB", "1GB" or "1TB" with KB = 1024 bytes,
// or as a bare integer of bytes. Never negative.
type Size int64

// Percent is a share from 0 to 1, written as "20%".
type Percent float64

// ParseDuration reads a Duration as it is written in a configuration.
func ParseDuration(text string) (Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil && isNumber(text):
		return 0, fmt.Errorf("%q has no unit; write \"%ss\" for seconds or \"%sms\" for "+
			"milliseconds", text, text, text)
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write a number with a unit of ms, s, m or h, "+
			"such as \"1.5s\"", text)
	case d < 0:
		return 0, fmt.Errorf("%q is negative; a duration is 0s or longer", text)
	}
	return Duration(d), nil
}

// String is the duration as it is written in a configuration, without units that are zero ("1h",
// not "1h0m0s") and in seconds up to two minutes, as people say them ("75s").
func (d Duration) String() string {
	if seconds := time.Duration(d) / time.Second; time.Duration(d)%time.Second == 0 && seconds < 120 {
		return strconv.FormatInt(int64(seconds), 10) + "s"
	}
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}}

var errSize = errors.New("write a whole number of bytes, or one with a unit of B, KB (1024 " +
	"bytes), MB, GB or TB, such as \"64KB\"")

// ParseSize reads a Size as it is written in a configuration.
func ParseSize(text string) (Size, error) {
	digits, unit := text, int64(1)
	for _, u := range sizeUnits {
		if rest, found := strings.CutSuffix(text, u.suffix); found {
			digits, unit = rest, u.bytes
			break
		}
	}
	// ParseUint takes no sign, so that "-1" and "+1" are refused with the rest.
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size; %w", text, errSize)
	}
	if int64(n) > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is larger than any size can be; %w", text, errSize)
	}
	return Size(int64(n) * unit), nil
}

// String is the size in the largest unit that divides it: "8KB", "1500B".
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// ParsePercent reads a Percent as it is written in a configuration.
func ParsePercent(text string) (Percent, error) {
	digits, found := strings.CutSuffix(text, "%")
	if !found && isNumber(text) {
		return 0, fmt.Errorf("%q has no percent sign; write \"20%%\" for a fifth", text)
	}
	n, err := strconv.ParseFloat(digits, 64)
	if !found || err != nil || !isNumber(digits) {
		return 0, fmt.Errorf("%q is not a share; write a number and a percent sign, such as \"20%%\"", text)
	}
	if n < 0 || n > 100 {
		return 0, fmt.Errorf("%q is outside 0%% to 100%%; choose a share within", text)
	}
	return Percent(n / 100), nil
}

// String is the share as it is written in a configuration: "20%".
func (p Percent) String() string {
	// Six digits hide the binary fraction that a division by 100 leaves behind.
	text := strconv.FormatFloat(float64(p)*100, 'f', 6, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

// isNumber reports whether text is a plain decimal number, without the hexadecimal, exponents,
// names and underscores that strconv also takes.
func isNumber(text string) bool {
	text = strings.TrimPrefix(text, "-")
	whole, fraction, _ := strings.Cut(text, ".")
	return whole != "" && strings.Trim(whole, "0123456789") == "" &&
		strings.Trim(fraction, "0123456789") == ""
}
