package disk_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/disk"
)

func TestADocumentIsReplacedWholeOrNotAtAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	d, err := disk.Claim(dir, "directory", "name another")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := disk.Replace(d, "x.json", map[string]string{"slo": "p99<50ms"}, 100); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		document any
		want     string
	}{
		{map[string]string{"slo": strings.Repeat("x", 100)}, "bytes, and a reader takes 100"},
		{map[string]float64{"rate": math.NaN()}, "[rate] is not a finite number"},
	} {
		err := disk.Replace(d, "x.json", c.document, 100)
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), filepath.Join(dir, "x.json")) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "x.json"))
	if want := "{\n  \"slo\": \"p99<50ms\"\n}\n"; string(text) != want {
		t.Errorf("%q, %v; want %q", text, err, want)
	}
	if _, err := disk.Claim(dir, "directory", "name another"); err == nil ||
		err.Error() != dir+" is not empty (it holds x.json): name another" {
		t.Error(err)
	}
}

func TestALineIsWholeOrSaysThatItIsNot(t *testing.T) {
	refused := errors.New("refused")
	type outcome struct {
		taken []string
		cut   int
		err   string
	}
	for text, want := range map[string]outcome{
		"":               {},
		"a\nb\n":         {taken: []string{"a", "b"}},
		"a\n\nb":         {taken: []string{"a", ""}, cut: 3},
		"12345678\n":     {taken: []string{"12345678"}},
		"a\n123456789\n": {taken: []string{"a"}, err: "line 2: it is longer than 8 bytes"},
		"a\n1234567890":  {taken: []string{"a"}, err: "line 2: it is longer than 8 bytes"},
		"a\nno\nb\nc\nd": {taken: []string{"a"}, err: "line 2: refused"},
	} {
		var taken []string
		cut, err := disk.Lines(strings.NewReader(text), 8, func(_ int, line []byte) error {
			if string(line) == "no" {
				return refused
			}
			taken = append(taken, string(line))
			return nil
		})
		said := ""
		if err != nil {
			said = err.Error()
		}
		if !slices.Equal(taken, want.taken) || cut != want.cut || said != want.err {
			t.Errorf("%q: %q, cut %d, %v", text, taken, cut, err)
		}
	}
}
