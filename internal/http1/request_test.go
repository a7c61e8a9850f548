package http1_test

import (
	"strings"
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
)

// lines joins the lines of a head and ends it.
func lines(l ...string) string { return strings.Join(l, "\r\n") + "\r\n\r\n" }

func get(fields ...string) string {
	return lines(append([]string{"GET / HTTP/1.1", "Host: a"}, fields...)...)
}

const exampleHost = "Host: Example.COM"

// requestHeads are requests and what must be read of them.
var requestHeads = []struct {
	name, in string
	check    func(r *http1.Request) bool
}{
	{"the parts of the request line", lines("GET /a/b?c=d?e HTTP/1.1", exampleHost), func(r *http1.Request) bool {
		return string(r.Method) == "GET" && string(r.Target) == "/a/b?c=d?e" && string(r.Query) == "c=d?e" && r.Minor == 1 &&
			string(r.Host) == "example.com" && r.Path == nil && r.Scheme == nil
	}},
	{"no query", lines("GET / HTTP/1.1", exampleHost), func(r *http1.Request) bool { return r.Query == nil }},
	{"empty query", lines("GET /? HTTP/1.1", exampleHost), func(r *http1.Request) bool { return r.Query != nil && len(r.Query) == 0 }},
	{"any token is a method", lines("M-SEARCH+x / HTTP/1.1", exampleHost),
		func(r *http1.Request) bool { return string(r.Method) == "M-SEARCH+x" }},
	{"one empty line before it", "\r\n" + lines("GET / HTTP/1.1", exampleHost),
		func(r *http1.Request) bool { return string(r.Method) == "GET" }},
	{"asterisk-form", lines("OPTIONS * HTTP/1.1", exampleHost), func(r *http1.Request) bool { return string(r.Target) == "*" }},
	{"two slashes are for canonicalisation to judge", lines("GET //a/../b HTTP/1.1", exampleHost), func(r *http1.Request) bool {
		return string(r.Target) == "//a/../b"
	}},

	{"absolute-form", lines("GET HTTP://Example.com/p?q HTTP/1.1", exampleHost), func(r *http1.Request) bool {
		return string(r.Host) == "example.com" && string(r.Target) == "/p?q" && string(r.Query) == "q"
	}},
	{"absolute-form without a path", lines("GET http://example.com HTTP/1.1", exampleHost), func(r *http1.Request) bool {
		return string(r.Target) == "/" && string(r.Host) == "example.com"
	}},
	{"absolute-form without a path, with a query", lines("GET http://example.com?q=/ HTTP/1.1", exampleHost), func(r *http1.Request) bool {
		return string(r.Target) == "/?q=/" && string(r.Query) == "q=/" && string(r.Host) == "example.com"
	}},
	{"absolute-form of OPTIONS without a path", lines("OPTIONS https://example.com HTTP/1.1", exampleHost), func(r *http1.Request) bool {
		return string(r.Target) == "*"
	}},
	{"the default port is not a port, and Host then says what the target said", lines("GET https://example.com:443/ HTTP/1.1", exampleHost),
		func(r *http1.Request) bool {
			return string(r.Host) == "example.com:443" && string(r.Fields.Value(head.Host)) == "example.com:443" &&
				r.Fields.Get(head.Host).Line == nil
		}},
	{"HTTP/1.0 absolute-form without Host", lines("GET http://b/ HTTP/1.0"), func(r *http1.Request) bool { return string(r.Host) == "b" }},

	{"HTTP/1.0 without Host", lines("GET / HTTP/1.0"),
		func(r *http1.Request) bool { return r.Host == nil && r.Minor == 0 && !r.KeepAlive }},
	{"HTTP/1.0 with keep-alive", lines("GET / HTTP/1.0", "Connection: Keep-Alive"), func(r *http1.Request) bool { return r.KeepAlive }},
	{"HTTP/1.1 is kept alive", get(), func(r *http1.Request) bool { return r.KeepAlive }},
	{"HTTP/1.1 with close in one of two lists", get("Connection: x, y",
		"Connection: a ,\tCLOSE , keep-alive"), func(r *http1.Request) bool {
		return !r.KeepAlive
	}},
	{"close is a whole option", get("Connection: closed"), func(r *http1.Request) bool { return r.KeepAlive }},

	{"no body", get(), func(r *http1.Request) bool { return r.Framing == http1.None && r.Length == 0 }},
	{"length 0", get("Content-Length: 0"), func(r *http1.Request) bool { return r.Framing == http1.None && r.Length == 0 }},
	{"length", get("content-length:  0042 "), func(r *http1.Request) bool { return r.Framing == http1.Length && r.Length == 42 }},
	{"the greatest length", get("Content-Length: 9223372036854775807"), func(r *http1.Request) bool { return r.Length == 1<<63-1 }},
	{"chunked", get("Transfer-Encoding: Chunked"), func(r *http1.Request) bool {
		return r.Framing == http1.Chunked && r.Length == head.Unknown
	}},

	{"expects 100", get("Expect: 100-Continue", "Content-Length: 1"), func(r *http1.Request) bool { return r.Expect100 }},
	{"expects 100 without a body", get("Expect: 100-continue"), func(r *http1.Request) bool { return !r.Expect100 }},
	{"expects 100 in HTTP/1.0", lines("GET / HTTP/1.0", "Expect: 100-continue", "Content-Length: 1"), func(r *http1.Request) bool {
		return !r.Expect100
	}},
	{"upgrade", get("Connection: keep-alive, Upgrade", "Upgrade: websocket"), func(r *http1.Request) bool {
		return string(r.Upgrade) == "websocket"
	}},
	{"upgrade that Connection does not name", get("Upgrade: websocket"), func(r *http1.Request) bool { return r.Upgrade == nil }},
	{"upgrade in HTTP/1.0", lines("GET / HTTP/1.0", "Connection: upgrade", "Upgrade: websocket"), func(r *http1.Request) bool {
		return r.Upgrade == nil
	}},
	{"two upgrades are none", get("Connection: upgrade", "Upgrade: websocket", "Upgrade: h2c"), func(r *http1.Request) bool {
		return r.Upgrade == nil
	}},

	{"values are trimmed and may hold tabs and bytes from 0x80 on", get("X:\t a\tb \xff\t"), func(r *http1.Request) bool {
		f := r.Fields.At(1)
		return string(f.Value) == "a\tb \xff" && f.Line == nil
	}},
	{"a field in its usual form keeps its line", get("X: a"),
		func(r *http1.Request) bool { return string(r.Fields.At(1).Line) == "X: a\r\n" }},
	{"a field without a space has no line", get("X:a"), func(r *http1.Request) bool {
		return r.Fields.At(1).Line == nil && string(r.Fields.At(1).Value) == "a"
	}},
	{"empty values", get("X: ", "Y:", "Z:  "), func(r *http1.Request) bool {
		return string(r.Fields.At(1).Line) == "X: \r\n" && r.Fields.At(2).Line == nil &&
			r.Fields.At(3).Line == nil && len(r.Fields.At(3).Value) == 0
	}},
	{"aliases are told", get("X_Forwarded_For: 1"), func(r *http1.Request) bool { return r.Fields.At(1).ID == head.Alias }},
}

