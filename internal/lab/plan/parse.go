package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Share is a share as typed: "20%", "20 %", "0.2".
type Share float64

// UnmarshalText parses a share. Its error shows the format.
func (s *Share) UnmarshalText(text []byte) error {
	v, ok := share(string(text))
	if !ok {
		return fmt.Errorf("%.40q is not a share: write 20%% or 0.2", text)
	}
	*s = Share(v)
	return nil
}

// Growth is the share by which the load grows per minute, as typed: "5%/min", "0.1%/s", "80%/h".
type Growth float64

// UnmarshalText parses a growth. Its error shows the format.
func (g *Growth) UnmarshalText(text []byte) error {
	amount, unit, found := strings.Cut(string(text), "/")
	minutes := map[string]float64{
		"s":    1. / 60,
		"sec":  1. / 60,
		"m":    1,
		"min":  1,
		"h":    60,
		"hour": 60,
	}[strings.TrimSpace(unit)]
	v, ok := share(amount)
	if !ok || found && minutes == 0 {
		return fmt.Errorf("%.40q is not a growth rate: write 5%%/min, 0.1%%/s or 80%%/h", text)
	}
	if !found {
		minutes = 1
	}
	*g = Growth(v / minutes)
	return nil
}

// share parses a finite number that may be a percentage.
func share(text string) (v float64, ok bool) {
	text = strings.TrimSpace(text)
	number, isPercent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	if isPercent {
		v /= 100
	}
	return v, true
}
