package gateway

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// get asks for a path on a connection, with further fields, and gives the answer.
func (p *peer) get(path string, fields ...string) (*http.Response, string) {
	p.t.Helper()
	return p.ask("GET", path, fields...)
}

func (p *peer) ask(method, path string, fields ...string) (*http.Response, string) {
	p.t.Helper()
	head := method + " " + path + " HTTP/1.1\r\nHost: a\r\n"
	for _, f := range fields {
		head += f + "\r\n"
	}
	p.send(head + "\r\n")
	return p.response(method)
}

func TestFilesAreServedAlikeOverEveryProtocol(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certificate := ca.issue(t, "a")
	big := letters(300_000)
	root := tree(t, map[string]string{"index.html": "<p>home", "a b.txt": "blank", "dir/index.html": "<p>dir",
		"bare/": "", "app.js": "plain", "app.js.br": "brotli", "app.js.gz": "gzipped", "big.bin": big,
		"empty.css": ""})
	etag := etagOf(t, filepath.Join(root, "big.bin"))
	for _, c := range []likeCase{
		{name: "an index", want: "200\nAccept-Ranges: bytes\nCache-Control: " +
			"max-age=9\nContent-Length: 7\nContent-Type: text/html; charset=utf-8\n"},
		{name: "a small file", path: "/a%20b.txt", want: "\n\nblank"},
		{name: "an empty file", path: "/empty.css", want: "Content-Length: 0\n"},
		{name: "a large file", path: "/big.bin", want: "\n\n" + big},
		{name: "HEAD of a large file", method: "HEAD", path: "/big.bin", want: "Content-Length: 300000\n"},
		{name: "a range", path: "/big.bin", fields: "Range: bytes=100000-200000\n", want: "\n\n" +
			big[100000:200001]},
		{name: "a range that is not there", path: "/big.bin", fields: "Range: bytes=300000-\n",
			want: "Content-Range: bytes */300000\n"},
		{name: "what the client has", path: "/big.bin", fields: "If-None-Match: " + etag + "\n",
			want: "304\n"},
		{name: "what the client must have", path: "/big.bin", fields: "If-Match: \"x\"\n", want: "412\n"},
		{name: "a coding", path: "/app.js", fields: "Accept-Encoding: gzip, br\n", want: "\n\nbrotli"},
		{name: "a directory without its slash", path: "/dir?x=y", want: "Location: /dir/?x=y\n"},
		{name: "a directory without an index", path: "/bare/", want: "no_file"},
		{name: "nothing", path: "/none", want: "404\n"},
		{name: "another method", method: "POST", body: "abc", path: "/app.js", want: "Allow: GET, HEAD\n"},
	} {
		c.routes = fmt.Sprintf("[{match: /, files: {root: %q, precompressed: [br, gzip], "+
			"cache_control: max-age=9}}]", root)
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			first := ""
			for _, p := range allSpoken {
				saw, got := c.run(t, p, ca, certificate)
				if saw != "" || !strings.Contains(got, c.want) {
					t.Errorf("%s: the client got\n%.1000s\nwant, among others,\n%.1000s", p.name, got, c.want)
				}
				if first == "" {
					first = got
				} else if got != first {
					t.Errorf("%s differs:\n%.1000s\nwant, as over %s,\n%.1000s", p.name, got,
						allSpoken[0].name, first)
				}
			}
		})
	}
}