func TestRequestHeads(t *testing.T) {
	for _, c := range requestHeads {
		t.Run(c.name, func(t *testing.T) {
			got, r := requestInAnySplit(t, c.in+"GET /next", &usualLimits)
			if got.n != len(c.in) || !c.check(r) {
				t.Errorf("got %d of %d bytes, error %v: %s", got.n, len(c.in), got.err, got.text)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	for _, good := range []string{
		"a", "A.B", "a.b.", "127.0.0.1:8080", "[::1]", "[2001:DB8::1]:443", "[::ffff:1.2.3.4]", "x-_~y:65535", "xn--bcher-kva.example",
	} {
		got, r := requestInAnySplit(t, lines("GET / HTTP/1.1", "Host: "+good), &usualLimits)
		if got.n == 0 || string(r.Host) != strings.ToLower(good) {
			t.Errorf("host %q: %+v", good, got)
		}
	}
	for _, bad := range []string{
		"", "a b", "a,b", "user@a", "a:", "a:0", "a:080", "a:65536", "a:123456", "a:8x", "a:1:2",
		"a/b", "a?b", "a#b", "a\\b", "%41", "a%00",
		"[::1", "::1", "[::1]x", "[::1]:", "[::1%25eth0]", "[1.2.3.4]", "[:::]", "[]", "a[::1]",
		"[v1.x]", ".a", "a..b", ".", "ä", "a;b", "a'b", ":80",
	} {
		if got, _ := requestInAnySplit(t, lines("GET / HTTP/1.1", "Host: "+bad), &usualLimits); got.err != http1.BadHost {
			t.Errorf("host %q: %+v", bad, got)
		}
	}
}

// refusedRequests are requests and why each is refused.
var refusedRequests = []struct {
	name, in string
	want     http1.Error
}{
	{"TE/CL smuggling: CL.TE", get("Content-Length: 6", "Transfer-Encoding: chunked"), http1.LengthAndCoding},
	{"TE/CL smuggling: TE.CL", get("Transfer-Encoding: chunked", "Content-Length: 6"), http1.LengthAndCoding},
	{"TE/CL smuggling: TE.CL with length 0", get("Content-Length: 0", "Transfer-Encoding: chunked"), http1.LengthAndCoding},
	{"TE/CL smuggling: TE.TE", get("Transfer-Encoding: chunked", "Transfer-encoding: cow"), http1.UnknownCoding},
	{"TE/CL smuggling: chunked twice", get("Transfer-Encoding: chunked, chunked"), http1.UnknownCoding},
	{"TE/CL smuggling: chunked not last", get("Transfer-Encoding: chunked, identity"), http1.UnknownCoding},
	{"TE/CL smuggling: xchunked", get("Transfer-Encoding: xchunked"), http1.UnknownCoding},
	{"TE/CL smuggling: vertical tab", get("Transfer-Encoding: \vchunked"), http1.BadFieldValue},
	{"TE/CL smuggling: quoted", get("Transfer-Encoding: \"chunked\""), http1.UnknownCoding},
	{"TE/CL smuggling: identity", get("Transfer-Encoding: identity"), http1.UnknownCoding},
	{"TE/CL smuggling: empty coding", get("Transfer-Encoding:"), http1.UnknownCoding},
	{"TE/CL smuggling: coding in HTTP/1.0", lines("GET / HTTP/1.0", "Transfer-Encoding: chunked"), http1.LengthAndCoding},
	{"TE/CL smuggling: space before the colon", get("Transfer-Encoding : chunked"), http1.BadFieldName},
	{"TE/CL smuggling: tab before the colon", get("Content-Length\t: 5"), http1.BadFieldName},
	{"TE/CL smuggling: folded", get("Transfer-Encoding:", " chunked"), http1.UnknownCoding},
	{"TE/CL smuggling: folded other field", get("X: a", "\tTransfer-Encoding: chunked"), http1.ObsFold},
	{"TE/CL smuggling: first line folded", lines("GET / HTTP/1.1", " Host: a"), http1.ObsFold},
	{"TE/CL smuggling: two lengths", get("Content-Length: 5", "Content-Length: 6"), http1.BadContentLength},
	{"TE/CL smuggling: equal lengths", get("Content-Length: 5", "Content-Length: 5"), http1.BadContentLength},
	{"TE/CL smuggling: list of lengths", get("Content-Length: 5, 5"), http1.BadContentLength},
	{"TE/CL smuggling: plus", get("Content-Length: +5"), http1.BadContentLength},
	{"TE/CL smuggling: minus", get("Content-Length: -5"), http1.BadContentLength},
	{"TE/CL smuggling: hexadecimal", get("Content-Length: 0x5"), http1.BadContentLength},
	{"TE/CL smuggling: empty length", get("Content-Length:"), http1.BadContentLength},
	{"TE/CL smuggling: length of 2^63", get("Content-Length: 9223372036854775808"), http1.BadContentLength},
	{"TE/CL smuggling: length that wraps", get("Content-Length: 18446744073709551621"), http1.BadContentLength},
	{"TE/CL smuggling: space in a length", get("Content-Length: 5 5"), http1.BadContentLength},
	{"TE/CL smuggling: bare LF", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", http1.BareLF},
	{"TE/CL smuggling: bare LF ends the head", "GET / HTTP/1.1\r\nHost: a\r\n\nX: b\r\n\r\n", http1.BareLF},
	{"TE/CL smuggling: bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", http1.BareLF},
	{"TE/CL smuggling: bare CR in a value", get("X: a\rTransfer-Encoding: chunked"), http1.BareCR},
	{"TE/CL smuggling: bare CR in a name", get("X\r: a"), http1.BareCR},
	{"TE/CL smuggling: CR CR LF", get("X: a\r"), http1.BareCR},
	{"TE/CL smuggling: CR before the end of the head", "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n", http1.BareCR},
	{"TE/CL smuggling: bare CR in the target", lines("GET /\r HTTP/1.1", "Host: a"), http1.BareCR},
	{"TE/CL smuggling: bare CR first", "\rGET / HTTP/1.1\r\n", http1.BareCR},

	{"names: empty", get(": a"), http1.BadFieldName},
	{"names: no colon", get("Xa"), http1.BadFieldName},
	{"names: NUL", get("X\x00Y: a"), http1.BadFieldName},
	{"names: non-ASCII", get("Xä: a"), http1.BadFieldName},
	{"names: space inside", get("X Y: a"), http1.BadFieldName},
	{"names: control that folds to a dash", get("Content\rLength: 5"), http1.BareCR},
	{"names: control that folds to a digit", get("HTTP\x12-Settings: a"), http1.BadFieldName},
	{"values: NUL", get("X: a\x00b"), http1.BadFieldValue},
	{"values: DEL", get("X: abcdefgh\x7f"), http1.BadFieldValue},
	{"values: control after a tab", get("X: abc\tdefghijklmnop\x01qrstuvwxyz"), http1.BadFieldValue},

	{"request line: empty", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", http1.BadLine},
	{"request line: bare LF before it", "\nGET / HTTP/1.1\r\n", http1.BareLF},
	{"request line: HTTP/0.9", lines("GET /"), http1.BadLine},
	{"request line: no target", lines("GET HTTP/1.1"), http1.BadLine},
	{"request line: empty target", lines("GET  HTTP/1.1"), http1.BadLine},
	{"request line: two spaces before the target", lines("GET  / HTTP/1.1"), http1.BadLine},
	{"request line: two spaces after the target", lines("GET /  HTTP/1.1"), http1.BadLine},
	{"request line: space in the target", lines("GET /a b HTTP/1.1"), http1.BadLine},
	{"request line: space at the end", lines("GET / HTTP/1.1 "), http1.BadLine},
	{"request line: tab", lines("GET\t/ HTTP/1.1"), http1.BadMethod},
	{"request line: empty method", lines(" / HTTP/1.1"), http1.BadLine},
	{"request line: lower-case version", lines("GET / http/1.1"), http1.BadLine},
	{"request line: version 2", lines("PRI * HTTP/2.0"), http1.BadVersion},
	{"request line: version 1.2", lines("GET / HTTP/1.2"), http1.BadVersion},
	{"request line: version 10.0", lines("GET / HTTP/10.0"), http1.BadLine},
	{"request line: version 1.1x", lines("GET / HTTP/1.1x"), http1.BadLine},
	{"request line: method that is not a token", lines("G@T / HTTP/1.1"), http1.BadMethod},
	{"request line: long method", lines(strings.Repeat("M", 33) + " / HTTP/1.1"), http1.BadMethod},

	{"target: fragment", lines("GET /a#b HTTP/1.1"), http1.BadTarget},
	{"target: NUL", lines("GET /a\x00 HTTP/1.1"), http1.BadTarget},
	{"target: tab", lines("GET /a\tb HTTP/1.1"), http1.BadTarget},
	{"target: DEL", lines("GET /abcdefghijkl\x7f HTTP/1.1"), http1.BadTarget},
	{"target: non-ASCII", lines("GET /abcdefghijklä HTTP/1.1"), http1.BadTarget},
	{"target: no slash", lines("GET a HTTP/1.1"), http1.BadTarget},
	{"target: authority-form", lines("GET a:80 HTTP/1.1"), http1.BadTarget},
	{"target: asterisk of GET", lines("GET * HTTP/1.1"), http1.BadTarget},
	{"target: other scheme", lines("GET ftp://a/ HTTP/1.1"), http1.BadTarget},
	{"target: query only", lines("GET ?a HTTP/1.1"), http1.BadTarget},

	{"CONNECT and Upgrade desync: CONNECT", lines("CONNECT a:443 HTTP/1.1", "Host: a:443"), http1.BadConnect},
	{"CONNECT and Upgrade desync: connect", lines("connect / HTTP/1.1", "Host: a"), http1.BadConnect},

	{"Host: none", lines("GET / HTTP/1.1", "X: y"), http1.BadHost},
	{"Host: two", get("Host: a"), http1.BadHost},
	{"Host: two in HTTP/1.0", lines("GET / HTTP/1.0", "Host: a", "host: a"), http1.BadHost},
	{"Host, absolute-form, userinfo: no Host", lines("GET http://a/ HTTP/1.1"), http1.BadHost},
	{"Host, absolute-form, userinfo: userinfo", lines("GET http://u@a/ HTTP/1.1", "Host: a"), http1.BadHost},
	{"Host, absolute-form, userinfo: password", lines("GET http://u:p@a/ HTTP/1.1", "Host: a"), http1.BadHost},
	{"Host, absolute-form, userinfo: empty authority", lines("GET http:///p HTTP/1.1", "Host: a"), http1.BadHost},
	{"Host, absolute-form, userinfo: other host", lines("GET http://a/ HTTP/1.1", "Host: b"), http1.HostMismatch},
	{"Host, absolute-form, userinfo: other port", lines("GET http://a:80/ HTTP/1.1", "Host: a:81"), http1.HostMismatch},
	{"Host, absolute-form, userinfo: the other scheme's port", lines("GET http://a/ HTTP/1.1", "Host: a:443"), http1.HostMismatch},
	{"Host, absolute-form, userinfo: HTTP/1.0", lines("GET http://a/ HTTP/1.0", "Host: b"), http1.HostMismatch},
}

// The names begin with the class in the list of hazards that they belong to.
func TestRefusedRequests(t *testing.T) {
	for _, c := range refusedRequests {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := requestInAnySplit(t, c.in, &usualLimits); got.err != c.want {
				t.Errorf("got error %v, want %v: %s", got.err, c.want, got.text)
			}
		})
	}
}

// Bytes are looked at eight at a time: each must be judged alike wherever it stands.
func TestEveryByteIsJudgedAlikeInEveryPlace(t *testing.T) {
	const text = "abcdefghijklmnopqrst"
	for at := range text {
		for c := range 256 {
			b := text[:at] + string([]byte{byte(c)}) + text[at+1:]
			printable := c > ' ' && c < 0x7f
			for _, place := range []struct {
				name, in string
				allowed  bool
			}{
				{"a value", get("X: ." + b + "."), c == '\t' || c >= ' ' && c != 0x7f},
				{"a target", lines("GET /"+b+" HTTP/1.1", "Host: a"), printable && c != '#'},
				{"a name", get("X" + b + ":"), printable && !strings.ContainsRune("\"(),/;<=>?@[\\]{}", rune(c))},
			} {
				if got, _ := readRequest([]byte(place.in), &usualLimits, len(place.in)); (got.n > 0) != place.allowed {
					t.Fatalf("%s with %q at %d: %+v", place.name, rune(c), at, got)
				}
			}
		}
	}
}

func TestRequestLimits(t *testing.T) {
	lim := http1.Limits{Line: 20, Head: 31, Fields: 3}
	const line = "GET / HTTP/1.1\r\n"
	for _, c := range []struct {
		name, in string
		want     http1.Error
	}{
		{"line just fits", "GET /234567 HTTP/1.1\r\nHost: a\r\n\r\n", http1.OK},
		{"line too long", "GET /2345678 HTTP/1.1\r\nHost: a\r\n\r\n", http1.LineTooLong},
		{"line too long and bad", "G@T /2345678 HTTP/9.1\r\n", http1.LineTooLong},
		{"endless line", strings.Repeat("A", 50), http1.LineTooLong},
		{"line of CRs", strings.Repeat("\r", 50), http1.LineTooLong},
		{"head just fits", line + "Host: a\r\nX: 34567890123456789\r\n\r\n", http1.OK},
		{"head too large", line + "Host: a\r\nX: 345678901234567890\r\n\r\n", http1.HeadTooLarge},
		{"head too large and bad", line + "Host: a\r\nX 34567890123456789000000\r\n\r\n", http1.HeadTooLarge},
		{"endless field", line + "X: " + strings.Repeat("A", 50), http1.HeadTooLarge},
		{"CR where the end could be", line + "Host: a\r\nX: 34567890123456789\r\n\rX", http1.HeadTooLarge},
		{"three fields", line + "Host: a\r\nX: 1\r\nY: 2\r\n\r\n", http1.OK},
		{"four fields", line + "Host: a\r\nX: 1\r\nY: 2\r\nZ: 3\r\n\r\n", http1.TooManyFields},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := requestInAnySplit(t, c.in, &lim)
			if got.err != c.want || c.want == http1.OK && got.n != len(c.in) {
				t.Errorf("got %+v, want error %v", got, c.want)
			}
		})
	}
	if got, _ := requestInAnySplit(t, "GET /"+strings.Repeat("x",
		200)+" HTTP/1.1\r\nHost: a\r\nX: 1\r\nY: 2\r\nZ: 3\r\n\r\n",
		new(http1.Limits)); got.n == 0 {
		t.Errorf("without limits: %+v", got)
	}
}

func TestAnErrorIsGivenAgainUntilReset(t *testing.T) {
	var r http1.Request
	b := []byte("GET /\r\n" + get())
	var s http1.Response
	for range 2 {
		if n, err := r.Parse(b, &usualLimits); n != 0 || err != http1.BadLine {
			t.Errorf("got %d, %v", n, err)
		}
		if n, err := s.Parse(b, &usualLimits, false); n != 0 || err != http1.BadLine {
			t.Errorf("got %d, %v", n, err)
		}
		b = append(b, get()...)
	}
	r.Reset()
	if n, err := r.Parse([]byte(get()), &usualLimits); n != len(get()) || err != http1.OK {
		t.Errorf("after Reset: %d, %v", n, err)
	}
}

func TestResetForgetsEverything(t *testing.T) {
	var r http1.Request
	r.Parse([]byte(lines("POST https://a/?q HTTP/1.0", "Host: a", "Connection: close",
		"Content-Length: 4", "Expect: 100-continue")), &usualLimits)
	r.Reset()
	in := []byte(get())
	r.Parse(in, &usualLimits)
	_, fresh := readRequest(in, &usualLimits, len(in))
	if r.KeepAlive != fresh.KeepAlive || r.Length != 0 || r.Framing != http1.None || r.Query != nil || r.Fields.Len() != 1 || r.Minor != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestNobodyWritesOverTheBufferByAppending(t *testing.T) {
	in := get("X: value")
	b := []byte(in)
	var r http1.Request
	r.Parse(b, &usualLimits)
	for _, part := range [][]byte{r.Method, r.Target, r.Host, r.Fields.At(1).Name, r.Fields.At(1).Value} {
		_ = append(part, "!!!"...)
	}
	if string(b) != in {
		t.Errorf("the buffer is now %q", b)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	var r http1.Request
	var s http1.Response
	small, browser, response := []byte(smallRequest), []byte(browserRequest), []byte(usualResponse)
	if n := testing.AllocsPerRun(100, func() {
		for _, b := range [][]byte{small, browser} {
			r.Reset()
			r.Parse(b[:20], &usualLimits)
			if n, _ := r.Parse(b, &usualLimits); n == 0 {
				t.Fatal("not parsed")
			}
		}
		s.Reset()
		if n, _ := s.Parse(response, &usualLimits, false); n == 0 {
			t.Fatal("not parsed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
