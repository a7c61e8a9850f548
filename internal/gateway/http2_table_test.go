package gateway

import (
	"strings"
	"testing"
)

// A client is served alike whatever it speaks: these exchanges are done over each protocol, and
// what the upstream sees and what the client gets must be the same.

// simple is a response without anything special.
const simple = "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\nok"

var likeCases = []likeCase{
	{name: "GET", response: simple, saw: "GET / ", want: "200\nContent-Length: 2\nDate: d\n\nok"},
	{name: "a path and a query", path: "/a/../b%7e?x=%2e&y", response: simple, saw: "GET /b~?x=%2e&y ",
		want: "200"},
	{name: "fields", fields: "X-A: 1\nX-A: 2\nAccept: */*\nCookie: a=b; c=d\nX-Empty: \n",
		response: simple,
		saw:      "X-A: 1\nX-A: 2\nX-Empty: \n", want: "200"},
	{name: "fields of the connection", fields: "TE: trailers\n", response: simple,
		saw: "Te: trailers\n", want: "200"},
	{name: "another method", method: "REPORT", response: simple, saw: "REPORT / ", want: "200"},
	{name: "an empty response", response: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", saw: "GET",
		want: "200\nContent-Length: 0\n"},
	{name: "a status of its own", response: "HTTP/1.1 599 Odd\r\nX-Y: z\r\nContent-Length: 1\r\n\r\n!",
		saw:  "GET",
		want: "599\nContent-Length: 1\nX-Y: z\n\n!"},
	{name: "several Set-Cookie",
		response: "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
		saw:      "GET", want: "Set-Cookie: a\nSet-Cookie: b\n"},
	{name: "chunks and trailers",
		response: "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n", saw: "GET", want: "abcde\nX-Sum: 1\n"},
	{name: "no chunks but the last",
		response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", saw: "GET", want: "200\n"},
	{name: "a response to the connection's end",
		response: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc", saw: "GET", want: "\n\nabc"},
	{name: "a response of HTTP/1.0", response: "HTTP/1.0 200 OK\r\n\r\nabc", saw: "GET",
		want: "\n\nabc"},
	{name: "HEAD", method: "HEAD", response: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
		saw: "HEAD / ", want: "200\nContent-Length: 10\n"},
	{name: "HEAD of chunks", method: "HEAD",
		response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", saw: "HEAD / ", want: "200\n"},
	{name: "HEAD that the gateway answers", method: "HEAD",
		routes: "[{match: /, respond: {body: hello}}]", want: "200\nContent-Length: 5\n"},
	{name: "HEAD of nothing", method: "HEAD", routes: "[{match: /a, respond: {}}]", want: "404\n"},
	{name: "204", response: "HTTP/1.1 204 No Content\r\n\r\n", saw: "GET", want: "204\n\n"},
	{name: "304", response: "HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 10\r\n\r\n",
		saw: "GET", want: "304\nContent-Length: 10\nEtag: x\n"},
	{name: "103", response: "HTTP/1.1 103 Early Hints\r\nLink: </s>\r\nConnection: X\r\nX: y\r\n\r\n" +
		simple, saw: "GET", want: "103\nLink: </s>\n200\n"},
	{name: "many interim responses",
		response: strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", 20) +
			simple, saw: "GET", want: "103\nX: y\n200\n"},
	{name: "what is hop-by-hop in a response",
		response: "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\n" +
			"X-Hop: 1\r\nProxy-Authenticate: p\r\nUpgrade: h2c\r\nX-Kept: 2\r\nContent-Length: " +
			"0\r\n\r\n", saw: "GET", want: "200\nContent-Length: 0\nX-Kept: 2\n\n"},
	{name: "407", response: "HTTP/1.1 407 No\r\nProxy-Authenticate: p\r\nContent-Length: 0\r\n\r\n",
		saw: "GET", want: "Proxy-Authenticate: p\n"},

	{name: "POST with a length", method: "POST", body: "abc", response: simple,
		saw: "Content-Length: 3\n", want: "200"},
	{name: "POST without a length", method: "POST", body: "abc", streams: true, response: simple,
		saw: "chunked\n\nabc", want: "200"},
	{name: "POST with trailers", method: "POST", body: "abc", trailer: "X-Sum: 1", response: simple,
		saw: "abc\nX-Sum: 1\n", want: "200"},
	{name: "POST with a trailer that nobody may send", method: "POST", body: "abc",
		trailer: "X-Forwarded-For: 1", response: simple, saw: "chunked\n\nabc\n", want: "200"},
	{name: "POST of nothing", method: "POST", fields: "Content-Length: 0\n", response: simple,
		saw: "Content-Length: 0\n", want: "200"},
	{name: "POST without a body", method: "POST", response: simple, saw: "POST / ", want: "200"},
	{name: "a body that is streamed", method: "POST", body: strings.Repeat("0123456789", 30_000),
		response: simple, saw: "Content-Length: 300000\n", want: "200"},
	{name: "a body as the largest that is allowed", method: "POST", body: "0123456789",
		routes: "[{match: /, upstream: s, max_body: 10B}]", response: simple,
		saw: "0123456789", want: "200"},
	{name: "a body that is too large", method: "POST", body: "0123456789a",
		routes: "[{match: /, upstream: s, max_body: 10B}]", response: simple,
		want: "413\n"},
	{name: "a body that turns out too large", method: "POST", body: "0123456789a", streams: true,
		routes:   "[{match: /, upstream: s, max_body: 10B}]",
		response: simple, want: "body_too_large"},
	{name: "a body for an answer of the gateway's", method: "POST", body: "abc",
		routes: "[{match: /, respond: {body: no}}]", want: "200\nContent-Length: 2\n"},

	{name: "no route", path: "/b", routes: "[{match: /a, respond: {}}]", want: "no_route"},
	{name: "another method than the route's", method: "DELETE",
		routes: "[{match: \"GET /\", respond: {}}, {match: \"POST /\", respond: {}}]", want: "Allow: " +
			"GET, HEAD, POST\n"},
	{name: "a path that nobody may read in two ways", path: "/a%00b", response: simple,
		want: "bad_path"},
	{name: "a path that is too long", path: "/" + strings.Repeat("a", 9000), response: simple,
		want: "414\n"},
	{name: "fields that are too long", fields: "X: " + strings.Repeat("a", 40_000) + "\n",
		response: simple, want: "431\n"},
	{name: "too many fields", fields: strings.Repeat("X: y\n", 101), response: simple, want: "431\n"},
	{name: "OPTIONS of everything", method: "OPTIONS", path: "*", response: simple, want: "204\n"},
	{name: "a redirect", path: "/x?y",
		routes: "[{match: \"/{name}\", redirect: {to: \"/to/{name}\", status: 302}}]", want: "302\n"},
	{name: "a policy that refuses", routes: "[{match: /, upstream: s, access: {deny: [127.0.0.0/8]}}]",
		response: simple, want: "403\n"},
	{name: "a limit", routes: "[{match: /, upstream: s, limits: [{rate: 1/h, burst: 1}]}]",
		response: simple, saw: "GET", want: "200\n"},
	{name: "fields that the route sets", fields: "X-Gone: 1\n",
		routes: "[{match: /, upstream: s, via: gw, request_headers: {set: {X-Peer: " +
			"\"${client_address}\"}, remove: [X-Gone]}, " +
			"response_headers: {set: {X-R: \"${route}\"}, remove: [Server]}}]", response: "HTTP/1.1 200 " +
			"OK\r\nServer: s\r\nContent-Length: 0\r\n\r\n",
		saw: "X-Peer: 127.0.0.1\n", want: "Via: 1.1 gw\nX-R: /\n"},
	{name: "CORS", method: "OPTIONS",
		fields: "Origin: https://b\nAccess-Control-Request-Method: PUT\n",
		routes: "[{match: \"PUT /\", upstream: s, cors: {origins: [\"https://b\"], methods: " +
			"[PUT]}}]", response: simple, want: "Access-Control-Allow-Origin: https://b\n"},

	{name: "a service that is down", response: "", want: "connect_failed"},
	{name: "a service of which a part is down", dead: true,
		upstream: ", retry: {attempts: 2, on: [connect]}",
		method:   "POST", body: "abc", response: simple, saw: "abc", want: "200"},
	{name: "a service that answers nonsense", response: "nonsense\r\n\r\n",
		upstream: ", retry: {attempts: 0}", saw: "GET", want: "upstream_bad"},
	{name: "a service that says nothing", response: "HTTP/1.1 100 Continue\r\n\r\n",
		routes: "[{match: /, upstream: s, timeout: 2s}]",
		saw:    "GET", want: "upstream_timeout"},
	{name: "a service that switches protocols unasked",
		response: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
		saw:      "GET", want: "upstream_bad"},
}

func TestEveryProtocolIsServedAlike(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certificate := ca.issue(t, "a")
	for _, c := range likeCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var first string
			for _, p := range allSpoken {
				saw, got := c.run(t, p, ca, certificate)
				if !strings.Contains(saw, c.saw) || (c.saw == "") != (saw == "") {
					t.Errorf("%s: the service saw\n%.1000s\nwant, among others,\n%s", p.name, saw, c.saw)
				}
				if !strings.Contains(got, c.want) {
					t.Errorf("%s: the client got\n%.1000s\nwant, among others,\n%s", p.name, got, c.want)
				}
				both := saw + "\n----\n" + got
				if first == "" {
					first = both
				} else if both != first {
					t.Errorf("%s differs:\n%.2000s\nwant, as over %s,\n%.2000s", p.name, both, allSpoken[0].name,
						first)
				}
			}
		})
	}
}
