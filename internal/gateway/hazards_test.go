package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
)

// Each test here is named after a class of defects by which gateways have been broken.

// refusal is a request that must be refused, with what follows it on the connection.
type refusal struct {
	name, request string
	status        int
	why           http1.Error
}

// hidden stands behind a refused request: the one that an attacker would like the upstream to see.
const hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"

// expectRefusals sends each request with another one behind it: it must be refused, the connection
// closed, and nothing forwarded.
func expectRefusals(t *testing.T, all []refusal) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			s := untouched(t)
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			p.send(c.request + hidden)
			r, body := p.response("GET")
			if r.StatusCode != c.status || !r.Close || len(body) == 0 || len(body) > 200 {
				t.Errorf("got %d %q, close %v, want %d with a short body, and the connection closed", r.StatusCode, body, r.Close, c.status)
			}
			p.expectEnd()
			s.expectUntouched()
			snapshot := g.snapshot()
			if n := snapshot.RefusedRequests[c.why]; n != 1 {
				t.Errorf("%d requests are counted as refused for %q, want 1: %v", n, c.why, snapshot.RefusedRequests)
			}
			if n := snapshot.Reasons[exchange.BadRequest]; n != 1 {
				t.Errorf("%d exchanges are counted as bad requests, want 1", n)
			}
		})
	}
}

func post(fields, body string) string {
	return "POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body
}

func TestHazardTECLSmuggling(t *testing.T) {
	const chunked, tail = "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"
	expectRefusals(t, []refusal{
		{"TE and CL", post("Content-Length: 5\r\n"+chunked, tail), 400, http1.LengthAndCoding},
		{"CL and TE", post(chunked+"Content-Length: 5\r\n", tail), 400, http1.LengthAndCoding},
		{"TE in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\n" + chunked + "\r\n" + tail, 400, http1.LengthAndCoding},
		{"two lengths", post("Content-Length: 5\r\nContent-Length: 6\r\n", tail), 400, http1.BadContentLength},
		{"the same length twice", post("Content-Length: 5\r\nContent-Length: 5\r\n", tail), 400, http1.BadContentLength},
		{"a list of lengths", post("Content-Length: 5, 5\r\n", tail), 400, http1.BadContentLength},
		{"a signed length", post("Content-Length: +5\r\n", tail), 400, http1.BadContentLength},
		{"a negative length", post("Content-Length: -5\r\n", tail), 400, http1.BadContentLength},
		{"a length in hexadecimal", post("Content-Length: 0x5\r\n", tail), 400, http1.BadContentLength},
		{"a length with a space", post("Content-Length: 5 5\r\n", tail), 400, http1.BadContentLength},
		{"a length that overflows", post("Content-Length: 18446744073709551621\r\n", tail), 400, http1.BadContentLength},
		{"an empty length", post("Content-Length:\r\n", tail), 400, http1.BadContentLength},
		{"an unknown coding", post("Transfer-Encoding: xchunked\r\n", tail), 501, http1.UnknownCoding},
		{"chunked not last", post("Transfer-Encoding: chunked, identity\r\n", tail), 501, http1.UnknownCoding},
		{"chunked twice", post("Transfer-Encoding: chunked, chunked\r\n", tail), 501, http1.UnknownCoding},
		{"chunked in two fields", post(chunked+chunked, tail), 501, http1.UnknownCoding},
		{"chunked with a control byte", post("Transfer-Encoding: \x0bchunked\r\n", tail), 400, http1.BadFieldValue},
		{"a space before the colon", post("Transfer-Encoding : chunked\r\n", tail), 400, http1.BadFieldName},
		{"a folded coding", post("Transfer-Encoding:\r\n chunked\r\n", tail), 501, http1.UnknownCoding},
		{"a coding behind a bare CR", post("X: y\rTransfer-Encoding: chunked\r\n", tail), 400, http1.BareCR},
		{"a coding behind a bare LF", post("X: y\nTransfer-Encoding: chunked\r\n", tail), 400, http1.BareLF},
	})
}

