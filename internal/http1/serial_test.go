package http1_test

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
)

func TestStatusLines(t *testing.T) {
	for status, want := range map[int]string{
		200: "HTTP/1.1 200 OK\r\n", 299: "HTTP/1.1 299 \r\n", 100: "HTTP/1.1 100 Continue\r\n", 599: "HTTP/1.1 599 \r\n",
		0: "HTTP/1.1 500 Internal Server Error\r\n", 99: "HTTP/1.1 500 Internal Server Error\r\n",
		600: "HTTP/1.1 500 Internal Server Error\r\n",
	} {
		if got := string(http1.AppendStatusLine(nil, status)); got != want {
			t.Errorf("%d: got %q, want %q", status, got, want)
		}
	}
}

// Response splitting, bad upstreams.
func TestAFieldIsAlwaysOneLine(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"X", "a", "X: a\r\n"},
		{"X", "", "X: \r\n"},
		{"X", "a\tb \xff", "X: a\tb \xff\r\n"},
		{"X", "a\r\nSet-Cookie: b\x00c\x7f", "X: a  Set-Cookie: b c \r\n"},
		{"X\r\nY: z", "a", "X--Y--z: a\r\n"},
		{"X Y:", "a", "X-Y-: a\r\n"},
		{"", "a", ""},
	} {
		if got := string(http1.AppendField([]byte("-"), []byte(c.name), []byte(c.value))); got != "-"+c.want {
			t.Errorf("%q: got %q, want %q", c.name, got, "-"+c.want)
		}
	}
}

// fields parses field lines, each with its CRLF.
func fields(t *testing.T, text string) *head.List {
	t.Helper()
	var r http1.Response
	in := "HTTP/1.1 200 OK\r\n" + text + "\r\n"
	if n, err := r.Parse([]byte(in), &usualLimits, false); n != len(in) {
		t.Fatalf("%q: %v", text, err)
	}
	return &r.Fields
}

func TestFieldsAreForwardedAsTheyCame(t *testing.T) {
	l := fields(t, "Host: A\r\nx-One:  1 \r\nConnection: close\r\nTwo: 2\r\nTHREE: "+
		"3\r\nX_Forwarded_For: evil\r\nTE: trailers\r\nFour: \r\n")
	l.Add([]byte("Added"), []byte("5"))
	other := fields(t, "Six: 6\r\n")
	l.Append(*other.At(0))
	l.Set([]byte("three"), []byte("III"))
	want := "Host: A\r\nx-One: 1\r\nTwo: 2\r\nTHREE: III\r\nFour: \r\nAdded: 5\r\nSix: 6\r\n"
	if got := string(http1.AppendFields([]byte("-"), l, http1.HopByHop)); got != "-"+want {
		t.Errorf("got %q, want %q", got[1:], want)
	}
}

// Lines that stand next to each other may be copied as one: never too much, never too little,
// whichever are dropped.
func TestEveryChoiceOfFieldsIsForwarded(t *testing.T) {
	names := []string{"Host", "Via", "Cookie", "Origin", "Range", "Vary"}
	var text strings.Builder
	for i, name := range names {
		fmt.Fprintf(&text, "%s: %s\r\n", name, strings.Repeat("v", i))
	}
	for choice := range 1 << len(names) {
		l := fields(t, text.String())
		var drop uint64
		var want string
		for i, name := range names {
			if choice>>i&1 != 0 {
				drop |= 1 << head.Lookup([]byte(name))
			} else {
				want += fmt.Sprintf("%s: %s\r\n", name, strings.Repeat("v", i))
			}
		}
		if got := string(http1.AppendFields(nil, l, drop)); got != want {
			t.Fatalf("without %b: got %q, want %q", choice, got, want)
		}
	}
}

// Header aliases, trailers.
func TestAliasesAreNeverForwarded(t *testing.T) {
	l := fields(t, "X_Forwarded_For: a\r\nCONTENT_LENGTH: 1\r\nx-request_id: b\r\nX_Custom: c\r\n")
	if got, want := string(http1.AppendFields(nil, l, 0)), "X_Custom: c\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Hop-by-hop abuse: CVE-2021-32813.
func TestConnectionTakesAwayOnlyWhatIsNotForEveryone(t *testing.T) {
	const others = "Host: a\r\nContent-Length: 5\r\nX-Forwarded-For: 1\r\nAuthorization: " +
		"b\r\nCookie: c\r\nX-One: 1\r\nX-Two: 2\r\nx-one: 3\r\n"
	for _, c := range []struct{ name, connection, want string }{
		{"absent", "", others},
		{"usual options", "Connection: close, Keep-Alive, upgrade\r\n", others},
		{"a named one goes", "Connection: x-ONE\r\n", "Host: a\r\nContent-Length: " +
			"5\r\nX-Forwarded-For: 1\r\nAuthorization: b\r\nCookie: c\r\nX-Two: 2\r\n"},
		{"several fields", "Connection: ,close,, X-One ,\r\nconnection: x-two\r\n",
			"Host: a\r\nContent-Length: 5\r\nX-Forwarded-For: 1\r\nAuthorization: b\r\nCookie: c\r\n"},
		{"what is for everyone stays", "Connection: Host, Content-Length, X-Forwarded-For, " +
			"Authorization, Cookie, Connection, Transfer-Encoding, Forwarded\r\n",
			others},
		{"too many options", "Connection: " + strings.Repeat("x,", 65) + "\r\n",
			"Host: a\r\nContent-Length: 5\r\nX-Forwarded-For: 1\r\nAuthorization: b\r\nCookie: c\r\n"},
		{"too many fields", strings.Repeat("Connection: close\r\n", 9),
			"Host: a\r\nContent-Length: 5\r\nX-Forwarded-For: 1\r\nAuthorization: b\r\nCookie: c\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, text := range []string{c.connection + others, others + c.connection} {
				l := fields(t, text)
				http1.StripConnection(l)
				if got := string(http1.AppendFields(nil, l, http1.HopByHop)); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestChunksAreReadBackAsTheyWereWritten(t *testing.T) {
	var trailers head.List
	trailers.Add([]byte("Digest"), []byte("x"))
	out := http1.AppendChunk(nil, []byte("hello "))
	out = http1.AppendChunk(out, nil)
	out = http1.AppendChunkSize(out, 17)
	out = append(out, "0123456789abcdefg\r\n"...)
	out = http1.AppendLastChunk(out, &trailers)
	if want := "6\r\nhello \r\n11\r\n0123456789abcdefg\r\n0\r\nDigest: x\r\n\r\n"; string(out) != want {
		t.Errorf("written: %q, want %q", out, want)
	}
	if got, _ := decode(t, string(out), http1.Chunked, 0); got != "hello 0123456789abcdefg" {
		t.Errorf("read back: %q", got)
	}
	if got := string(http1.AppendLastChunk(nil, nil)); got != "0\r\n\r\n" {
		t.Errorf("without trailers: %q", got)
	}
}

func TestSerialisingDoesNotAllocate(t *testing.T) {
	var r http1.Request
	r.Parse([]byte(browserRequest), &usualLimits)
	name, value, dst := []byte("X-Evil"), []byte("a\r\nb"), make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		http1.StripConnection(&r.Fields)
		out := http1.AppendFields(dst, &r.Fields, http1.HopByHop)
		out = http1.AppendField(out, name, value)
		out = http1.AppendStatusLine(out, 200)
		out = http1.AppendChunk(out, value)
		http1.AppendLastChunk(out, &r.Fields)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
