//go:build !race

package compress_test

import (
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/compress"
)

func TestAllocNothingPerResponse(t *testing.T) {
	content, e := document(20_000), &engine{}
	for _, name := range encodings {
		p := policy(t, compress.Options{})
		x := ask(e, name)
		x.Response.Fields.Add([]byte("ETag"), []byte(`"a"`))
		etag := *x.Response.Fields.Find([]byte("ETag"))
		kind := *x.Response.Fields.At(0)
		out := make([]byte, 0, 64<<10)
		if n := testing.AllocsPerRun(50, func() {
			x.Begin(e)
			x.Response.Fields.Reset()
			x.Response.Fields.Append(kind)
			x.Response.Fields.Append(etag)
			p.OnResponse(x)
			if _, err := x.Encoder.Encode(out, content, exchange.Last); err != nil {
				t.Fatal(err)
			}
			x.CloseEncoder()
		}); n != 0 {
			t.Errorf("%s: %v allocations a response", name, n)
		}
	}
}
