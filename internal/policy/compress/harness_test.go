package compress_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"

	"plimsoll/internal/exchange"
	"plimsoll/internal/exchange/exchangetest"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/compress"
)

// engine carries the exchanges of these tests.
type engine struct {
	exchangetest.Engine
	now, backlog int64
}

func (e *engine) Now() int64     { return e.now }
func (e *engine) Backlog() int64 { return e.backlog }

// policy makes one, with encoders of its own where o has none.
func policy(t testing.TB, o compress.Options) *compress.Policy {
	t.Helper()
	if o.Encoders == nil {
		o.Encoders = compress.NewEncoders(1)
	}
	p, err := compress.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// begin is an exchange whose response's head is in, with fields of "Name: value" lines.
func begin(
	e exchange.Engine, method string, request []string, status int, response []string,
) *exchange.Exchange {
	x := &exchange.Exchange{Request: new(head.Request), Response: new(head.Response)}
	x.Begin(e)
	x.Request.Method = []byte(method)
	x.Response.Status, x.Response.Length = status, head.Unknown
	add := func(l *head.List, lines []string) {
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			l.Add([]byte(name), []byte(value))
		}
	}
	add(&x.Request.Fields, request)
	add(&x.Response.Fields, response)
	return x
}

// ask is begin for a GET of JSON by a client that takes these encodings.
func ask(e exchange.Engine, accept string) *exchange.Exchange {
	return begin(e, "GET", []string{"Accept-Encoding: " + accept}, 200,
		[]string{"Content-Type: application/json"})
}

// lines are the fields of a response.
func lines(x *exchange.Exchange) string {
	var b strings.Builder
	for i := range x.Response.Fields.Len() {
		f := x.Response.Fields.At(i)
		b.WriteString(string(f.Name) + ": " + string(f.Value) + "\n")
	}
	return b.String()
}

// encoding is the Content-Encoding of a response, and "" for none.
func encoding(x *exchange.Exchange) string {
	if f := x.Response.Fields.Find([]byte("Content-Encoding")); f != nil {
		return string(f.Value)
	}
	return ""
}

// decoder reads content of an encoding.
func decoder(t testing.TB, name string, r io.Reader) io.Reader {
	t.Helper()
	switch name {
	case "gzip":
		g, err := gzip.NewReader(r) // not the library that encodes
		if err != nil {
			t.Fatal(err)
		}
		return g
	case "br":
		return brrr.NewReader(r)
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	return r
}

// decode is what whole content of an encoding stands for.
func decode(t testing.TB, name string, content []byte) []byte {
	t.Helper()
	got, err := io.ReadAll(decoder(t, name, bytes.NewReader(content)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return got
}

// decodable is as much as can be decoded of content that is not complete, at least n bytes.
func decodable(t testing.TB, name string, content []byte, n int) []byte {
	t.Helper()
	got := make([]byte, n)
	m, err := io.ReadFull(decoder(t, name, bytes.NewReader(content)), got)
	if err != nil && m == n {
		t.Fatalf("%s: %v", name, err)
	}
	return got[:m]
}

// document is JSON of so many bytes, always the same.
func document(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"alpha", "harbour", "vessel", "cargo", "anchor", "north", "delta", "ocean", "captain"}
	var b bytes.Buffer
	for b.Len() < n {
		line, _ := json.Marshal(map[string]any{"id": r.IntN(1e9), "name": words[r.IntN(9)] + " " +
			words[r.IntN(9)], "price": r.Float64(), "tags": words[:r.IntN(9)]})
		b.Write(line)
	}
	return b.Bytes()[:n]
}

var (
	encodings = []string{"zstd", "br", "gzip"}
	allLevels = []compress.Level{compress.Fast, compress.Balanced, compress.Small}
)