func TestPreconditionsOfFilesHaveTheirOrder(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a.txt": "0123456789"})
	tag := etagOf(t, filepath.Join(root, "a.txt"))
	p := serving(t, root, "").dial()
	const before, after = "Thu, 29 Feb 2024 11:59:59 GMT", "Thu, 29 Feb 2024 12:00:01 GMT"
	for _, c := range []struct {
		status int
		fields []string
	}{
		{200, nil},
		{200, []string{"If-Match: " + tag}},
		{200, []string{`If-Match: "x", ` + tag}},
		{200, []string{"If-Match: *"}},
		{412, []string{"If-Match: W/" + tag}},
		{412, []string{`If-Match: "x"`, "If-None-Match: " + tag}},
		{200, []string{"If-Match: " + tag, "If-Unmodified-Since: " + before}},
		{412, []string{"If-Unmodified-Since: " + before}},
		{200, []string{"If-Unmodified-Since: " + longAgoText}},
		{200, []string{"If-Unmodified-Since: yesterday"}},
		{304, []string{"If-None-Match: W/" + tag}},
		{304, []string{"If-None-Match: *"}},
		{200, []string{`If-None-Match: "x"`, "If-Modified-Since: " + after}},
		{304, []string{"If-Modified-Since: " + longAgoText}},
		{304, []string{"If-Modified-Since: " + after}},
		{200, []string{"If-Modified-Since: " + before}},
		{200, []string{"If-Modified-Since: " + after, "If-Modified-Since: " + after}},
		{304, []string{"If-None-Match: " + tag, "Range: bytes=0-1"}},
		{206, []string{"Range: bytes=0-1", "If-Range: " + tag}},
		{206, []string{"Range: bytes=0-1", "If-Range: " + longAgoText}},
		{200, []string{"Range: bytes=0-1", "If-Range: W/" + tag}},
		{200, []string{"Range: bytes=0-1", "If-Range: " + after}},
		{200, []string{"Range: bytes=0-1", `If-Range: "x"`}},
	} {
		if r, body := p.get("/f/a.txt", c.fields...); r.StatusCode != c.status ||
			(c.status > 206) != (body == "") ||
			c.status != 412 && (r.Header.Get("ETag") != tag || r.Header.Get("Last-Modified") != longAgoText) {
			t.Errorf("%q got %d, %v, %q, want %d", c.fields, r.StatusCode, r.Header, body, c.status)
		}
	}
}

func TestRangesOfFiles(t *testing.T) {
	t.Parallel()
	content := letters(100_000)
	root := tree(t, map[string]string{"small.txt": content[:1000], "large.txt": content})
	p := serving(t, root, "").dial()
	for _, size := range []int{1000, 100_000} {
		path := map[int]string{1000: "/f/small.txt", 100_000: "/f/large.txt"}[size]
		whole := content[:size]
		for ranges, want := range map[string][2]int{"0-0": {0, 1}, "5-9": {5, 10}, "-3": {size - 3,
			size}, "990-": {990, size},
			"10-999999": {10, size}, "-999999": {0, size}} {
			r, body := p.get(path, "Range: bytes="+ranges)
			said := fmt.Sprintf("bytes %d-%d/%d", want[0], want[1]-1, size)
			if r.StatusCode != 206 || body != whole[want[0]:want[1]] ||
				r.Header.Get("Content-Range") != said {
				t.Errorf("%s of %s: got %d, %v and %d bytes", ranges, path, r.StatusCode, r.Header, len(body))
			}
		}
		for _, ignored := range []string{"bytes=5-4", "bytes=a-b", "lines=1-2", "bytes=", "bytes=--1",
			"bytes=1-2,x"} {
			if r, body := p.get(path, "Range: "+ignored); r.StatusCode != 200 || body != whole {
				t.Errorf("%s of %s: got %d and %d bytes", ignored, path, r.StatusCode, len(body))
			}
		}
	}
	r, body := p.get("/f/large.txt", "Range: bytes=0-9, 500-509 ,-5")
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/byteranges" || r.StatusCode != 206 ||
		r.ContentLength != int64(len(body)) {
		t.Fatalf("got %d, %v", r.StatusCode, r.Header)
	}
	parts := multipart.NewReader(strings.NewReader(body), parameters["boundary"])
	for _, want := range [][2]int{{0, 10}, {500, 510}, {99_995, 100_000}} {
		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(part)
		said := fmt.Sprintf("bytes %d-%d/100000", want[0], want[1]-1)
		if string(got) != content[want[0]:want[1]] || part.Header.Get("Content-Range") != said ||
			part.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("a part is %q, %v, want %s", got, part.Header, said)
		}
	}
	if _, err := parts.NextPart(); err != io.EOF {
		t.Errorf("behind the last part: %v", err)
	}
}

