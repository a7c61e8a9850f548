package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

// Services that lie, contradict themselves or break off: nothing wrong is stored. Each is asked
// twice for the same thing; what it says the second time is good, and not to be stored.
func TestWhatServicesSayThatIsWrongIsNotStored(t *testing.T) {
	const (
		good  = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 4\r\n\r\ngood"
		fresh = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
	)
	for _, test := range []struct {
		name, says string
		ends       bool // its connection
		whole      bool // what it says is passed on, as it is
		stored     bool
	}{
		{name: "a length that is too long", ends: true,
			says: "HTTP/1.1 200 OK\r\nContent-Length: 50\r\nCache-Control: max-age=60\r\n\r\nwrong"},
		{name: "chunks that break off", ends: true,
			says: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nCache-Control: max-age=60\r\n\r\n5\r\nwrong\r\n"},
		{name: "304 unasked", says: "HTTP/1.1 304 No\r\nCache-Control: max-age=60\r\n\r\n"},
		{name: "no-store and a lifetime", says: fresh + "Cache-Control: max-age=60, no-store\r\n\r\nwrong", whole: true},
		{name: "public and private", says: fresh + "Cache-Control: public, private, max-age=60\r\n\r\nwrong", whole: true},
		{name: "two lifetimes", says: fresh + "Cache-Control: max-age=60, max-age=0\r\n\r\nwrong", whole: true},
		{name: "an invalid lifetime", says: fresh + "Cache-Control: max-age=-60\r\n\r\nwrong", whole: true},
		{name: "directives that cannot be read", says: fresh + "Cache-Control: max-age=\"6\r\n\r\nwrong", whole: true},
		{name: "a date long ago", whole: true,
			says: fresh + "Date: Mon, 01 Jan 2001 10:00:00 GMT\r\nCache-Control: max-age=60\r\n\r\nwrong"},
		{name: "an end before its date", whole: true,
			says: fresh + "Date: Mon, 01 Jan 2091 10:00:00 GMT\r\nExpires: Mon, 01 Jan 2080 10:00:00 GMT\r\n\r\nwrong"},
		{name: "an end that is not a date", says: fresh + "Expires: soon\r\n\r\nwrong", whole: true},
		{name: "a great age", says: fresh + "Age: 99999999999999999999\r\nCache-Control: max-age=60\r\n\r\nwrong", whole: true},
		{name: "Vary of no name", says: fresh + "Vary: a b\r\nCache-Control: max-age=60\r\n\r\nwrong", whole: true},
		{name: "Vary of everything", says: fresh + "Vary: a, *\r\nCache-Control: max-age=60\r\n\r\nwrong", whole: true},
		{name: "a part that nobody asked for", whole: true,
			says: "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-4/9\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\n\r\nwrong"},
		{name: "an invalid tag", says: fresh + "ETag: x\"y\r\nCache-Control: max-age=60\r\n\r\nwrong", whole: true, stored: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			s := newService(t, func(sc *serviceConn, _ int) {
				for {
					if _, _, ok := sc.request(); !ok {
						return
					}
					first, says := asked.Add(1) == 1, good
					if first {
						says = test.says
					}
					if !sc.write(says) || first && test.ends {
						return
					}
				}
			})
			i := serveClean(t, `
listeners: [{address: 127.0.0.1:0}]
upstreams: {origin: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: origin, cache: {}}]
`)
			c := i.client()
			res, err := c.Get(i.url("/"))
			if err == nil {
				body, cut := io.ReadAll(res.Body)
				res.Body.Close()
				whole := cut == nil && string(body) == "wrong"
				if whole != test.whole || !whole && cut == nil && res.StatusCode != http.StatusBadGateway {
					t.Errorf("the first is answered %d %q, %v", res.StatusCode, body, cut)
				}
			}
			want := "good"
			if test.stored {
				want = "wrong"
			}
			if status, body, h := request(t, c, "GET", i.url("/")); status != 200 || body != want {
				t.Errorf("the second is answered %d %q %v", status, body, h)
			}
		})
	}
}
