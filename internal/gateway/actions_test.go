package gateway

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
)

// routed is a gateway with these routes in front of one service, which answers with what it saw.
func routed(t *testing.T, s *service, routes string) *instance {
	t.Helper()
	return serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
`+routes)
}

func TestRespondAndRedirect(t *testing.T) {
	s := untouched(t)
	g := routed(t, s, `
  - {match: "/hello/{name}", respond: {status: 203, headers: {X-Who: us}, body: "hello"}}
  - {match: "/old/{rest...}", redirect: {to: "/new/{rest}", status: 301}}
  - {match: /empty, respond: {status: 204}}
`)
	p := g.dial()
	p.send("GET /old/a/b?c HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := p.response("GET"); r.StatusCode != 301 || !strings.HasPrefix(r.Header.Get("Location"), "/new/a/b") {
		t.Errorf("got %d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	p.send("GET /hello/you HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := p.response("GET"); r.StatusCode != 203 || body != "hello" || r.Header.Get("X-Who") != "us" {
		t.Errorf("got %d %q", r.StatusCode, body)
	}
	p.send("HEAD /hello/you HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := p.response("HEAD"); r.StatusCode != 203 || r.ContentLength != 5 {
		t.Errorf("HEAD got %d and length %d", r.StatusCode, r.ContentLength)
	}
	p.send("GET /empty HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := p.response("GET"); r.StatusCode != 204 || r.Header.Get("Content-Length") != "" {
		t.Errorf("got %d, %v", r.StatusCode, r.Header)
	}
	p.send("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + "GET /empty HTTP/1.1\r\nHost: a\r\n\r\n")
	p.expectFailure(404, "no_route")
	if r, _ := p.response("GET"); r.StatusCode != 204 {
		t.Errorf("behind a 404 with a body got %d", r.StatusCode)
	}
	s.expectUntouched()
}

func TestAPathIsServedForItsMethods(t *testing.T) {
	s := untouched(t)
	g := routed(t, s, `
  - {match: "GET /x", respond: {}}
  - {match: "DELETE /x", respond: {}}
`)
	p := g.dial()
	p.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	if r := p.expectFailure(405, "wrong_method"); r.Header.Get("Allow") != "DELETE, GET, HEAD" {
		t.Errorf("Allow is %q", r.Header.Get("Allow"))
	}
	if status, _ := p.request("HEAD", "/x"); status != 200 {
		t.Errorf("HEAD of a path for GET got %d", status)
	}
}

func TestRewritesAndHeaders(t *testing.T) {
	s := newService(t, answering("HTTP/1.1 200 OK\r\nServer: x\r\nX-Secret: y\r\nDate: d\r\nContent-Length: 0\r\n\r\n"))
	g := routed(t, s, `
  - match: "/api/{id}/{rest...}"
    upstream: s
    rewrite: "/v2/{rest}/of/{id}"
    request_headers: {set: {X-Path: "${path}", Host: inner}, add: {X-Tag: one}, remove: [X-Gone]}
    response_headers: {set: {Server: plimsoll}, remove: [X-Secret]}
  - {match: "/strip/", upstream: s, strip_prefix: /strip}
`)
	p := g.dial()
	p.send("GET /api/7/a/b?q=1 HTTP/1.1\r\nHost: a\r\nX-Gone: z\r\nX-Tag: zero\r\n\r\n")
	p.expect("HTTP/1.1 200 OK\r\nDate: d\r\nServer: plimsoll\r\nContent-Length: 0\r\n\r\n")
	want := "GET /v2/a/b/of/7?q=1 HTTP/1.1\r\nHost: inner\r\nX-Tag: zero\r\n" + forwardedFields + "X-Path: /api/7/a/b\r\nX-Tag: one\r\n\r\n"
	if s.saw() != want {
		t.Errorf("the upstream saw\n%q\nwant\n%q", s.saw(), want)
	}
	p.send("GET /strip/deep/x?y HTTP/1.1\r\nHost: a\r\n\r\n")
	p.response("GET")
	if !strings.Contains(s.saw(), "GET /deep/x?y HTTP/1.1\r\n") {
		t.Errorf("the upstream saw %q", s.saw())
	}
}

func TestRequestIDAndTrace(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := routed(t, s, `
  - {match: /, upstream: s, request_id: true, trace: true}
`)
	p := g.dial()
	const trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
	p.send("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: evil\r\n\r\n")
	r, _ := p.response("GET")
	id := r.Header.Get("X-Request-Id")
	if id == "" || id == "evil" || strings.Count(s.saw(), "X-Request-Id: "+id+"\r\n") != 1 {
		t.Errorf("the id is %q; the upstream saw %q", id, s.saw())
	}
	if !regexp.MustCompile(`(?i)\r\ntraceparent: 00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\r\n`).MatchString(s.saw()) {
		t.Errorf("no trace was begun: the upstream saw %q", s.saw())
	}
	p.send("GET / HTTP/1.1\r\nHost: a\r\n" + trace + "\r\n")
	p.response("GET")
	if !strings.Contains(s.saw(), "-b7ad6b7169203331-01") && !strings.Contains(s.saw(), "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Errorf("a trace was not passed on: the upstream saw %q", s.saw())
	}
}

func TestAPreflightBelongsToTheRouteItAsksAbout(t *testing.T) {
	s := untouched(t)
	g := routed(t, s, `
  - {match: "PUT /x", upstream: s, cors: {origins: ["https://a.example"], methods: [PUT], max_age: 1m}}
  - {match: "GET /x", respond: {}}
`)
	p := g.dial()
	ask := func(origin, method string) *http.Response {
		p.send("OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: " + origin + "\r\nAccess-Control-Request-Method: " + method + "\r\n\r\n")
		r, _ := p.response("OPTIONS")
		return r
	}
	if r := ask("https://a.example", "PUT"); r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Origin") != "https://a.example" {
		t.Errorf("got %d, %v", r.StatusCode, r.Header)
	}
	for _, c := range [][2]string{{"https://b.example", "PUT"}, {"https://a.example", "GET"}, {"https://a.example", "PATCH"}} {
		if r := ask(c[0], c[1]); r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%v is allowed: %d, %v", c, r.StatusCode, r.Header)
		}
	}
	s.expectUntouched()
}

func TestAccessListsDecideBeforeAnythingIsForwarded(t *testing.T) {
	s := untouched(t)
	g := routed(t, s, `
  - {match: /, upstream: s, access: {deny: ["127.0.0.0/8"]}}
  - {match: /open, respond: {}, access: {allow: ["127.0.0.1"]}}
`)
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	p.expectFailure(403, "denied")
	if status, _ := p.request("GET", "/open"); status != 200 {
		t.Errorf("got %d", status)
	}
	s.expectUntouched()
}

func TestASplitSendsSharesAndKeepsClients(t *testing.T) {
	a, b, none := newService(t, answering(okResponse)), newService(t, answering(okResponse)), untouched(t)
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {a: {targets: ["`+a.address()+`"]}, b: {targets: ["`+b.address()+`"]}, none: {targets: ["`+none.address()+`"]}}
routes:
  - {match: /, split: {weights: {a: 3, b: 1, none: 0}}}
  - {match: /sticky, split: {weights: {a: 1, b: 1}, sticky: "header:X-User"}}
`)
	p := g.dial()
	for range 400 {
		p.request("GET", "/")
	}
	if n := strings.Count(b.saw(), "GET"); n < 50 || n > 150 { // 100 ± 8.7: five standard deviations
		t.Errorf("a quarter of 400 requests were %d", n)
	}
	none.expectUntouched()
	for user := range 8 {
		before := strings.Count(a.saw(), "GET")
		for range 5 {
			p.send(fmt.Sprintf("GET /sticky HTTP/1.1\r\nHost: a\r\nX-User: %d\r\n\r\n", user))
			p.response("GET")
		}
		if n := strings.Count(a.saw(), "GET") - before; n != 0 && n != 5 {
			t.Errorf("user %d was sent %d times of 5 to one side", user, n)
		}
	}
}

