package text

import "plimsoll/internal/lab/words"

// Figures are worded in package words.
var (
	Duration = words.Duration
	Rate     = words.Rate
	Percent  = words.Percent
	Figure   = words.Figure
	Bytes    = words.Bytes
	Clean    = words.Clean
	digits   = words.Digits
)

// Count is a whole number with its thousands set apart: "300,012".
func Count[N int | int64 | uint64](n N) string { return words.Count(n) }
