package gateway

import (
	"net/http"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
)

// trailing is the fields of a section in which some must go: what the route removes or sets, what
// Connection names, what a client could claim, and what belongs into a head.
const (
	trailing = "X-Kept: 1\r\nX-Gone: 2\r\nx-gone: 3\r\nX-Set: 4\r\nX-Hop: 5\r\nX-Real-Ip: 6\r\n" +
		"X_Forwarded_For: 7\r\nX-Forwarded-User: 8\r\nX-Request-Id: 9\r\nKeep-Alive: 10\r\n" +
		"Content-Length: 11\r\nSum: 12\r\n"
	trailingLeft = "X-Kept: 1\r\nSum: 12\r\n"
)

// removing is a gateway with one route, to s, that removes X-Gone and sets X-Set in both
// directions.
func removing(t *testing.T, s *service) *instance {
	return serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
  - match: /
    upstream: s
    request_headers: {remove: [X-Gone], set: {X-Set: gateway}}
    response_headers: {remove: [X-Gone], set: {X-Set: gateway}}
`)
}

func TestWhatARouteRemovesGoesFromTrailersToo(t *testing.T) {
	const chunks = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
	apart := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		for {
			if _, _, ok := c.request(); !ok {
				return
			}
			// The gateway uses the memory of the head again before the trailers come.
			c.write("HTTP/1.1 200 OK\r\nDate: d\r\nConnection: close, X-Hop\r\n" + chunks)
			<-apart
			if !c.write("0\r\n" + trailing + "\r\n") {
				return
			}
		}
	})
	p := removing(t, s).dial()
	for range 2 {
		p.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: X-Hop\r\n" + chunks + "0\r\n" + trailing + "\r\n")
		p.expect("HTTP/1.1 200 OK\r\nDate: d\r\nX-Set: gateway\r\n" + chunks)
		apart <- struct{}{}
		p.expect("0\r\n" + trailingLeft + "\r\n")
	}
	want := "POST / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "X-Set: gateway\r\n" + chunks +
		"0\r\n" + trailingLeft + "\r\n"
	if s.saw() != want+want {
		t.Errorf("the upstream saw\n%q\nwant twice\n%q", s.saw(), want)
	}
}

// A message with more options than anybody needs loses all trailers of unknown names, as it loses
// such fields.
func TestTooManyConnectionOptionsTakeAllUnknownTrailers(t *testing.T) {
	s := newService(t, replying(echo))
	p := removing(t, s).dial()
	const body = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
	p.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: " + strings.Repeat("x,", 65) + "\r\n" +
		body + "Sum: 1\r\n\r\n")
	p.response("POST")
	if strings.Contains(s.saw(), "Sum") {
		t.Errorf("the upstream saw %q", s.saw())
	}
}

func TestWhatARouteRemovesGoesFromInterimResponsesToo(t *testing.T) {
	const final = "HTTP/1.1 200 OK\r\nDate: d\r\nX-Set: gateway\r\nContent-Length: 0\r\n\r\n"
	s := newService(t, answering("HTTP/1.1 103 Early Hints\r\nConnection: X-Hop\r\nLink: </s>\r\n"+
		"X-Gone: 1\r\nX-Set: 2\r\nX-Hop: 3\r\nTrailer: X\r\nTE: trailers\r\nUpgrade: x\r\n"+
		"Proxy-Authenticate: x\r\nx_real_ip: 4\r\n\r\n"+final))
	p := removing(t, s).dial()
	p.send(get)
	p.expect("HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n" + final)
}

func TestTrailerNamesOnlyWhatIsForwarded(t *testing.T) {
	const names = "Trailer: X-Kept, X-Gone,,x-hop , Content-Length, X-Real-Ip, X_Custom, X-Set,Sum\r\n" +
		"Trailer: X-Gone\r\n"
	const left = "Trailer: X-Kept,Sum\r\n"
	const chunks = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Kept: 1\r\nSum: 2\r\n\r\n"
	s := newService(t, once("HTTP/1.1 200 OK\r\nDate: d\r\nConnection: X-Hop\r\n"+names+chunks))
	p := removing(t, s).dial()
	for range 2 {
		p.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: X-Hop\r\n" + names + chunks)
		p.expect("HTTP/1.1 200 OK\r\nDate: d\r\n" + left + "X-Set: gateway\r\n" + chunks)
	}
	want := "POST / HTTP/1.1\r\nHost: a\r\n" + left + forwardedFields + "X-Set: gateway\r\n" + chunks
	if s.saw() != want+want {
		t.Errorf("the upstream saw\n%q\nwant twice\n%q", s.saw(), want)
	}
}

func TestARetriedRequestNamesItsTrailersAgain(t *testing.T) {
	const request = "PUT / HTTP/1.1\r\nHost: a\r\nTrailer: Sum\r\nTE: trailers\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n0\r\nSum: 2\r\n\r\n"
	s := newService(t, func(c *serviceConn, n int) {
		if _, _, ok := c.request(); ok && n > 1 {
			c.write(okResponse)
		}
	})
	p := serveClean(t, oneUpstream(s.address())).dial()
	p.send(request)
	p.response("PUT")
	want := "PUT / HTTP/1.1\r\nHost: a\r\nTrailer: Sum\r\n" + forwardedFields +
		"Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\n\r\n0\r\nSum: 2\r\n\r\n"
	if s.saw() != want+want {
		t.Errorf("the upstream saw\n%q\nwant twice\n%q", s.saw(), want)
	}
}

func TestOnlyTrailersOfTEIsForwarded(t *testing.T) {
	const te = "TE: trailers\r\nConnection: TE\r\n"
	for _, c := range []struct{ name, sent, want string }{
		{"alone", "TE: trailers\r\nConnection: TE\r\n", te},
		{"without Connection", "TE: trailers\r\n", te},
		{"in another case", "te: Trailers\r\n", te},
		{"among codings", "TE: gzip;q=0.5, trailers ,deflate\r\n", te},
		{"in a second field", "TE: gzip\r\nTE: trailers\r\n", te},
		{"not there", "TE: gzip, xtrailers, trailersx, trailers;q=1\r\n", ""},
		{"empty", "TE:\r\n", ""},
		{"with an upgrade", "TE: trailers\r\nConnection: TE, Upgrade\r\nUpgrade: websocket\r\n",
			"TE: trailers\r\nConnection: TE, upgrade\r\nUpgrade: websocket\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, answering(okResponse))
			p := serveClean(t, oneUpstream(s.address())).dial()
			p.send("GET / HTTP/1.1\r\nHost: a\r\n" + c.sent + "\r\n")
			p.response("GET")
			if want := "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + c.want + "\r\n"; s.saw() != want {
				t.Errorf("the upstream saw %q, want %q", s.saw(), want)
			}
		})
	}
	t.Run("from HTTP/1.0, which has no trailers", func(t *testing.T) {
		s := newService(t, answering(okResponse))
		p := serveClean(t, oneUpstream(s.address())).dial()
		p.send("GET / HTTP/1.0\r\nHost: a\r\nTE: trailers\r\n\r\n")
		p.response("GET")
		if strings.Contains(s.saw(), "TE:") {
			t.Errorf("the upstream saw %q", s.saw())
		}
	})
}

func TestOptionsOfTheWholeServer(t *testing.T) {
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: "GET /only", respond: {body: in}}]
`)
	p := g.dial()
	for _, target := range []string{"*", "http://a"} {
		for range 2 {
			p.send("OPTIONS " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
			r, body := p.response("OPTIONS")
			if r.StatusCode != 204 || body != "" || r.Header.Get("Content-Length") != "" || r.Close {
				t.Errorf("%s: got %d %v %q, want 204 without a body", target, r.StatusCode, r.Header, body)
			}
		}
	}
	p.send("OPTIONS * HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" +
		"GET /only HTTP/1.1\r\nHost: a\r\n\r\n")
	p.response("OPTIONS")
	if r, body := p.response("GET"); r.StatusCode != 200 || body != "in" {
		t.Errorf("behind a body: got %d %q", r.StatusCode, body)
	}
	if n := g.reasons(exchange.ServerOptions); n != 5 {
		t.Errorf("%d exchanges are counted, want 5", n)
	}
}