func TestHazardTECLSmugglingInChunks(t *testing.T) {
	t.Parallel()
	const head = "Transfer-Encoding: chunked\r\n"
	for _, c := range []refusal{
		{"a bare LF behind a size (CVE-2025-22871)", "5\nhello\r\n0\r\n\r\n", 400, http1.BareLF},
		{"a bare LF behind data", "5\r\nhello\n0\r\n\r\n", 400, http1.BareLF},
		{"a bare LF at the end", "0\r\n\n", 400, http1.BareLF},
		{"a bare LF in an extension", "5;a\nhello\r\n0\r\n\r\n", 400, http1.BareLF},
		{"a bare CR in an extension", "5;a\rb\r\nhello\r\n0\r\n\r\n", 400, http1.BareCR},
		{"a size with a sign", "+5\r\nhello\r\n0\r\n\r\n", 400, http1.BadChunk},
		{"a size with 0x", "0x5\r\nhello\r\n0\r\n\r\n", 400, http1.BadChunk},
		{"a size with a space before it", " 5\r\nhello\r\n0\r\n\r\n", 400, http1.BadChunk},
		{"a size with a space behind it", "5 \r\nhello\r\n0\r\n\r\n", 400, http1.BadChunk},
		{"no size", "\r\nhello\r\n0\r\n\r\n", 400, http1.BadChunk},
		{"a size that overflows", "10000000000000005\r\nhello\r\n0\r\n\r\n", 400, http1.BadChunk},
		{"a chunk that is longer than its size", "4\r\nhello\r\n0\r\n\r\n", 400, http1.BadChunk},
		{"a trailer without a name", "0\r\n: x\r\n\r\n", 400, http1.BadTrailer},
		{"a folded trailer", "0\r\n x\r\n\r\n", 400, http1.BadTrailer},
		{"trailers that are too long", "0\r\nX: " + strings.Repeat("a", 33<<10), 431, http1.TrailersTooLarge},
		{"too many bytes of extensions", "1;" + strings.Repeat("x", 5000) + "\r\na\r\n0\r\n\r\n", 400, http1.ExtensionTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, func(sc *serviceConn, _ int) {
				if _, _, ok := sc.request(); ok {
					t.Error("the upstream got a whole request")
				}
			})
			g := serveClean(t, streamed(oneUpstream(s.address())))
			for _, split := range []string{"", "separately"} {
				p := g.dial()
				p.send(post(head, ""))
				if split != "" { // the upstream is at work on the request before its body shows to be malformed
					p.send("1\r\nx\r\n")
					eventually(t, "the head at the upstream", func() bool { return strings.Contains(s.saw(), "\r\n\r\n1\r\nx\r\n") })
				}
				p.send(c.request + hidden)
				p.expectFailureEnd(c.status, "bad_request")
			}
			if strings.Contains(s.saw(), "/hidden") {
				t.Errorf("the upstream saw %q", s.saw())
			}
			eventually(t, "the refusals to be counted", func() bool { return g.refusedRequests(c.why) == 2 })
		})
	}
}

func TestHazardMalformedRequests(t *testing.T) {
	t.Parallel()
	line := func(l string) string { return l + "\r\nHost: a\r\n\r\n" }
	field := func(f string) string { return "GET / HTTP/1.1\r\nHost: a\r\n" + f + "\r\n\r\n" }
	expectRefusals(t, []refusal{
		{"no request at all", "hello\r\n\r\n", 400, http1.BadLine},
		{"no version", line("GET /"), 400, http1.BadLine},
		{"three spaces", line("GET /  HTTP/1.1"), 400, http1.BadLine},
		{"a space in the target", line("GET /a b HTTP/1.1"), 400, http1.BadLine},
		{"a tab instead of a space", line("GET\t/ HTTP/1.1"), 400, http1.BadMethod},
		{"a method that is not a token", line("G(T / HTTP/1.1"), 400, http1.BadMethod},
		{"a target with a control byte", line("GET /\x01 HTTP/1.1"), 400, http1.BadTarget},
		{"a target with a byte over 0x7f", line("GET /\xff HTTP/1.1"), 400, http1.BadTarget},
		{"a target with a fragment", line("GET /a#b HTTP/1.1"), 400, http1.BadTarget},
		{"a target without a slash", line("GET a HTTP/1.1"), 400, http1.BadTarget},
		{"* with another method than OPTIONS", line("GET * HTTP/1.1"), 400, http1.BadTarget},
		{"HTTP/2.0", line("GET / HTTP/2.0"), 505, http1.BadVersion},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, http1.BadVersion},
		{"HTTP/1.2", line("GET / HTTP/1.2"), 505, http1.BadVersion},
		{"HTTP/0.9", line("GET / HTTP/0.9"), 505, http1.BadVersion},
		{"a version in small letters", line("GET / http/1.1"), 400, http1.BadLine},
		{"a bare LF behind the line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400, http1.BareLF},
		{"a bare CR in the line", "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", 400, http1.BareCR},
		{"two empty lines first", "\r\n\r\n" + get, 400, http1.BadLine},
		{"NUL in a value", field("X: a\x00b"), 400, http1.BadFieldValue},
		{"a field without a colon", field("X"), 400, http1.BadFieldName},
		{"an empty name", field(": x"), 400, http1.BadFieldName},
		{"a name with a space", field("X Y: z"), 400, http1.BadFieldName},
		{"obs-fold", field("X: y\r\n z"), 400, http1.ObsFold},
		{"a first field that begins with a space", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, http1.ObsFold},
		{"a target that is too long", line("GET /" + strings.Repeat("a", 9<<10) + " HTTP/1.1"), 414, http1.LineTooLong},
		{"fields that are too long", field("X: " + strings.Repeat("a", 33<<10)), 431, http1.HeadTooLarge},
		{"too many fields", field(strings.TrimSuffix(strings.Repeat("X: y\r\n", 101), "\r\n")), 431, http1.TooManyFields},
	})
}

