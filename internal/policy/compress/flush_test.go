//go:build !race

// One goroutine: the race detector finds nothing here, and takes several times as long.

package compress_test

import (
	"bytes"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/compress"
)

// Up to a flush nothing is missing, not the last bytes either, whatever was flushed before.
func TestAllThatWasFlushedCanBeDecoded(t *testing.T) {
	content := document(400_000)
	for _, name := range encodings {
		for _, level := range allLevels {
			x := ask(&engine{}, name)
			policy(t, compress.Options{Level: level}).OnResponse(x)
			var out []byte
			for from, n := 0, 1; from < len(content); from, n = from+n, n*5%70_001+1 {
				to := min(len(content), from+n)
				var err error
				if out, err = x.Encoder.Encode(out, content[from:to], exchange.Flush); err != nil {
					t.Fatal(err)
				}
				if got := decodable(t, name, out, to); len(got) != to {
					t.Errorf("%s at level %d: after %d bytes and then %d, %d can be decoded", name,
						level, from, n, len(got))
				}
			}
			x.CloseEncoder()
		}
	}
}

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
