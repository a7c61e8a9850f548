package text_test

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/text"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with testdata/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (run with -update when it is right):\n%s", name, d)
	}
}

func TestDurationsHaveThreeDigitsAndTheUnitThatSuits(t *testing.T) {
	for ns, want := range map[float64]string{
		0:          "0 ns",
		7:          "7.00 ns",
		870:        "870 ns",
		999.6:      "1.00 µs",
		12_340:     "12.3 µs",
		999_499:    "999 µs",
		999_501:    "1.00 ms",
		1.24e6:     "1.24 ms",
		2.05e9:     "2.05 s",
		30e9:       "30.0 s",
		99.96e9:    "1 min 40 s",
		125e9:      "2 min 05 s",
		5400e9:     "1 h 30 min",
		-2e6:       "-2.00 ms",
		math.NaN(): "?",
	} {
		if got := format.Duration(ns); got != want {
			t.Errorf("%v ns is %q, want %q", ns, got, want)
		}
	}
}

func TestFiguresAreSaidAsPeopleReadThem(t *testing.T) {
	for got, want := range map[string]string{
		format.Count(0):                                   "0",
		format.Count(999):                                 "999",
		format.Count(1000):                                "1,000",
		format.Count(-1234567):                            "-1,234,567",
		format.Rate(1905.4):                               "1,905/s",
		format.Rate(12.5):                                 "12.5/s",
		format.Rate(0):                                    "0/s",
		format.Rate(math.Inf(1)):                          "?",
		format.Percent(0):                                 "0 %",
		format.Percent(1):                                 "100 %",
		format.Percent(.0123):                             "1.23 %",
		format.Percent(.00001):                            "< 0.01 %",
		format.Percent(.999999):                           "> 99.99 %",
		format.Percent(.9998):                             "99.98 %",
		format.Percent(.34):                               "34.0 %",
		format.Figure(1905, "/s"):                         "1,905/s",
		format.Figure(5e6, "ns"):                          "5.00 ms",
		format.Figure(.0005, "s"):                         "500 µs",
		format.Figure(3, "cows"):                          "3.00 cows",
		format.Bytes(12):                                  "12.0 B",
		format.Bytes(999):                                 "999 B",
		format.Bytes(12.1e6):                              "12.1 MB",
		format.Bytes(999_600):                             "1.00 MB",
		text.Rates(model.Interval{Low: 1850, High: 1960}): "1,850 to 1,960/s",
		text.Rates(model.Interval{Low: 100, High: 100}):   "100/s",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestColumnsAreAlignedByWhatIsSeen(t *testing.T) {
	var table text.Table
	table.Left = []int{2}
	table.Row("µs", "1", "é")
	table.Row("longer", "1,000", "words", "7")
	want := "  µs           1   é\n  longer   1,000   words   7\n"
	if got := table.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if (&text.Table{}).String() != "" {
		t.Error("a table of nothing is something")
	}
}

func TestNothingFromOutsideMovesTheCursor(t *testing.T) {
	if got := text.Clip("a\x1b[2Jb\nc\u202ed\u2067e\xff", 80); got != "a·[2Jb·c·d·e·" {
		t.Errorf("%q", got)
	}
	if got := text.Clip("übermäßig", 5); got != "über…" {
		t.Errorf("%q", got)
	}
}

func FuzzClip(f *testing.F) {
	f.Add("abc\x1b[31m", 3)
	f.Fuzz(func(t *testing.T, line string, columns int) {
		got := text.Clip(line, columns)
		if columns > 0 && utf8.RuneCountInString(got) > columns ||
			strings.ContainsAny(got, "\x1b\n\r\x00") {
			t.Errorf("Clip(%q, %d) is %q", line, columns, got)
		}
	})
}

func TestADemandThatWasMeasuredOnceHasNoRange(t *testing.T) {
	once := model.Interval{Low: 2e-5, Estimate: 2e-5, High: 2e-5}
	said := text.Model(&model.Model{
		Demands: []model.Demand{{Resource: "generator cpu", Unit: "s", Capacity: 1, Per: once}},
	})
	if !strings.Contains(said, " 20.0 µs  ") || strings.Contains(said, "20.0 µs (") {
		t.Error(said)
	}
}