func TestHazardUndrainedBodies(t *testing.T) {
	// What was announced and not read is never the next request, whichever side answers before it
	// is read.
	s := newService(t, func(c *serviceConn, _ int) {
		if c.head() != "" {
			c.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
			c.drain()
		}
	})
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
  - {match: /, upstream: s, hold_body: 0B}
  - {match: /here, respond: {status: 403}}
  - {match: "GET /read", respond: {status: 200}}
`)
	for _, path := range []string{"/", "/here", "/none", "/read"} {
		for _, framing := range []string{fmt.Sprintf("Content-Length: %d\r\n\r\n", len(hidden)+100),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(hidden)+100)} {
			p := g.dial()
			p.send("POST " + path + " HTTP/1.1\r\nHost: a\r\n" + framing)
			r, _ := p.response("POST")
			if !r.Close {
				t.Errorf("%s: %d leaves a connection open on which a body is still to come", path, r.StatusCode)
			}
			p.send(hidden)
			p.expectEnd()
		}
	}
	if n := strings.Count(s.saw(), "\r\n\r\n"); n > 2+2*2 {
		t.Errorf("the upstream saw %q", s.saw())
	}
	if strings.Contains(s.saw(), "\nGET /hidden") {
		t.Errorf("the upstream saw a request that was a body: %q", s.saw())
	}
}

func TestHazardConnectAndUpgradeDesync(t *testing.T) {
	t.Parallel()
	expectRefusals(t, []refusal{
		{"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405, http1.BadConnect},
		{"CONNECT to a path", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 405, http1.BadConnect},
		{"connect in small letters", "connect a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405, http1.BadConnect},
	})
	const asked = "Connection: upgrade\r\nUpgrade: "
	for _, c := range []struct{ name, protocols, forwarded, switched string }{
		{"h2c", "h2c", "", "h2c"},
		{"h2", "H2", "", "H2"},
		{"h2c twice", "h2c,,h2c", "", "h2c"},
		{"h2c among others", "websocket, H2C", asked + "websocket\r\n", "h2c"},
		{"h2c before others", "h2c , websocket,h2,x/1", asked + "websocket, x/1\r\n", "websocket, h2c"},
		{"a protocol that nobody asked for", "websocket", asked + "websocket\r\n", "x"},
		{"another version of it", "x/1", asked + "x/1\r\n", "x/2"},
		{"one that is asked for and one that is not", "websocket", asked + "websocket\r\n", "websocket, x"},
		{"no protocol", "websocket", asked + "websocket\r\n", ","},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Even an upstream that would speak h2c is not asked, and its 101 begins no tunnel (RFC
			// 9110, section 7.8).
			s := newService(t, answering("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"+
				"Upgrade: "+c.switched+"\r\n\r\n"))
			g := serveClean(t, noRetry(s.address()))
			p := g.dial()
			p.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n" +
				"Upgrade: " + c.protocols + "\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
			p.expectFailure(502, "upstream_bad")
			if want := "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + c.forwarded + "\r\n"; s.saw() != want {
				t.Errorf("the upstream saw %q, want %q", s.saw(), want)
			}
		})
	}
	t.Run("101 before the request's body is whole", func(t *testing.T) {
		s := newService(t, func(c *serviceConn, _ int) {
			c.head()
			c.write(switched)
			c.drain()
		})
		g := serveClean(t, streamed(noRetry(s.address())))
		p := g.dial()
		p.send(strings.Replace(askUpgrade, "\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n", 1))
		p.expectFailureEnd(502, "upstream_bad")
	})
	t.Run("bytes behind a refused upgrade are a request", func(t *testing.T) {
		s := newService(t, answering(okResponse))
		g := serveClean(t, oneUpstream(s.address()))
		p := g.dial()
		p.send(askUpgrade + "GARBAGE\r\n\r\n")
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Errorf("got %d %q", r.StatusCode, body)
		}
		p.expectFailureEnd(400, "bad_request")
		if s.saw() != sawUpgrade {
			t.Errorf("the upstream saw %q, want %q", s.saw(), sawUpgrade)
		}
	})
}

func TestHazardHeaderAliasesAndTrailers(t *testing.T) {
	s := newService(t, replying(echo))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, request_id: true}]
`)
	p := g.dial()
	names := []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Real-Ip",
		"Forwarded", "X-Request-Id"}
	var fields strings.Builder
	for _, n := range names {
		for _, spelling := range []string{n, strings.ToLower(n), strings.ToUpper(n),
			strings.ReplaceAll(n, "-", "_"), strings.Replace(n, "-", "_", 1)} {
			fmt.Fprintf(&fields, "%s: evil\r\n", spelling)
		}
	}
	p.send(post(fields.String()+"Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\n"+fields.String()+"\r\n"))
	if r, body := p.response("POST"); r.StatusCode != 200 || body != "POST x" {
		t.Fatalf("got %d %q", r.StatusCode, body)
	}
	if strings.Contains(s.saw(), "evil") {
		t.Errorf("the upstream saw %q", s.saw())
	}
}

