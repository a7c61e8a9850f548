package compress_test

import (
	"bytes"
	"fmt"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/compress"
)

// Whatever the pieces are and wherever it is flushed: what came out up to a flush can be decoded to
// all that went in, and at the end to the whole.
func FuzzEncodedContentIsWhatWentIn(f *testing.F) {
	f.Add([]byte("data: 1\n\n"), []byte{1, 4, 0, 9, 1}, uint8(0))
	for which := range uint8(9) {
		f.Add(document(70_000), []byte{201, 200, 3, 255, 0, 1}, which)
	}
	f.Add([]byte{}, []byte{0, 1, 0}, uint8(7))
	var encoders = compress.NewEncoders(1) // so that every content meets an encoder that was used
	f.Fuzz(func(t *testing.T, content, pieces []byte, which uint8) {
		name, level := encodings[which%3], allLevels[which/3%3]
		p := policy(t, compress.Options{Level: level, Encoders: encoders})
		x := ask(&engine{}, name)
		if p.OnResponse(x); x.Encoder == nil {
			t.Fatal("no encoder")
		}
		defer x.CloseEncoder()
		var out []byte
		rest := content
		for _, piece := range pieces[:min(len(pieces), 64)] {
			n := min(len(rest), int(piece)*129)
			until := exchange.Until(piece & 1) // More or Flush
			before := len(out)
			var err error
			if out, err = x.Encoder.Encode(out, rest[:n], until); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			given := content[:len(content)-len(rest)]
			if until == exchange.Flush && len(given) > 0 && !bytes.Equal(decodable(t, name, out,
				len(given)), given) {
				t.Fatalf("%s: %d bytes went in, and what came out up to a flush is not that", name,
					len(given))
			}
			if grown := len(out) - before; grown > len(given)+len(given)/16+100 {
				t.Fatalf("%s: a piece became %d bytes", name, grown)
			}
		}
		out, err := x.Encoder.Encode(out, rest, exchange.Last)
		if err != nil {
			t.Fatal(err)
		}
		if got := decode(t, name, out); !bytes.Equal(got, content) {
			t.Fatalf("%s: %d bytes went in and %d come out, or others", name, len(content), len(got))
		}
	})
}

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
