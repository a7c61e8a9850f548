//go:build !race

// One goroutine: the race detector finds nothing here, and takes several times as long.

package compress_test

import (
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
