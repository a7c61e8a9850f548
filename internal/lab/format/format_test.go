package format

import (
	"math"
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

func TestANumberHasThreeDigitsAndItsThousandsApart(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", .05: "0.05", 9.994: "9.99", 12.34: "12.3", 99.94: "99.9", 999.6: "1,000",
		1863.4: "1,863", -1863.4: "-1,863", 2e15: "2000000000000000", math.Inf(1): "+Inf",
	} {
		if got := Digits(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
