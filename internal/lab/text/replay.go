package text

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/replay"
)

// Kept says how well a replay kept to its log.
type Kept struct {
	// Worst is the largest difference between the requests sent and those due by the log in one of
	// Seconds, as a share of those due.
	Worst   float64 `json:"worst_share"`
	Seconds int     `json:"seconds"` // number of complete seconds
	// At: time of Worst, from the replay's start
	At time.Duration `json:"at_ns"`
	// Drift is the median delay of the requests sent in the last second, in nanoseconds; Known says
	// that there were some.
	Drift int64 `json:"drift_ns"`
	Known bool  `json:"known"`
}

// Replay says what happened to the log's lines, and how well the replay kept to their times.
func Replay(s *replay.Stats, k *Kept) string {
	var table Table
	table.Left = []int{2}
	table.Row("log lines", format.Count(s.Lines), logSpan(s))
	table.Row("  sent as requests", format.Count(s.Taken), "")
	for _, r := range []struct {
		name string
		n    uint64
		why  string
	}{
		{"read, not sent", s.Arrivals - min(s.Taken, s.Arrivals), "the replay ended before"},
		{"unreadable", s.Unreadable, ""},
		{"blank", s.Blank, ""},
		{"outside --from and --to", s.SkippedRange, ""},
		{"of other hosts", s.SkippedHost, ""},
		{"of unsafe methods", s.SkippedUnsafe, "--unsafe sends them"},
		{"left out by --sample", s.SkippedSampled, ""},
	} {
		if r.n > 0 {
			table.Row("  "+r.name, format.Count(r.n), r.why)
		}
	}
	if s.OutOfOrder > 0 {
		table.Row(
			"out of order",
			format.Count(s.OutOfOrder),
			fmt.Sprintf("put back in their place, but for %s that came too late",
				format.Count(s.Late)),
		)
	}
	if s.WithoutAgent > 0 {
		table.Row("without their agent", format.Count(s.WithoutAgent),
			"a request cannot have it")
	}
	out := table.String()
	if len(s.Examples) > 0 {
		lines := make([]string, len(s.Examples))
		for i, e := range s.Examples {
			lines[i] = "    " + Clip(e, 140) + "\n"
		}
		out += "  unreadable, for example:\n" + strings.Join(lines, "")
	}
	return out + kept(k)
}

func logSpan(s *replay.Stats) string {
	if s.First.IsZero() {
		return ""
	}
	const form = "2006-01-02 15:04:05"
	return fmt.Sprintf("%s to %s, %.4gx its speed",
		s.First.Format(form), s.Last.Format(form), s.Speed)
}

func kept(k *Kept) string {
	out := ""
	if k.Seconds > 0 {
		out = fmt.Sprintf("  each second's requests within %s of the log's, over %s",
			format.Percent(k.Worst), many(k.Seconds, "second"))
		if k.Worst > 0 {
			out += fmt.Sprintf("; the most at %s", format.Duration(float64(k.At)))
		}
		out += "\n"
	}
	if k.Known {
		out += fmt.Sprintf("  drift at the end: %s (median send lag of the last second)\n",
			format.Duration(float64(k.Drift)))
	}
	return out
}
