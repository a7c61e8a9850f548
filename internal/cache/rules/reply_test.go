package rules_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/head"
)

const text = "0123456789"

// storedText is a response that has text as its body.
func storedText(t testing.TB, o *rules.Options, fields header) (rules.Stored, []byte) {
	t.Helper()
	var r rules.Request
	r.Read(&head.Request{Method: []byte("GET")})
	at := rules.Instant{Mono: 1e18, Wall: began.UnixNano()}
	p := &head.Response{Status: 200, Fields: append(header{{"Cache-Control", "max-age=60"}},
		fields...).list(), Length: int64(len(text))}
	s, why := o.Judge(&r, p, rules.Times{Sent: at, Received: at})
	block, ok := o.AppendBlock(nil, &s, &p.Fields)
	if why != rules.MayStore || !ok {
		t.Fatalf("not stored: %s", why.Detail())
	}
	return s, block
}

var oneRange = regexp.MustCompile(`^bytes=(\d+-\d*|-\d+)$`)

// net/http answers conditions and ranges for files; what it makes of them is an oracle for Reply.
func TestRepliesAreThoseOfNetHTTP(t *testing.T) {
	modified := began.Add(-time.Hour)
	o := new(rules.Options)
	counts := map[int]int{}
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 8))
		pick := func(from ...string) string { return from[r.IntN(len(from))] }
		tag := pick(`"a"`, `W/"a"`, `"a,b"`, "")
		fields := header{{"Last-Modified", modified.Format(http.TimeFormat)}, {"Date",
			began.Format(http.TimeFormat)}}
		if tag != "" {
			fields = append(fields, [2]string{"ETag", tag})
		}
		var q header
		if r.IntN(2) == 0 {
			q = append(q, [2]string{"If-None-Match", pick(`"a"`, `W/"a"`, `"b"`, `"b", "a"`,
				`"b",W/"a" , "c"`, "*", `"a,b"`, "a")})
		}
		when := func() string {
			return modified.Add(time.Duration(r.IntN(3)-1) * time.Minute).Format(http.TimeFormat)
		}
		if r.IntN(2) == 0 {
			q = append(q, [2]string{"If-Modified-Since", pick(when(), when(), "x")})
		}
		ranged := ""
		if r.IntN(2) == 0 {
			ranged = pick("bytes=0-0", "bytes=0-", "bytes=-1", "bytes=-20", "bytes=3-5", "bytes=9-",
				"bytes=10-", "bytes=5-900", "bytes=0-9", "bytes=99-100")
			q = append(q, [2]string{"Range", ranged})
			if r.IntN(2) == 0 {
				q = append(q, [2]string{"If-Range", pick(`"a"`, `W/"a"`, `"b"`, when())})
			}
		}
		method := pick("GET", "GET", "HEAD")
		s, block := storedText(t, o, fields)
		var request rules.Request
		request.Read(&head.Request{Method: []byte(method), Fields: q.list()})
		got := request.Reply(&s, block, int64(len(text)), began.UnixNano())

		theirs := httptest.NewRequest(method, "/", nil)
		for _, f := range q {
			theirs.Header.Set(f[0], f[1])
		}
		w := httptest.NewRecorder()
		if tag != "" {
			w.Header().Set("ETag", tag)
		}
		http.ServeContent(w, theirs, "x.txt", modified, strings.NewReader(text))
		want := w.Code
		if method == "HEAD" && (want == 206 || want == 416) {
			want = 200 // Range is defined for GET alone (RFC 9110, section 14.2)
		}
		counts[want]++
		what := fmt.Sprintf("%s %q of a response with %q", method, q, fields)
		if got.Status != want {
			t.Fatalf("%s gives %d, want %d", what, got.Status, want)
		}
		if want == 206 || want == 200 {
			body := w.Body.String()
			if method == "HEAD" {
				body = ""
			}
			if text[got.From:got.To] != body {
				t.Fatalf("%s gives bytes %d to %d, want %q", what, got.From, got.To, body)
			}
		}
		if want == 206 || want == 416 {
			if header := string(rules.AppendContentRange(nil, &got,
				int64(len(text)))); header != w.Header().Get("Content-Range") {
				t.Fatalf("%s: Content-Range is %q, want %q", what, header, w.Header().Get("Content-Range"))
			}
		}
		if ranged != "" && !oneRange.MatchString(ranged) {
			t.Fatal(ranged)
		}
	}
	t.Log(counts)
}

func TestRangesThatAreIgnored(t *testing.T) {
	o := new(rules.Options)
	s, block := storedText(t, o, nil)
	for _, ranged := range []string{"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-4",
		"bytes=1-2,4-5", "bytes=+1-2", "bytes=1--2", "lines=1-2", "bytes 1-2", "bytes=1-2x"} {
		var r rules.Request
		q := header{{"Range", ranged}}
		r.Read(&head.Request{Method: []byte("GET"), Fields: q.list()})
		if got := r.Reply(&s, block, 10, 0); got.Status != 200 || got.To != 10 {
			t.Errorf("%q gives %+v", ranged, got)
		}
	}
	for ranged, want := range map[string]int{"bytes=99999999999999999999999-": 416,
		"bytes=0-99999999999999999999999": 206, "BYTES=1-2": 206, "bytes=-0": 416, "bytes= 1-2 ": 206} {
		var r rules.Request
		q := header{{"Range", ranged}}
		r.Read(&head.Request{Method: []byte("GET"), Fields: q.list()})
		if got := r.Reply(&s, block, 10, 0); got.Status != want {
			t.Errorf("%q gives %+v", ranged, got)
		}
		if got := r.Reply(&s, block, head.Unknown, 0); got.Status != 200 || got.Length != head.Unknown {
			t.Errorf("%q of what still comes gives %+v", ranged, got)
		}
	}
}

func TestBlocksComeBackAsTheyWent(t *testing.T) {
	o := &rules.Options{SetCookie: rules.KeepSetCookie}
	fields := header{{"Content-Type", "text/plain"}, {"X-Empty", ""}, {"Set-Cookie", "a=b"},
		{"Set-Cookie", "c: d"}, {"ETag", `"x"`}, {"Age", "5"}}
	s, block := storedText(t, o, fields)
	var l head.List
	rules.Fields(&l, block)
	var got []string
	for i := range l.Len() {
		f := l.At(i)
		got = append(got, string(f.Name)+"="+string(f.Value))
		if !bytes.Equal(f.Line, []byte(string(f.Name)+": "+string(f.Value)+"\r\n")) ||
			f.ID != head.Lookup(f.Name) {
			t.Errorf("%q has line %q", f.Name, f.Line)
		}
	}
	want := `Cache-Control=max-age=60|Content-Type=text/plain|X-Empty=|Set-Cookie=a=b|` +
		`Set-Cookie=c: d|ETag="x"|Date=` + began.Format(http.TimeFormat)
	if strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
	if string(s.ETag(block)) != `"x"` || s.ModifiedText(block) != nil {
		t.Errorf("validators %q and %q", s.ETag(block), s.ModifiedText(block))
	}
	big := header{{"X", strings.Repeat("x", rules.MaxBlock)}}
	l = big.list()
	if _, ok := o.AppendBlock(nil, &s, &l); ok {
		t.Error("a block of more than 64 KB is taken")
	}
}