func TestHazardHopByHopAbuse(t *testing.T) {
	s := newService(t, replying(echo))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, request_headers: {set: {X-Gateway: "yes"}}, response_headers: {set: {X-Answer: "yes"}}}]
`)
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nCookie: c=d\r\nAuthorization: e\r\n" +
		"Connection: X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, Host, Content-Length, " +
		"Cookie, Authorization, X-Gateway\r\nContent-Length: 1\r\n\r\nx")
	if r, body := p.response("POST"); r.StatusCode != 200 || body != "POST x" {
		t.Fatalf("got %d %q", r.StatusCode, body)
	}
	want := "POST / HTTP/1.1\r\nHost: a\r\nCookie: c=d\r\nAuthorization: e\r\n" + forwardedFields +
		"X-Gateway: yes\r\nContent-Length: 1\r\n\r\nx"
	if s.saw() != want {
		t.Errorf("the upstream saw\n%q\nwant\n%q", s.saw(), want)
	}
	t.Run("by an upstream", func(t *testing.T) {
		s := newService(t, answering("HTTP/1.1 200 OK\r\nConnection: X-Answer, Date, "+
			"Set-Cookie\r\nDate: d\r\nSet-Cookie: e\r\nX-Answer: no\r\nContent-Length: 0\r\n\r\n"))
		g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, response_headers: {set: {X-Answer: "yes"}}}]
`)
		p := g.dial()
		p.send(get)
		p.expect("HTTP/1.1 200 OK\r\nDate: d\r\nSet-Cookie: e\r\nX-Answer: yes\r\nContent-Length: 0\r\n\r\n")
	})
}

// What belongs to one connection is still said where a status needs it (RFC 9110, sections 15.5.8
// and 15.5.22), and only there.
func TestHazardFieldsThatBelongToAStatus(t *testing.T) {
	t.Parallel()
	const upgrade = "Upgrade: TLS/1.0\r\n"
	const authenticate = "Proxy-Authenticate: Basic\r\nProxy-Authenticate: Digest\r\n"
	const fields = upgrade + authenticate + "Keep-Alive: x\r\nContent-Length: 0\r\n"
	for _, c := range []struct{ status, want string }{
		{"426 Upgrade Required", upgrade + "Content-Length: 0\r\nConnection: upgrade\r\n"},
		{"407 Proxy Authentication Required", authenticate + "Content-Length: 0\r\n"},
		{"200 OK", "Content-Length: 0\r\n"},
		{"401 Unauthorized", "Content-Length: 0\r\n"},
		{"503 Service Unavailable", "Content-Length: 0\r\n"},
	} {
		t.Run(c.status, func(t *testing.T) {
			response := "HTTP/1.1 " + c.status + "\r\nDate: d\r\n"
			s := newService(t, answering(response+"Connection: upgrade\r\n"+fields+"\r\n"))
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			for range 2 {
				p.send(get)
				p.expect(response + c.want + "\r\n")
			}
		})
	}
	t.Run("426 on a connection that ends", func(t *testing.T) {
		const response = "HTTP/1.1 426 Upgrade Required\r\nDate: d\r\nUpgrade: websocket\r\nContent-Length: 0\r\n"
		s := newService(t, answering(response+"\r\n"))
		p := serveClean(t, oneUpstream(s.address())).dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		p.expect(response + "Connection: close, upgrade\r\n\r\n")
		p.expectEnd()
	})
}

