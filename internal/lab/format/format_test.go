package format

import (
	"os/exec"
	"strings"
	"testing"
)

// A shell is asked, since it is what has to understand the words.
func TestACommandSaysToAShellWhatItsArgumentsAre(t *testing.T) {
	for _, args := range [][]string{
		{"plain", "a/b.c:1", "k=v,w"}, {"two words", ""}, {"it's", `a"b`, "$HOME", "`id`", "a;b", "*", "~", "#x", "!y", "[a]", "{a,b}", "\\", "a\nb"},
	} {
		out, err := exec.Command("sh", "-c", `show() { for a in "$@"; do printf '%s\0' "$a"; done; }; show `+Command(args...)).Output()
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || strings.Join(got, "|") != strings.Join(args, "|") {
			t.Errorf("%q became %q (%v), by %s", args, got, err, Command(args...))
		}
	}
}
