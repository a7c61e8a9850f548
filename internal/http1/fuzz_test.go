package http1_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
)

// The oracle of these is net/http: whatever we accept it must accept, and read in the same way. We
// may be stricter.

var fuzzLimits = http1.Limits{Line: 200, Head: 400, Fields: 20, Extension: 40}

// seeds are messages of the classes of hazards, whole ones among them, so that the fuzzer has both
// to vary.
var seeds = []string{
	smallRequest, browserRequest, usualResponse,
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\nGET ",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n5c\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
	"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n Y: c\r\nZ : d\r\n\r\n",
	"GET http://A.example/p?q HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
	"GET http://u:p@a?q HTTP/1.0\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close, X\r\n\r\n",
	"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX_Forwarded_For: 1\r\n\r\n",
	"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
	"GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"HTTP/1.1 204\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.0 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nxyz",
}

func FuzzRequest(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), 7)
	}
	f.Fuzz(checkRequest)
}

func checkRequest(t *testing.T, in []byte, split int) {
	got, r := readRequest(in, &fuzzLimits, len(in))
	sameInPieces(t, got, len(in), split, func(ends ...int) reading {
		r, _ := readRequest(in, &fuzzLimits, ends...)
		return r
	})
	if got.n == 0 {
		return
	}
	if again, _ := readRequest(in[:got.n], &fuzzLimits, got.n); again != got {
		t.Fatalf("what follows the head matters: %+v, without it %+v", got, again)
	}
	// net/http knows no empty line before a request.
	raw := bytes.TrimPrefix(in, []byte("\r\n"))
	source := bufio.NewReader(bytes.NewReader(raw))
	want, err := http.ReadRequest(source)
	if err != nil {
		if !judgedElsewhere(err) {
			t.Fatalf("we accept %s\nnet/http says %v", got.text, err)
		}
		return
	}
	compareHost(t, r, want)
	if want.Method != string(r.Method) || want.ProtoMinor != int(r.Minor) || want.Close == r.KeepAlive {
		t.Errorf("net/http: method %q, minor %d, close %v; we: %s", want.Method, want.ProtoMinor, want.Close, got.text)
	}
	if want.ContentLength != r.Length || (len(want.TransferEncoding) > 0) != (r.Framing == http1.Chunked) {
		t.Errorf("net/http: length %d, coding %v; we: %s", want.ContentLength, want.TransferEncoding, got.text)
	}
	compareFields(t, raw, &r.Fields)
	compareBody(t, in[got.n:], r.Framing, r.Length, want.Body, source)
}

// judgedElsewhere says whether net/http refuses what our parser leaves to others: the escapes of a
// path, which are for its canonicalisation, and the names in Trailer, which no gateway forwards.
func judgedElsewhere(err error) bool {
	var escape url.EscapeError
	return errors.As(err, &escape) || strings.HasPrefix(err.Error(), "bad trailer key")
}

// sameInPieces demands the same reading of the first split bytes, then the rest, and byte by byte.
func sameInPieces(t *testing.T, whole reading, n, split int, read func(ends ...int) reading) {
	t.Helper()
	if n == 0 {
		return
	}
	at := 1 + int(uint(split)%uint(n))
	if got := read(at, n); got != whole {
		t.Fatalf("split at %d gives %+v\nbut whole it is %+v", at, got, whole)
	}
	if got := read(upTo(n)...); got != whole {
		t.Fatalf("byte by byte it is %+v\nbut whole it is %+v", got, whole)
	}
}

func compareHost(t *testing.T, r *http1.Request, want *http.Request) {
	t.Helper()
	if !strings.EqualFold(want.Host, string(r.Host)) {
		t.Errorf("net/http: host %q; we: %q", want.Host, r.Host)
	}
	if !bytes.Contains([]byte(want.RequestURI), []byte("://")) && want.RequestURI != string(r.Target) {
		t.Errorf("net/http: target %q; we: %q", want.RequestURI, r.Target)
	}
	if string(r.Target) != "*" && want.URL.RawQuery != string(r.Query) {
		t.Errorf("net/http: query %q; we: %q", want.URL.RawQuery, r.Query)
	}
}

// compareFields reads the fields after raw's first line in net/http's way.
func compareFields(t *testing.T, raw []byte, l *head.List) {
	t.Helper()
	_, after, _ := bytes.Cut(raw, []byte("\n"))
	want, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(after))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("net/textproto says %v", err)
	}
	got := textproto.MIMEHeader{}
	for i := range l.Len() {
		f := l.At(i)
		got.Add(string(f.Name), string(f.Value))
		if f.Line != nil && string(f.Line) != string(f.Name)+": "+string(f.Value)+"\r\n" {
			t.Errorf("the line of %q: %q is %q", f.Name, f.Value, f.Line)
		}
		if f.ID != head.Lookup(f.Name) {
			t.Errorf("the ID of %q is %d", f.Name, f.ID)
		}
	}
	for name := range want {
		if name == "Host" { // ours is canonical
			want[name], got[name] = want[name][:1], want[name][:1]
		}
		if a, b := want[name], got[name]; strings.Join(a, "\x00") != strings.Join(b, "\x00") {
			t.Errorf("net/textproto: %s: %q; we: %q", name, a, b)
		}
	}
	if len(want) != len(got) {
		t.Errorf("net/textproto: %v; we: %v", want, got)
	}
}

