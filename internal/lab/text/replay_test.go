package text_test

import (
	"testing"
	"time"

	"plimsoll/internal/lab/replay"
	"plimsoll/internal/lab/text"
)

func TestWhatBecameOfALog(t *testing.T) {
	began := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	s := &replay.Stats{
		Lines:         120_010,
		Blank:         1,
		Unreadable:    2,
		SkippedUnsafe: 7,
		Arrivals:      120_000,
		Taken:         119_000,
		OutOfOrder:    3,
		Late:          1,
		WithoutAgent:  4,
		Examples:      []string{"line 7: a request line of 3 words is expected: \"\x16\x03\x01\""},
		First:         began,
		Last:          began.Add(40 * time.Second),
		Speed:         2,
	}
	golden(
		t,
		"replay.txt",
		text.Replay(s, &text.Kept{
			Worst:   .0031,
			Seconds: 20,
			At:      8 * time.Second,
			Drift:   12_000,
			Known:   true,
		}),
	)
	golden(t, "replay-nothing.txt", text.Replay(&replay.Stats{}, &text.Kept{}))
}
