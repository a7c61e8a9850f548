package grpc_test

import (
	"math"
	"math/big"
	"regexp"
	"testing"

	"plimsoll/internal/grpc"
)

func TestParseTimeout(t *testing.T) {
	for text, want := range map[string]int64{
		"1n": 1, "1u": 1e3, "1m": 1e6, "1S": 1e9, "1M": 60e9, "1H": 3600e9, "00000001S": 1e9,
		"0n": 0, "0H": 0, "99999999n": 99_999_999, "99999999S": 99_999_999e9,
		"2562047H": 2562047 * 3600e9, "2562048H": math.MaxInt64, "99999999H": math.MaxInt64,
		"99999999M": 99_999_999 * 60e9,
		"":          -1, "1": -1, "S": -1, "1s": -1, "1h": -1, "-1S": -1, "+1S": -1, "1.5S": -1, " 1S": -1,
		"1S ": -1, "1 S": -1, "000000001S": -1, "100000000n": -1, "1SS": -1, "1µ": -1, "0x1S": -1,
	} {
		got, ok := grpc.ParseTimeout([]byte(text))
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: got %d %v, want %d", text, got, ok, want)
		}
	}
}

func TestAppendTimeout(t *testing.T) {
	for ns, want := range map[int64]string{
		-1: "0n", math.MinInt64: "0n", 0: "0n", 1: "1n", 99_999_999: "99999999n", 100_000_000: "100000u",
		100_000_999: "100000u", 99_999_999_999: "99999999u", 100_000_000_000: "100000m",
		99_999_999_999_999: "99999999m", 100_000_000_000_000: "100000S", math.MaxInt64: "2562047H",
		99_999_999_999_999_999: "99999999S", 100_000_000_000_000_000: "1666666M",
	} {
		if got := grpc.AppendTimeout([]byte("x"), ns); string(got) != "x"+want {
			t.Errorf("%d ns: got %q, want %q behind x", ns, got, want)
		}
	}
}

var timeoutForm = regexp.MustCompile(`^[0-9]{1,8}[HMSmun]$`)

// FuzzParseTimeout compares with the grammar as a regular expression and arithmetic without bounds.
func FuzzParseTimeout(f *testing.F) {
	for _, seed := range []string{"1n", "99999999H", "2562048H", "000000001S", "1x", ""} {
		f.Add(seed)
	}
	units := map[byte]int64{'H': 3600e9, 'M': 60e9, 'S': 1e9, 'm': 1e6, 'u': 1e3, 'n': 1}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := grpc.ParseTimeout([]byte(text))
		if ok != timeoutForm.MatchString(text) {
			t.Fatalf("%q: ok is %v", text, ok)
		}
		if !ok {
			return
		}
		want, _ := new(big.Int).SetString(text[:len(text)-1], 10)
		want.Mul(want, big.NewInt(units[text[len(text)-1]]))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got != want.Int64() {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	})
}

// FuzzAppendTimeout checks that what is written can be read, and is never more than there is, nor
// less by more than a part in ten million, or in a million where only a larger unit was left.
func FuzzAppendTimeout(f *testing.F) {
	for _, seed := range []int64{0, 1, 100_000_000, math.MaxInt64} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		text := grpc.AppendTimeout(nil, ns)
		back, ok := grpc.ParseTimeout(text)
		if !ok {
			t.Fatalf("%d is written %q, which cannot be read", ns, text)
		}
		if lost := max(0, ns) - back; lost < 0 || lost > max(0, ns)/99_999 {
			t.Errorf("%d is written %q, which is %d", ns, text, back)
		}
	})
}