// compareBody decodes what follows a head, and if that has the whole body then net/http must find
// the same one, and the same rest.
func compareBody(t *testing.T, after []byte, f http1.Framing, length int64, body io.Reader, source *bufio.Reader) {
	t.Helper()
	if f == http1.ToEOF {
		return
	}
	data, n, d := decodeSome(after, f, length)
	if !d.Done() {
		return
	}
	want, err := io.ReadAll(body)
	if err != nil && strings.Contains(err.Error(), "suspiciously long trailer") {
		return // net/http limits the bytes of a trailer section to what it has buffered
	}
	if err != nil || !bytes.Equal(want, data) {
		t.Fatalf("net/http: body %q, %v; we: %q", want, err, data)
	}
	if rest, _ := io.ReadAll(source); !bytes.Equal(rest, after[n:]) {
		t.Errorf("net/http: then %q; we: %q", rest, after[n:])
	}
}

// decodeSome decodes what there is.
func decodeSome(in []byte, f http1.Framing, length int64) (data []byte, used int, d *http1.Body) {
	d = new(http1.Body)
	d.Start(f, length, &fuzzLimits)
	for !d.Done() {
		got, n, err := d.Next(in[used:])
		data = append(data, got...)
		used += n
		if n == 0 || err != http1.OK {
			break
		}
	}
	return data, used, d
}

func FuzzResponse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), 7, false)
		f.Add([]byte(s), 20, true)
	}
	f.Fuzz(checkResponse)
}

func checkResponse(t *testing.T, in []byte, split int, toHEAD bool) {
	got, r := readResponse(in, &fuzzLimits, toHEAD, len(in))
	sameInPieces(t, got, len(in), split, func(ends ...int) reading {
		r, _ := readResponse(in, &fuzzLimits, toHEAD, ends...)
		return r
	})
	if got.n == 0 {
		return
	}
	method := "GET"
	if toHEAD {
		method = "HEAD"
	}
	source := bufio.NewReader(bytes.NewReader(in))
	want, err := http.ReadResponse(source, &http.Request{Method: method})
	if err != nil {
		if !judgedElsewhere(err) {
			t.Fatalf("we accept %s\nnet/http says %v", got.text, err)
		}
		return
	}
	compareFields(t, in, &r.Fields)
	if want.StatusCode != r.Status || want.ProtoMinor != int(r.Minor) {
		t.Errorf("net/http: %q; we: %s", want.Status, got.text)
	}
	if r.Framing == http1.None {
		return // net/http keeps what such a head announced
	}
	if want.ContentLength != r.Length || (len(want.TransferEncoding) > 0) != (r.Framing == http1.Chunked) {
		t.Errorf("net/http: length %d, coding %v; we: %s", want.ContentLength, want.TransferEncoding, got.text)
	}
	if want.Close && r.KeepAlive {
		t.Errorf("net/http closes; we: %s", got.text)
	}
	compareBody(t, in[got.n:], r.Framing, r.Length, want.Body, source)
}

func FuzzBody(f *testing.F) {
	for _, s := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "5;a=\"b;c\"\r\nhello\r\nA\r\n0123456789\r\n0;x\r\nA: b\r\nContent-Length: 5\r\n\r\nGET",
		"5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "7fffffffffffffff\r\n",
		"10000000000000005\r\nhello", "0x5\r\n", "5 ;a\r\nhello\r\n0\r\n\n",
		"0\r\nX_Real_Ip: 1\r\n folded\r\n\r\n", "000000005\r\nhello\r\n00\r\n\r\r\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(checkBody)
}

func checkBody(t *testing.T, in []byte, split int) {
	got, _ := readBody(in, http1.Chunked, 0, &fuzzLimits, len(in))
	sameInPieces(t, got, len(in), split, func(ends ...int) reading {
		r, _ := readBody(in, http1.Chunked, 0, &fuzzLimits, ends...)
		return r
	})
	data, _, d := decodeSome(in, http1.Chunked, 0)
	if d.Done() {
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in)))
		if err != nil || !bytes.Equal(want, data) {
			t.Fatalf("httputil: %q, %v; we: %q", want, err, data)
		}
	}
	roundTrip(t, in, split)
}

// roundTrip writes in as chunks of some size, followed by the trailers X, and reads them back.
func roundTrip(t *testing.T, in []byte, split int) {
	t.Helper()
	size := 1 + int(uint(split)%97)
	var out []byte
	for i := 0; i < len(in); i += size {
		out = http1.AppendChunk(out, in[i:min(i+size, len(in))])
	}
	var trailers head.List
	trailers.Add([]byte("X"), in[:min(len(in), 50)])
	out = http1.AppendLastChunk(out, &trailers)
	data, n, d := decodeSome(out, http1.Chunked, 0)
	if !d.Done() || n != len(out) || !bytes.Equal(data, in) || d.Trailers() == nil || d.Trailers().Len() != 1 {
		t.Fatalf("written %q\nread back %q, %d of %d bytes, done %v", out, data, n, len(out), d.Done())
	}
}
