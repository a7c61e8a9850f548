package hpack_test

import (
	"bytes"
	"fmt"
	"testing"

	oracle "golang.org/x/net/http2/hpack"

	"plimsoll/internal/hpack"
)

type pair struct{ name, value string }

var request = []pair{
	{":method", "GET"}, {":scheme", "https"}, {":authority", "shop.example.com"}, {":path", "/api/v1/items?page=2&sort=price"},
	{"user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"},
	{"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
	{"accept-encoding", "gzip, deflate, br, zstd"}, {"cookie", "session=4f2a9c1e77d0b3a8; theme=dark"},
}

func BenchmarkDecode(b *testing.B) {
	// The first block fills the table, the second is what a connection sends from then on. With
	// "literal", nothing enters the table.
	for _, kind := range []string{"repeated", "literal", "plain"} {
		var wire bytes.Buffer
		e := oracle.NewEncoder(&wire)
		var first, then []byte
		if kind == "plain" {
			var p hpack.Encoder
			p.Init(4096, false)
			for _, f := range request {
				then = p.AppendField(then, []byte(f.name), []byte(f.value), hpack.Once)
			}
		} else {
			for i := range 2 {
				wire.Reset()
				for _, f := range request {
					e.WriteField(oracle.HeaderField{Name: f.name, Value: f.value, Sensitive: kind == "literal" || f.name == ":path"})
				}
				if i == 0 {
					first = bytes.Clone(wire.Bytes())
				}
			}
			then = bytes.Clone(wire.Bytes())
		}
		b.Run(fmt.Sprintf("%s-%d/ours", kind, len(then)), func(b *testing.B) {
			var d hpack.Decoder
			d.Init(4096)
			var f hpack.Field
			memory := make([]byte, 0, 4096)
			for _, block := range [][]byte{first, then} {
				d.Begin(block)
				for out, ok := memory, true; ok; {
					out, ok, _ = d.Next(&f, out)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				d.Begin(then)
				n := 0
				for out, ok := memory, true; ok; n++ {
					out, ok, _ = d.Next(&f, out)
				}
				if n != len(request)+1 {
					b.Fatal(n)
				}
			}
		})
		b.Run(fmt.Sprintf("%s-%d/x-net", kind, len(then)), func(b *testing.B) {
			n := 0
			d := oracle.NewDecoder(4096, func(oracle.HeaderField) { n++ })
			d.Write(first)
			d.Close()
			b.ReportAllocs()
			for b.Loop() {
				n = 0
				d.Write(then)
				d.Close()
				if n != len(request) {
					b.Fatal(n)
				}
			}
		})
	}
}
