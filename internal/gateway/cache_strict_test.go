package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// What clients and services write in unusual forms means what the RFCs say it means. Each case is
// two requests for the same thing, in raw bytes, and whether the second is answered from what is
// stored.
func TestUnusualFormsOfRequestsAndResponses(t *testing.T) {
	t.Parallel()
	const get = "GET /a HTTP/1.1\r\nHost: a\r\n"
	for _, test := range []struct {
		name, first, second string // requests, without the empty line; get where they are empty
		says                string // lines of the response, beside its freshness
		hit                 bool
		has, lacks          string // in the second response's head
	}{
		{name: "the host's case", second: "GET /a HTTP/1.1\r\nHost: A\r\n", hit: true},
		{name: "the host with its port", second: "GET /a HTTP/1.1\r\nHost: a:80\r\n"},
		{name: "an absolute target", second: "GET http://a/a HTTP/1.1\r\nHost: a\r\n", hit: true},
		{name: "an encoded letter", second: "GET /%61 HTTP/1.1\r\nHost: a\r\n", hit: true},
		{name: "dots", second: "GET /x/../a HTTP/1.1\r\nHost: a\r\n", hit: true},
		{name: "an empty query", second: "GET /a? HTTP/1.1\r\nHost: a\r\n"},
		{name: "a body of no length", second: get + "Content-Length: 0\r\n", hit: true},
		{name: "Pragma", second: get + "Pragma: no-cache\r\n"},
		{name: "Pragma in a list", second: get + "Pragma: x, No-Cache\r\n"},
		{name: "Pragma in a second line", second: get + "Pragma: x\r\nPragma: no-cache\r\n"},
		{name: "Pragma that says something else", second: get + "Pragma: no-cache=x\r\n", hit: true},
		{name: "Cache-Control in two lines",
			second: get + "Cache-Control: max-age=99\r\ncache-control: no-cache\r\n"},
		{name: "a range of a whole that says that it is a part", says: "Content-Range: bytes 0-9/99\r\n",
			second: get + "Range: bytes=1-2\r\n", hit: true, has: "Content-Range: bytes 1-2/4\r\n",
			lacks: "0-9/99"},
		{name: "the unit's case", second: get + "Range: BYTES=1-2\r\n", hit: true,
			has: "HTTP/1.1 206 "},
		{name: "a range without an end or a begin", second: get + "Range: bytes=-\r\n", hit: true,
			has: "HTTP/1.1 200 "},
		{name: "the last none", second: get + "Range: bytes=-0\r\n", hit: true, has: "HTTP/1.1 416 "},
		{name: "two ages", says: "Age: 5\r\nAge: 7\r\n", hit: true, lacks: "Age: 7"},
		{name: "Cache-Status of another cache", says: "Cache-Status: other; hit\r\n", hit: true,
			lacks: "other"},
		{name: "two tags", says: "ETag: \"a\"\r\nETag: \"b\"\r\n", second: get + "If-None-Match: \"b\"\r\n",
			hit: true, has: "HTTP/1.1 200 "},
		{name: "a tag that is none", says: "ETag: a\r\n", second: get + "If-None-Match: a\r\n", hit: true,
			has: "HTTP/1.1 200 "},
		{name: "Vary in another case, twice, with holes",
			says:   "vary: ,ACCEPT-encoding ,, accept-Encoding\r\n",
			first:  get + "Accept-Encoding: gzip\r\n",
			second: get + "Accept-Encoding:  GZIP;q=1.0\r\n", hit: true},
		{name: "a field for one hop", says: "Connection: X-A, x-b\r\nX-A: 1\r\nX-B: 2\r\n", hit: true,
			lacks: "X-"},
		{name: "a private field", says: "X-A: 1\r\nCache-Control: private=\"x-A\"\r\n", hit: true,
			lacks: "X-A: 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			s := newService(t, replying(func(*http.Request, string) string {
				asked.Add(1)
				return "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\n" + test.says +
					"Content-Length: 4\r\n\r\nbody"
			}))
			i := serveClean(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: [%q]}}
routes: [{match: /, upstream: s, cache: {early_refresh: false}}]
`, s.address()))
			var heads []string
			for _, raw := range []string{test.first, test.second} {
				if raw == "" {
					raw = get
				}
				all := i.exchange(raw + "Connection: close\r\n\r\n")
				head, _, _ := strings.Cut(all, "\r\n\r\n")
				heads = append(heads, head+"\r\n")
			}
			if hit := asked.Load() == 1; hit != test.hit {
				t.Errorf("answered from what is stored: %v", hit)
			}
			if !strings.Contains(heads[1], test.has) ||
				test.lacks != "" && strings.Contains(heads[1], test.lacks) {
				t.Errorf("the second response is\n%s", heads[1])
			}
		})
	}
}
