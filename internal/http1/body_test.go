package http1_test

import (
	"strings"
	"testing"
	"unsafe"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
)

func TestBodies(t *testing.T) {
	const next = "GET / HTTP/1.1\r\n"
	for _, c := range []struct {
		name, in string
		framing  http1.Framing
		length   int64
		data     string
	}{
		{"none", "", http1.None, 0, ""},
		{"length 0", "", http1.Length, 0, ""},
		{"length", "hello", http1.Length, 5, "hello"},
		{"only the last chunk", "0\r\n\r\n", http1.Chunked, 0, ""},
		{"chunks", "5\r\nhello\r\n0001\r\n \r\nA\r\n0123456789\r\n000\r\n\r\n", http1.Chunked, 0, "hello 0123456789"},
		{"hexadecimal in both cases", "0a\r\n0123456789\r\n0B\r\n0123456789a\r\n0\r\n\r\n", http1.Chunked, 0, "01234567890123456789a"},
		{"extensions are dropped", "5;a=b;c=\"d\\\" \xe4;\";e\r\nhello\r\n0;x\r\n\r\n", http1.Chunked, 0, "hello"},
		{"data like framing", "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", http1.Chunked, 0, "\r\n0\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, d := bodyInAnySplit(t, c.in+next, c.framing, c.length, &usualLimits)
			data, n := decode(t, c.in+next, c.framing, c.length)
			if got.n != len(c.in) || n != len(c.in) || data != c.data || !d.Done() {
				t.Errorf("got %+v", got)
			}
			if err := d.EOF(); err != http1.OK {
				t.Errorf("the end of the connection is then %v", err)
			}
		})
	}
}

// decode decodes in one go.
func decode(t *testing.T, in string, f http1.Framing, length int64) (data string, used int) {
	t.Helper()
	var d http1.Body
	d.Start(f, length, &usualLimits)
	for !d.Done() {
		got, n, err := d.Next([]byte(in[used:]))
		if err != http1.OK || n == 0 {
			t.Fatalf("after %d bytes: %v", used, err)
		}
		data, used = data+string(got), used+n
	}
	return data, used
}

func TestABodyToTheEndOfTheConnection(t *testing.T) {
	got, d := bodyInAnySplit(t, "anything\r\n0\r\n\r\n", http1.ToEOF, head.Unknown, &usualLimits)
	if got.err != http1.OK || d.Done() || got.n != 15 {
		t.Errorf("got %+v", got)
	}
	if err := d.EOF(); err != http1.OK || !d.Done() {
		t.Errorf("at the end: %v, done %v", err, d.Done())
	}
}

func TestATruncatedBodyIsToldAtEveryByte(t *testing.T) {
	for _, c := range []struct {
		in      string
		framing http1.Framing
	}{{"hello", http1.Length}, {"5;x\r\nhello\r\n0\r\nA: b\r\n\r\n", http1.Chunked}} {
		for i := range len(c.in) {
			_, d := readBody([]byte(c.in), c.framing, 5, &usualLimits, i)
			if d.Done() {
				t.Errorf("%q is done", c.in[:i])
			}
			if err := d.EOF(); err != http1.Truncated || d.Done() {
				t.Errorf("%q ends with %v, done %v", c.in[:i], err, d.Done())
			}
		}
	}
}

