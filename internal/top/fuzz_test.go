package top

import (
	"encoding/json"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"plimsoll/internal/loadline"
)

// Whatever an admin API says, the figures have a view that fits.
func FuzzNothingThatAnAPISaysBreaksTheView(f *testing.F) {
	f.Add([]byte(`{"routes": [{"name": "a", "class": "P0", "requests": 3, "codes": {"5xx": 1},
		"duration_histogram": [{"from_ns": 1, "to_ns": 9, "count": 2}, {"from_ns": 68719476736, "count": 1}],
		"refused": {"overloaded": 2}, "policies": {"limits": {"limits": [{"name": "l", "rate": "5/s"}]}},
		"slo": {"windows": [{"window": "1h", "requests": 1, "burn": 2.5}]}}],
		"upstreams": [{"name": "u", "targets_by_state": {"up": 1}, "breakers_by_state": {"open": 1},
		"concurrency": {"limit": 5, "used": 1}, "outstanding": 9}], "loops": [{"busy": 0.5}],
		"line": {"limit": "u", "headroom": {"low": 0.1, "estimate": 0.2, "high": 0.3}, "upstreams": [{"name": "u"}]}}`),
		[]byte(`{"upstreams": [{"name": "\u001b[2J\u202e", "requests": 18446744073709551615}]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		read := func(text []byte) (*sample, []loopSample) {
			var said struct {
				Routes    []routeSample    `json:"routes"`
				Upstreams []upstreamSample `json:"upstreams"`
				Loops     []loopSample     `json:"loops"`
				Line      *loadline.Status `json:"line"`
			}
			if json.Unmarshal(text, &said) != nil {
				return nil, nil // the client refuses it
			}
			s := at(1, said.Routes, said.Upstreams)
			s.line = said.Line
			return s, said.Loops
		}
		before, _ := read(first)
		after, loops := read(second)
		if before == nil || after == nil {
			return
		}
		for _, now := range []*sample{before, after} {
			for _, line := range lines(compare(before, now, loops), screen{width: 80, colour: true}) {
				if n := ansi.StringWidth(line); n > 80 {
					t.Errorf("%d columns: %q", n, line)
				}
			}
		}
	})
}