func TestHazardForwardedTrust(t *testing.T) {
	const claims = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\n"
	for trusted, want := range map[string]string{
		"[]":               forwardedFields,
		`["192.0.2.0/24"]`: forwardedFields,
		`["127.0.0.0/8"]`:  "X-Forwarded-For: 203.0.113.9, 127.0.0.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\n",
	} {
		t.Run(trusted, func(t *testing.T) {
			s := newService(t, answering(okResponse))
			g := serveClean(t, `
listeners: [{address: "127.0.0.1:0", trusted_proxies: `+trusted+`}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
  - {match: /, upstream: s}
  - {match: /private, respond: {body: in}, access: {allow: ["203.0.113.0/24"]}}
`)
			p := g.dial()
			p.send("GET / HTTP/1.1\r\nHost: a\r\n" + claims + "\r\n")
			p.response("GET")
			for _, line := range strings.SplitAfter(strings.TrimSuffix(want, "\r\n"), "\r\n") {
				if strings.Count(s.saw(), strings.TrimSpace(line)) != 1 {
					t.Errorf("the upstream saw\n%s\nwant each of\n%s", s.saw(), want)
				}
			}
			p.send("GET /private HTTP/1.1\r\nHost: a\r\n" + claims + "\r\n")
			status := 403
			if strings.Contains(trusted, "127") {
				status = 200
			}
			if r, body := p.response("GET"); r.StatusCode != status {
				t.Errorf("a claimed address got %d %q, want %d", r.StatusCode, body, status)
			}
		})
	}
}

func TestHazardPathOrHostReadTwice(t *testing.T) {
	s := newService(t, replying(func(r *http.Request, _ string) string { return echo(r, r.RequestURI+" "+r.Host) }))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
  - {match: /, upstream: s}
  - {match: /admin/, respond: {status: 403, body: admin}}
  - {match: secret.example/, respond: {status: 403, body: host}}
`)
	ask := func(target, host string) (int, string) {
		p := g.dial()
		p.send("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
		r, body := p.response("GET")
		return r.StatusCode, strings.TrimSpace(body)
	}
	for _, target := range []string{"/admin/x", "//admin/x", "/./admin/x", "/a/../admin/x",
		"/%61dmin/x", "/a/%2e%2e/admin/x", "/a/%2E./admin/x",
		"/%2e/admin/x", "/admin//x", "/%61%64min/x?y=/../z"} {
		if status, body := ask(target, "a"); status != 403 || body != "admin" {
			t.Errorf("%s got %d %q: it was not read as /admin/x", target, status, body)
		}
	}
	for _, target := range []string{"/a\\..\\admin", "/%00", "/a%0d%0ab", "/../admin", "/%2e%2e/admin", "/%zz", "/%", "/a%5c..%5cadmin"} {
		if status, body := ask(target, "a"); status != 400 && !(status == 403 && body == "admin") {
			t.Errorf("%s got %d %q, want a refusal", target, status, body)
		}
	}
	p := g.dial()
	p.send("GET /a%5c..%5cadmin HTTP/1.1\r\nHost: a\r\n\r\n" + hidden)
	p.expectFailureEnd(400, "bad_path")
	for target, want := range map[string]string{"/%7euser/%2f?q=%2e%2e": "/~user/%2F?q=%2e%2e",
		"/a//b/./c/../d": "/a/b/d", "/a;b=/c": "/a;b=/c"} {
		if status, body := ask(target, "a"); status != 200 || body != "GET "+want+" a" {
			t.Errorf("%s was forwarded as %d %q, want %q", target, status, body, want)
		}
	}
	for _, host := range []string{"secret.example", "SECRET.example", "Secret.Example:8080"} {
		if status, body := ask("/", host); status != 403 || body != "host" {
			t.Errorf("host %s got %d %q: it was not read as secret.example", host, status, body)
		}
	}
}

func TestHazardHostAbsoluteFormAndUserinfo(t *testing.T) {
	t.Parallel()
	request := func(target, hosts string) string { return "GET " + target + " HTTP/1.1\r\n" + hosts + "\r\n" }
	expectRefusals(t, []refusal{
		{"no Host", request("/", ""), 400, http1.BadHost},
		{"an empty Host", request("/", "Host:\r\n"), 400, http1.BadHost},
		{"two Hosts", request("/", "Host: a\r\nHost: b\r\n"), 400, http1.BadHost},
		{"the same Host twice", request("/", "Host: a\r\nHost: a\r\n"), 400, http1.BadHost},
		{"a list of hosts", request("/", "Host: a, b\r\n"), 400, http1.BadHost},
		{"userinfo in Host", request("/", "Host: u@a\r\n"), 400, http1.BadHost},
		{"a path in Host", request("/", "Host: a/b\r\n"), 400, http1.BadHost},
		{"an encoded host", request("/", "Host: %61\r\n"), 400, http1.BadHost},
		{"an invalid port", request("/", "Host: a:b\r\n"), 400, http1.BadHost},
		{"userinfo in the target", request("http://u:p@a/", "Host: a\r\n"), 400, http1.BadHost},
		{"a target for another host", request("http://b/", "Host: a\r\n"), 400, http1.HostMismatch},
		{"another scheme", request("ftp://a/", "Host: a\r\n"), 400, http1.BadTarget},
		{"a target of an authority", request("a:80", "Host: a\r\n"), 400, http1.BadTarget},
	})
	s := newService(t, answering(okResponse))
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send("GET http://A:80/x?y HTTP/1.1\r\nHost: a\r\n\r\n")
	p.response("GET")
	if saw := s.saw(); !strings.HasPrefix(saw, "GET /x?y HTTP/1.1\r\nHost: a") {
		t.Errorf("the upstream saw %q", saw)
	}
}

func TestHazardResponseSplitting(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
  - {match: "/to/{where}", redirect: {to: "/gone/{where}", status: 302}}
  - {match: /, upstream: s, response_headers: {set: {X-Path: "${path}", X-Query: "${query}"}}}
`)
	for _, target := range []string{"/to/a%0d%0aSet-Cookie:%20x=y", "/a?b%0d%0aSet-Cookie:%20x=y", "/%0d%0aSet-Cookie:%20x=y"} {
		p := g.dial()
		p.send("GET " + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		raw, err := io.ReadAll(p.r)
		if err != nil || strings.Contains(string(raw), "\nSet-Cookie") || strings.Count(string(raw), "HTTP/1.1 ") != 1 {
			t.Errorf("%s got %q, %v", target, raw, err)
		}
	}
}