func TestRefusedChunks(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     http1.Error
	}{
		{"TE/CL smuggling: CVE-2025-22871, bare LF after a size", "5\nhello\r\n0\r\n\r\n", http1.BareLF},
		{"TE/CL smuggling: CVE-2025-22871, bare LF in an extension", "5;a\nhello\r\n0\r\n\r\n", http1.BareLF},
		{"TE/CL smuggling: bare LF after data", "5\r\nhello\n0\r\n\r\n", http1.BareLF},
		{"TE/CL smuggling: bare LF at the end", "0\r\n\n", http1.BareLF},
		{"TE/CL smuggling: bare LF after a trailer", "0\r\nA: b\n\r\n", http1.BareLF},
		{"TE/CL smuggling: bare LF for a size", "\n5\r\nhello", http1.BareLF},
		{"TE/CL smuggling: bare CR after a size", "5\rhello", http1.BareCR},
		{"TE/CL smuggling: CR CR LF after a size", "5\r\r\nhello", http1.BareCR},
		{"TE/CL smuggling: bare CR in an extension", "5;a\rb\r\nhello", http1.BareCR},
		{"TE/CL smuggling: bare CR after data", "5\r\nhello\r0", http1.BareCR},
		{"TE/CL smuggling: bare CR at the end", "0\r\n\rX", http1.BareCR},
		{"TE/CL smuggling: bare CR in a trailer", "0\r\nA: b\rC: d\r\n\r\n", http1.BareCR},
		{"TE/CL smuggling: data longer than its size", "4\r\nhello\r\n", http1.BadChunk},
		{"TE/CL smuggling: size of 2^63", "8000000000000000\r\n", http1.BadChunk},
		{"TE/CL smuggling: size that wraps", "10000000000000005\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: 17 digits", "00000000000000005\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: 0x", "0x5\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: plus", "+5\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: minus", "-5\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: underscore", "1_0\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: space before a size", " 5\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: blanks after a size", "5 \r\nhello", http1.BadChunk},
		{"TE/CL smuggling: blanks before an extension", "5 ;x\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: empty size", "\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: extension without a size", ";a\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: NUL in an extension", "5;a\x00\r\nhello", http1.BadChunk},
		{"TE/CL smuggling: NUL after a size", "5\x00\r\nhello", http1.BadChunk},
		{"trailers: folded", "0\r\nA: b\r\n c\r\n\r\n", http1.BadTrailer},
		{"trailers: no colon", "0\r\nAb\r\n\r\n", http1.BadTrailer},
		{"trailers: space before the colon", "0\r\nA : b\r\n\r\n", http1.BadTrailer},
		{"trailers: NUL", "0\r\nA: \x00\r\n\r\n", http1.BadTrailer},
		{"trailers: dropped ones are checked too", "0\r\nContent-Length: \x00\r\n\r\n", http1.BadTrailer},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, d := bodyInAnySplit(t, c.in, http1.Chunked, 0, &usualLimits)
			if got.err != c.want || d.Done() || d.EOF() != c.want {
				t.Errorf("got error %v, want %v: %s", got.err, c.want, got.text)
			}
			if data, n, err := d.Next([]byte("0\r\n\r\n")); len(data) != 0 || n != 0 || err != c.want {
				t.Errorf("after the error: %q, %d, %v", data, n, err)
			}
		})
	}
}

func TestTheGreatestChunk(t *testing.T) {
	got, d := bodyInAnySplit(t, "7fffffffffffffff\r\nhello", http1.Chunked, 0, &usualLimits)
	if got.err != http1.OK || d.Done() || !strings.Contains(got.text, "hello") {
		t.Errorf("got %+v", got)
	}
}

func TestLimitsOfFraming(t *testing.T) {
	lim := http1.Limits{Line: 1, Head: 19, Fields: 2, Extension: 8}
	for _, c := range []struct {
		name, in string
		want     http1.Error
	}{
		{"extensions just fit, all together", "1;234\r\nx\r\n1;234\r\nx\r\n0\r\n\r\n", http1.OK},
		{"extensions too large, all together", "1;234\r\nx\r\n1;234\r\nx\r\n0;\r\n\r\n", http1.ExtensionTooLarge},
		{"endless extension", "1;" + strings.Repeat("x", 50), http1.ExtensionTooLarge},
		{"trailers just fit", "0\r\nA: 3456\r\nVia: 789\r\n\r\n", http1.OK},
		{"trailers too large", "0\r\nA: 3456\r\nVia: 7890\r\n\r\n", http1.TrailersTooLarge},
		{"trailers too large, though dropped", "0\r\nVia: 789\r\nVia: 7890\r\n\r\n", http1.TrailersTooLarge},
		{"trailers too large and bad", "0\r\nA 34567890123456789\r\n\r\n", http1.TrailersTooLarge},
		{"endless trailer", "0\r\nA: " + strings.Repeat("x", 50), http1.TrailersTooLarge},
		{"too many trailers", "0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n", http1.TooManyFields},
		{"too many trailers, though dropped", "0\r\nVia:\r\nVia:\r\nC: 3\r\n\r\n", http1.TooManyFields},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := bodyInAnySplit(t, c.in, http1.Chunked, 0, &lim); got.err != c.want {
				t.Errorf("got error %v, want %v", got.err, c.want)
			}
		})
	}
}