// A request for many small or overlapping ranges never gets more than the file has (RFC 9110,
// section 17.15).
func TestHazardRangesDoNotAmplify(t *testing.T) {
	t.Parallel()
	content := letters(50_000)
	root := tree(t, map[string]string{"a.bin": content, "tiny.txt": content[:300]})
	p := serving(t, root, "").dial()
	for _, ranges := range []string{
		strings.Repeat("0-,", 5) + "0-", "0-49999,0-49999", strings.Repeat("1-1,", 17) + "3-3",
		strings.TrimSuffix(strings.Repeat("0-0,", 1500), ","), "0-40000,10000-49999",
	} {
		for path, whole := range map[string]string{"/f/a.bin": content, "/f/tiny.txt": content[:300]} {
			r, body := p.get(path, "Range: bytes="+ranges)
			if len(body) > len(whole) || r.StatusCode == 206 &&
				strings.Contains(r.Header.Get("Content-Type"), "multipart") {
				t.Errorf("%.40s of %s: got %d and %d bytes", ranges, path, r.StatusCode, len(body))
			}
		}
	}
	// What frames the parts counts too.
	if r, body := p.get("/f/tiny.txt", "Range: bytes=0-1,3-4,6-7"); r.StatusCode != 200 || len(body) != 300 {
		t.Errorf("three parts of a tiny file: got %d and %d bytes", r.StatusCode, len(body))
	}
}

func TestCodingsOfFilesAreTheClientsChoice(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a.js": "plain", "a.js.br": "br", "a.js.zst": "zstd",
		"a.js.gz": "gzip", "b.js": "alone"})
	p := serving(t, root, ", precompressed: [zstd, br, gzip]").dial()
	for accept, want := range map[string]string{
		"": "plain", "gzip": "gzip", "gzip, br": "br", "br;q=0.5, gzip;q=0.9": "gzip", "*": "zstd",
		"zstd;q=0, *": "br",
		"identity":    "plain", "br;q=0.2, identity;q=0.5": "plain", "BR": "br", "x-gzip": "gzip",
		"br;q=1.5":   "plain",
		"br;q=0.001": "br", "br;q=0": "plain", "deflate": "plain", "br;level=3": "plain",
		" br ; q=0.4 ,gzip; q=0.3": "br",
	} {
		var fields []string
		if accept != "" {
			fields = []string{"Accept-Encoding: " + accept}
		}
		coding := want
		if want == "plain" {
			coding = ""
		}
		if r, body := p.get("/f/a.js", fields...); body != want ||
			r.Header.Get("Content-Encoding") != coding ||
			r.Header.Get("Vary") != "Accept-Encoding" ||
			r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
			t.Errorf("%q got %q, %v, want %s", accept, body, r.Header, want)
		}
	}
	if r, body := p.get("/f/b.js", "Accept-Encoding: br"); body != "alone" || r.Header.Get("Vary") != "" {
		t.Errorf("a file without siblings: %q, %v", body, r.Header)
	}
}

func TestListingsFallbacksAndTypes(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"list/a&<b>.txt": "x", "list/javascript:alert(1)": "x",
		"list/sub/": "", "list/.hidden": "x",
		"index.html": "home", "pic.PNG": "<html>", "x.wasm": "", "noext": ""})
	g := serveClean(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
routes:
  - {match: "/l/", files: {root: %q, listing: true, index: ""}}
  - {match: "/s/{any...}", files: {root: %q, spa: true}}
  - {match: "/t/{tenant}/", files: {root: %q}}
  - {match: "/home/{$}", files: {root: %q}}
`, root, root, root, root))
	p := g.dial()
	r, page := p.get("/l/list/")
	for _, want := range []string{`<a href="./a&amp;%3Cb%3E.txt">a&amp;&lt;b&gt;.txt</a>`,
		`<a href="./javascript:alert%281%29">`, `href="./sub/"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "hidden") || strings.Contains(page, "<b>") || r.Header.Get("Vary") != "Accept" {
		t.Errorf("the page is %v\n%s", r.Header, page)
	}
	if r, text := p.get("/l/list/",
		"Accept: application/json"); r.Header.Get("Content-Type") != "application/json" ||
		!strings.Contains(text,
			`{"name":"javascript:alert(1)","type":"file","size":1,"modified":"2024-02-29T12:00:00Z"}`) {
		t.Errorf("the listing in JSON is %v %s", r.Header, text)
	}
	for path, want := range map[string]string{"/s/": "home", "/s/deep/er": "home",
		"/s/index.html": "home", "/t/x/": "home", "/home/": "home"} {
		if r, body := p.get(path); r.StatusCode != 200 || body != want {
			t.Errorf("%s: got %d %q", path, r.StatusCode, body)
		}
	}
	for path, want := range map[string]string{"/t/x/pic.PNG": "image/png",
		"/t/x/x.wasm": "application/wasm", "/t/x/noext": "application/octet-stream"} {
		if r, _ := p.get(path); r.Header.Get("Content-Type") != want {
			t.Errorf("%s is %v, want %s", path, r.Header, want)
		}
	}
}