func TestHazardSlowClients(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	s := newService(t, replying(echo))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0", limits: {head_timeout: 1s, idle_timeout: 1s}}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s}]
`)
	t.Run("a head that does not end", func(t *testing.T) {
		t.Parallel()
		p := g.dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
		p.expectFailureEnd(408, "head_timeout")
	})
	t.Run("no head at all", func(t *testing.T) {
		t.Parallel()
		g.dial().expectEnd()
	})
	t.Run("no further head", func(t *testing.T) {
		t.Parallel()
		p := g.dial()
		if status, _ := p.request("GET", "/"); status != 200 {
			t.Errorf("got %d", status)
		}
		p.expectEnd()
	})
}

func TestARefusedRequestIsReadOverUntilTheClientHasItsAnswer(t *testing.T) {
	s := untouched(t)
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send(post("Content-Length: 1, 2\r\n", ""))
	eventually(t, "the refusal", func() bool { return g.refusedRequests(http1.BadContentLength) == 1 })
	// What it sends meanwhile must not be met by a reset, which could take the answer away.
	for range 100 {
		p.send(strings.Repeat("x", 16<<10))
	}
	p.expectFailureEnd(400, "bad_request")
	s.expectUntouched()
}

// Exchanges are reused: nothing that one client's counted may be counted again for another's.
func TestARefusedRequestCountsNothingOfTheOneBefore(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serveClean(t, "loops: 1\n"+oneUpstream(s.address()))
	if status, _ := g.dial().request("GET", "/"+strings.Repeat("x", 1000)); status != 200 {
		t.Fatalf("got %d", status)
	}
	eventually(t, "the request's bytes to be counted", func() bool { return g.snapshot().ClientReceived > 1000 })
	before := g.snapshot().ClientReceived
	p := g.dial()
	p.send("garbage\r\n\r\n")
	p.expectFailureEnd(400, "bad_request")
	if n := g.snapshot().ClientReceived - before; n >= 1000 {
		t.Errorf("%d bytes are counted for the refused request", n)
	}
}
