package compress_test

import (
	"bytes"
	"fmt"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/compress"
)

// An encoder that was given up in the middle leaves nothing of one response in another.
func TestAnEncoderThatWasGivenUpIsAsNew(t *testing.T) {
	for _, name := range encodings {
		for _, level := range allLevels {
			t.Run(fmt.Sprint(name, level), func(t *testing.T) {
				p := policy(t, compress.Options{Level: level})
				whole := func() []byte {
					x := ask(&engine{}, name)
					p.OnResponse(x)
					defer x.CloseEncoder()
					out, err := x.Encoder.Encode(nil, document(40_000), exchange.Last)
					if err != nil {
						t.Fatal(err)
					}
					return out
				}
				first := whole()
				for _, until := range []exchange.Until{exchange.More, exchange.Flush} {
					x := ask(&engine{}, name)
					p.OnResponse(x)
					if _, err := x.Encoder.Encode(nil, bytes.Repeat([]byte("somebody's secret "),
						3000), until); err != nil {
						t.Fatal(err)
					}
					x.CloseEncoder()
				}
				if again := whole(); !bytes.Equal(decode(t, name, again), document(40_000)) ||
					len(again) != len(first) {
					t.Errorf("the same content takes %d bytes first and %d after others", len(first),
						len(again))
				}
			})
		}
	}
}

func TestEncodingGains(t *testing.T) {
	for _, name := range encodings {
		for _, level := range allLevels {
			x := ask(&engine{}, name)
			policy(t, compress.Options{Level: level}).OnResponse(x)
			out, err := x.Encoder.Encode(nil, document(20_000), exchange.Last)
			if err != nil || len(out) > 8000 {
				t.Errorf("%s at level %d: %d bytes of 20000, %v", name, level, len(out), err)
			}
		}
	}
}