func TestMaxBodyHoldsForEveryFraming(t *testing.T) {
	s := newService(t, replying(echo))
	g := routed(t, s, `
  - {match: /, upstream: s, max_body: 6B, hold_body: 0B}
`)
	p := g.dial()
	for _, fits := range []string{"Content-Length: 6\r\n\r\nabcdef",
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"} {
		p.send("POST / HTTP/1.1\r\nHost: a\r\n" + fits)
		if r, body := p.response("POST"); r.StatusCode != 200 || body != "POST abcdef" {
			t.Fatalf("got %d %q", r.StatusCode, body)
		}
	}
	p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nabcdefg" + get)
	p.expectFailure(413, "body_too_large")
	// The refused body was there whole, and passed over.
	if r, body := p.response("GET"); r.StatusCode != 200 {
		t.Errorf("got %d %q", r.StatusCode, body)
	}
	for _, split := range []int{0, 5, 11} {
		before := strings.Count(s.saw(), "POST")
		q := g.dial()
		long := "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n" + hidden
		q.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + long[:split])
		if split > 0 {
			eventually(t, "the head at the upstream", func() bool { return strings.Count(s.saw(), "POST") > before })
		}
		q.send(long[split:])
		q.expectFailureEnd(413, "body_too_large")
	}
	if strings.Contains(s.saw(), "/hidden") || strings.Contains(s.saw(), "defg") {
		t.Errorf("the upstream saw %q", s.saw())
	}
	if n := g.reasons(exchange.BodyTooLarge); n != 4 {
		t.Errorf("%d exchanges are counted as too large, want 4", n)
	}
}