func TestViaIsAddedOnlyWhereARouteAsksForIt(t *testing.T) {
	const there = "Via: 1.0 fred, 1.1 p.example\r\n"
	for _, c := range []struct{ name, key, version, response, saw, want string }{
		{"by default", "", "1.1", "1.1", there, there},
		{"asked for", ", via: e", "1.1", "1.1", there + "Via: 1.1 e\r\n", there + "Via: 1.1 e\r\n"},
		{"of older peers", ", via: e", "1.0", "1.0", there + "Via: 1.0 e\r\n", there + "Via: 1.0 e\r\n"},
		{"in place of what others said",
			", via: e, request_headers: {remove: [Via]}, response_headers: {remove: [Via]}", "1.1",
			"1.1", "Via: 1.1 e\r\n", "Via: 1.1 e\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, once("HTTP/"+c.response+" 200 OK\r\nDate: d\r\nContent-Length: 0\r\n"+there+"\r\n"))
			p := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s`+c.key+`}]
`).dial()
			p.send("GET / HTTP/" + c.version + "\r\nHost: a\r\n" + there + "\r\n")
			r, _ := p.response("GET")
			var got strings.Builder
			for _, via := range r.Header["Via"] {
				got.WriteString("Via: " + via + "\r\n")
			}
			if got.String() != c.want {
				t.Errorf("the client got %q, want %q", got.String(), c.want)
			}
			got.Reset()
			for _, line := range strings.SplitAfter(s.saw(), "\r\n") {
				if strings.HasPrefix(line, "Via") {
					got.WriteString(line)
				}
			}
			if got.String() != c.saw {
				t.Errorf("the upstream saw %q, want %q", got.String(), c.saw)
			}
		})
	}
}

// The path that is matched is always the canonical one; only what is forwarded differs.
func TestAPathIsForwardedAsSentOnlyWhereARouteAsksForIt(t *testing.T) {
	s := newService(t, replying(func(r *http.Request, _ string) string { return echo(r, r.RequestURI) }))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
  - {match: /, upstream: s}
  - {match: /raw/, upstream: s, forward_path: as_sent}
  - {match: /raw/admin/, respond: {status: 403, body: admin}}
`)
	p := g.dial()
	for target, want := range map[string]string{
		"/a//b":                        "/a/b",
		"/a//b?c=//d":                  "/a/b?c=//d",
		"/raw//b":                      "/raw//b",
		"/raw//b?c=//%2e":              "/raw//b?c=//%2e",
		"/raw/?":                       "/raw/?",
		"//raw/%7euser/x..//...\"q\"/": "//raw/%7euser/x..//...\"q\"/",
		"http://a//raw//b?c":           "//raw//b?c",
		"/raw/../b//c":                 "/b/c",
	} {
		p.send("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "GET "+want {
			t.Errorf("%s got %d %q, want %q to be forwarded", target, r.StatusCode, body, want)
		}
	}
	for _, target := range []string{
		"/raw//admin/x", "/raw/x/..//admin/x", "/raw/%61dmin/x", "//raw/admin/./x", "/raw/../raw/admin/",
	} {
		p.send("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, body := p.response("GET"); r.StatusCode != 403 || body != "admin" {
			t.Errorf("%s got %d %q, want the route of its canonical form", target, r.StatusCode, body)
		}
	}
	// A service that does not resolve dots would read another path than the one that was matched.
	for _, target := range []string{
		"/raw/a%5c..%5cadmin", "/admin/../raw/x", "/admin/%2e%2E/raw/x", "/raw/x/.", "/./raw/x", "/raw/x/.%2e?y",
	} {
		p = g.dial()
		p.send("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		p.expectFailureEnd(400, "bad_path")
	}
}
