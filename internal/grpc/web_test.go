package grpc_test

import (
	"bufio"
	"bytes"
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

func TestNextTrailer(t *testing.T) {
	for content, want := range map[string]string{
		"":                                    "",
		"a: b\r\n":                            "a=b;",
		"a:b\r\nc:  d e \r\n":                 "a=b;c=d e;",
		"a: b\nc: d":                          "a=b;c=d;",
		"a: b:c\r\n":                          "a=b:c;",
		"a:\r\n":                              "a=;",
		"a\r\n":                               "!",
		": b\r\n":                             "!",
		"a: b\r\n\r\n":                        "a=b;!",
		"a: b\rc: d\r\n":                      "!",
		"a: b\r\n c: d\r\n":                   "a=b; c=d;",
		"grpc-status: 0\r\ngrpc-message:ok\n": "grpc-status=0;grpc-message=ok;",
	} {
		var got strings.Builder
		rest := []byte(content)
		for {
			name, value, after, ok := grpc.NextTrailer(rest)
			if !ok {
				break
			}
			got.WriteString(string(name) + "=" + string(value) + ";")
			rest = after
		}
		if len(rest) > 0 {
			got.WriteString("!")
		}
		if got.String() != want {
			t.Errorf("%q: got %q, want %q", content, got.String(), want)
		}
	}
}

// lowerNames are fields with their names in lower case, and the values of each sorted.
func lowerNames(fields textproto.MIMEHeader) map[string][]string {
	lower := map[string][]string{}
	for name, values := range fields {
		name = strings.ToLower(name)
		lower[name] = append(lower[name], values...)
		slices.Sort(lower[name])
	}
	return lower
}

// FuzzTrailers reads what net/textproto can read, and writes what it reads back.
func FuzzTrailers(f *testing.F) {
	for _, seed := range []string{"a: b\r\n", "a:b\r\nA: c\r\n", "x", "a: b\r\n\r\nc: d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		theirs, err := textproto.NewReader(bufio.NewReader(strings.NewReader(content + "\r\n\r\n"))).ReadMIMEHeader()
		if err != nil || strings.Contains(content, "\n ") || strings.Contains(content, "\n\t") {
			return // malformed, or folded, which the specification does not know
		}
		ours := textproto.MIMEHeader{}
		out := grpc.BeginTrailers(nil)
		for rest := []byte(content); ; {
			name, value, after, ok := grpc.NextTrailer(rest)
			if !ok {
				break
			}
			rest = after
			ours.Add(string(name), string(value))
			out = grpc.AppendTrailer(out, name, value)
		}
		if !maps.EqualFunc(ours, theirs, slices.Equal) {
			t.Fatalf("%q: got %q, want %q", content, ours, theirs)
		}
		grpc.EndTrailers(out, 0)
		var w grpc.Watcher
		w.Pass(out)
		if !w.Between() || !w.Trailing() {
			t.Fatalf("%q is written %q, which is not a whole frame", content, out)
		}
		back, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(out[grpc.HeadSize:], "\r\n"...)))).ReadMIMEHeader()
		// net/textproto leaves the case of what is no name of a field as it is.
		if err != nil || !maps.EqualFunc(lowerNames(back), lowerNames(theirs), slices.Equal) {
			t.Fatalf("%q is written %q, which is read as %q (%v)", content, out, back, err)
		}
	})
}