// Header aliases, trailers: CVE-2026-88004, GHSA-7r4p-vjf4-gxv4.
func TestTrailersThatBelongIntoAHeadAreDropped(t *testing.T) {
	trailer := func(names ...string) string {
		return "0\r\n" + strings.Join(names, ": v\r\n") + ": v\r\n\r\n"
	}
	for _, name := range []string{
		"Host", "Content-Length", "transfer-encoding", "TE", "Trailer", "Connection", "Keep-Alive",
		"Upgrade", "Proxy-Authorization", "Authorization",
		"Cookie", "Set-Cookie", "WWW-Authenticate", "X-Forwarded-For", "x-forwarded-proto",
		"X-Forwarded-Client-Cert", "X-Forwarded", "Forwarded",
		"X-Real-IP", "X-Request-Id", "X_Forwarded_For", "x-request_id", "X_Unknown", "Content-Type", "Content-Encoding", "Content-Range",
		"If-None-Match", "Range", "Cache-Control", "Pragma", "Max-Forwards", "Age", "Expires", "Vary", "Location", "Date", "Warning",
		"Access-Control-Allow-Origin", "X-Original-URL", "X-Rewrite-URL",
	} {
		got, d := bodyInAnySplit(t, trailer(name), http1.Chunked, 0, &usualLimits)
		if got.err != http1.OK || !d.Done() || d.Trailers() != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	_, d := bodyInAnySplit(t, trailer("Grpc-Status", "Via", "Digest", "Server-Timing", "ETag",
		"Agent-Note"), http1.Chunked, 0, &usualLimits)
	if got, want := string(http1.AppendLastChunk(nil, d.Trailers())), trailer("Grpc-Status",
		"Digest", "Server-Timing", "ETag", "Agent-Note"); got != want {
		t.Errorf("passed on: %q, want %q", got, want)
	}
}

func TestStartForgetsTheTrailersBefore(t *testing.T) {
	_, d := readBody([]byte("0\r\nA: b\r\n\r\n"), http1.Chunked, 0, &usualLimits, 11)
	before := d.Trailers()
	d.Start(http1.Chunked, 0, &usualLimits)
	d.Next([]byte("0\r\nC: d\r\n\r\n"))
	if got := string(http1.AppendLastChunk(nil, d.Trailers())); got != "0\r\nC: d\r\n\r\n" {
		t.Errorf("the second body has %q", got)
	}
	if got := string(http1.AppendLastChunk(nil, before)); got != "0\r\nA: b\r\n\r\n" {
		t.Errorf("the first body now has %q", got)
	}
}

func TestABodyIsSmallAndDoesNotAllocate(t *testing.T) {
	if n := unsafe.Sizeof(http1.Body{}); n > 64 {
		t.Errorf("a Body is %d bytes", n)
	}
	in := []byte("5;x=y\r\nhello\r\n0\r\n\r\n")
	var d http1.Body
	if n := testing.AllocsPerRun(100, func() {
		d.Start(http1.Chunked, 0, &usualLimits)
		for rest := in; !d.Done(); {
			_, n, err := d.Next(rest)
			if err != http1.OK {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
