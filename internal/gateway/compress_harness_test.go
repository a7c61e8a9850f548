package gateway

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"
)

// Content to compress, a gateway that does so, and what was meant by what it sent.

// compressing is a config whose route compresses what a service answers.
func compressing(address, compress string) string {
	return `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["` + address + `"], retry: {attempts: 0}}}
routes: [{name: r, match: /, upstream: s, compress: ` + compress + `}]
`
}

// anyEncoding asks for everything that there is, and lets the order of the config choose.
const anyEncoding = "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br, zstd\r\n\r\n"

// decoderOf reads content of an encoding.
func decoderOf(t *testing.T, encoding string, from io.Reader) io.Reader {
	t.Helper()
	switch encoding {
	case "gzip":
		r, err := gzip.NewReader(from)
		if err != nil {
			t.Fatal(err)
		}
		return r
	case "br":
		return brrr.NewReader(from)
	case "zstd":
		r, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	return from
}

// decoded is what whole content stands for.
func decoded(t *testing.T, encoding, content string) string {
	t.Helper()
	b, err := io.ReadAll(decoderOf(t, encoding, strings.NewReader(content)))
	if err != nil {
		t.Fatalf("%s content of %d bytes: %v", encoding, len(content), err)
	}
	return string(b)
}

// words is text of so many bytes that becomes about a third.
func words(n int) string {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x %d words and more words\n", r.Uint32(), r.IntN(1000))
	}
	return b.String()[:n]
}

// randomBytes become no smaller.
func randomBytes(n int) string {
	r, b := rand.NewChaCha8([32]byte{5}), make([]byte, n)
	r.Read(b)
	return string(b)
}
