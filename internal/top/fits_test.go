//go:build !race

package top

import (
	"errors"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// Nothing wraps, nothing moves the cursor, and no screen has more lines than it is high.
func TestEveryLineFitsOnEveryScreen(t *testing.T) {
	f := some()
	f.Notes = []string{"a note " + evil, strings.Repeat("long ", 50)}
	f.Gateway.Limit, f.Address = evil, "http://"+strings.Repeat("h", 70)+":9900"
	for width := 1; width <= 140; width++ {
		for _, height := range []int{0, 1, 2, 5, 11, 24, 60} {
			for _, help := range []bool{false, true} {
				s := screen{width: width, height: height, scroll: height / 2, colour: true, help: help}
				s.footer = []text{trouble(errors.New(evil), began, began), status(s, false)}
				got := lines(f, s)
				if height > 0 && len(got) != height {
					t.Fatalf("%d lines on %d×%d", len(got), width, height)
				}
				for _, line := range got {
					if n := ansi.StringWidth(line); n > width {
						t.Fatalf("%d columns on %d×%d: %q", n, width, height, line)
					}
					bare := line
					for _, code := range append(codes[1:], "\x1b[0m") {
						bare = strings.ReplaceAll(bare, code, "")
					}
					if i := strings.IndexFunc(bare, func(r rune) bool {
						return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\ufffd'
					}); i >= 0 {
						t.Fatalf("%q moves the cursor", line)
					}
				}
			}
		}
	}
}
