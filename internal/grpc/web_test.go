package grpc_test

import (
	"bufio"
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/grpc"
)

func TestTrailerFrame(t *testing.T) {
	out := []byte("before")
	at := len(out)
	out = grpc.BeginTrailers(out)
	out = grpc.AppendTrailer(out, []byte("Grpc-Status"), []byte("0"))
	out = grpc.AppendTrailer(out, []byte("grpc-message"), nil)
	grpc.EndTrailers(out, at)
	const want = "before\x80\x00\x00\x00\x20grpc-status: 0\r\ngrpc-message: \r\n"
	if string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// lowerNames are fields with their names in lower case, and the values of each trimmed and sorted.
func lowerNames(fields textproto.MIMEHeader) map[string][]string {
	lower := map[string][]string{}
	for name, values := range fields {
		name = strings.ToLower(name)
		for _, value := range values {
			lower[name] = append(lower[name], strings.Trim(value, " \t"))
		}
		slices.Sort(lower[name])
	}
	return lower
}

// FuzzTrailers writes fields, and has net/textproto read them.
func FuzzTrailers(f *testing.F) {
	for _, seed := range []string{"a: b\r\n", "a:b\r\nA: c\r\n", "x", "a: b\r\n\r\nc: d", "A 0:"} {
		f.Add(seed)
	}
	read := func(content string) (textproto.MIMEHeader, error) {
		return textproto.NewReader(bufio.NewReader(strings.NewReader(content + "\r\n"))).ReadMIMEHeader()
	}
	f.Fuzz(func(t *testing.T, content string) {
		fields, err := read(content + "\r\n")
		if err != nil {
			return
		}
		out := grpc.BeginTrailers(nil)
		for name, values := range fields {
			for _, value := range values {
				out = grpc.AppendTrailer(out, []byte(name), []byte(value))
			}
		}
		grpc.EndTrailers(out, 0)
		var w grpc.Watcher
		w.Pass(out)
		if !w.Between() || !w.Trailing() {
			t.Fatalf("%q is written %q, which is not a whole frame", content, out)
		}
		back, err := read(string(out[grpc.HeadSize:]))
		// net/textproto keeps the case of names that are not tokens.
		if err != nil || !maps.EqualFunc(lowerNames(back), lowerNames(fields), slices.Equal) {
			t.Fatalf("%q is written %q, which is read as %q (%v)", content, out, back, err)
		}
	})
}
