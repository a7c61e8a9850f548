package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// wireCase is one exchange as bytes on both sides. The response has a Date where the gateway would
// add one otherwise.
type wireCase struct {
	name    string
	request string // of the client, with host a
	// What the upstream is sent; "" where request is sent on with forwardedFields at the head's
	// end.
	saw      string
	response string // of the upstream, which closes afterwards where it says so
	want     string // what the client is sent; "" for response as it is
	closed   bool   // the client's connection ends then
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

func (c *wireCase) upstreamSees() string {
	if c.saw != "" {
		return c.saw
	}
	head, body, _ := strings.Cut(c.request, "\r\n\r\n")
	return head + "\r\n" + forwardedFields + "\r\n" + body
}

func (c *wireCase) clientSees() string {
	if c.want != "" {
		return c.want
	}
	return c.response
}

var wireCases = []wireCase{
	{name: "a response with a length", request: get, response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\nok",
		want: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\nok"},
	{name: "an empty response", request: get, response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n"},
	{name: "another reason phrase", request: get, response: "HTTP/1.1 404 Nope\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
		want: "HTTP/1.1 404 Not Found\r\nDate: d\r\nContent-Length: 0\r\n\r\n"},
	{name: "chunks without their extensions, with their trailers", request: get,
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0;z\r\nX-Sum: 1\r\nContent-Length: " +
			"9\r\n\r\n",
		want: "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\nX-Sum: 1\r\n\r\n"},
	{name: "a body to the connection's end becomes chunks", request: get,
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nConnection: close\r\n\r\nabc",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
	{name: "an HTTP/1.0 upstream", request: get, response: "HTTP/1.0 200 OK\r\nDate: d\r\n\r\nabc",
		want: "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
	{name: "an HTTP/1.0 upstream with a length", request: get, response: "HTTP/1.0 200 OK\r\nDate: d\r\nContent-Length: 3\r\n\r\nabc",
		want: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 3\r\n\r\nabc"},
	{name: "HEAD keeps the length of a body that is not sent", request: "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
		response: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nDate: d\r\n\r\n"},
	{name: "HEAD of a chunked resource", request: "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n", want: "HTTP/1.1 200 OK\r\nDate: d\r\n\r\n"},
	{name: "304 keeps the length", request: get, response: "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nDate: d\r\n\r\n"},
	{name: "204 has no length", request: get, response: "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nDate: d\r\n\r\n",
		want: "HTTP/1.1 204 No Content\r\nDate: d\r\n\r\n"},
	{name: "103 is passed on", request: get,
		response: "HTTP/1.1 103 Early Hints\r\nLink: </s>\r\nConnection: X\r\nX: " +
			"y\r\n\r\nHTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
		want: "HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\nHTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n"},
	{name: "100 is the gateway's own to give", request: get,
		response: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n"},
	{name: "POST with a length", request: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		saw:      "POST / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "Content-Length: 3\r\n\r\nabc",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n"},
	{name: "POST of nothing", request: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		saw:      "POST / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "Content-Length: 0\r\n\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n"},
	{name: "POST in chunks without their extensions, with their trailers",
		request: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n1\r\nd\r\n0\r\nX-Sum: 1\r\nHost: " +
			"b\r\nX_Forwarded_For: c\r\n\r\n",
		saw: "POST / HTTP/1.1\r\nHost: a\r\n" + forwardedFields +
			// One chunk of what was held.
			"Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nX-Sum: 1\r\n\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n"},
	{name: "what is hop-by-hop goes, both ways",
		request: "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: " +
			"timeout=5\r\nProxy-Connection: x\r\nTE: trailers\r\n" +
			"Trailer: X\r\nProxy-Authorization: p\r\nX-Hop: 1\r\nX-Kept: 2\r\nUpgrade: websocket\r\n\r\n",
		saw: "GET / HTTP/1.1\r\nHost: a\r\nTrailer: X\r\nX-Kept: 2\r\n" + forwardedFields + "TE: trailers\r\nConnection: TE\r\n\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nTrailer: X-Hop\r\n" +
			"Proxy-Authenticate: p\r\nUpgrade: h2c\r\nX-Kept: 2\r\nContent-Length: 0\r\n\r\n",
		want: "HTTP/1.1 200 OK\r\nDate: d\r\nX-Kept: 2\r\nContent-Length: 0\r\n\r\n"},
	{name: "Connection: close is heard and said", request: "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		saw:      "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", closed: true},
	{name: "an HTTP/1.0 client's connection ends", request: "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
		saw:      "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\nok",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", closed: true},
	{name: "an HTTP/1.0 client keeps its connection when it asks", request: "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
		saw:      "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\nok",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"},
	{name: "an HTTP/1.0 client gets chunks as a body to the end", request: "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
		saw:      "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nConnection: close\r\n\r\nabcdef", closed: true},
	{name: "an HTTP/1.0 client and an HTTP/1.0 upstream", request: "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
		saw:      "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "\r\n",
		response: "HTTP/1.0 200 OK\r\nDate: d\r\n\r\nabc",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nConnection: close\r\n\r\nabc", closed: true},
	{name: "an HTTP/1.0 client gets no interim response", request: "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
		saw:      "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "\r\n",
		response: "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", closed: true},
	{name: "an absolute target without Host, as HTTP/1.0 may send", request: "GET http://A/x HTTP/1.0\r\n\r\n",
		saw:      "GET /x HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "\r\n",
		response: "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
		want:     "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", closed: true},
}

// once answers the first request of each connection with raw bytes and closes after those that end
// with the connection.
func once(raw string) script {
	ends := strings.Contains(raw, "HTTP/1.0") || strings.Contains(raw, "Connection: close")
	return func(c *serviceConn, _ int) {
		for {
			if _, _, ok := c.request(); !ok || !c.write(raw) || ends {
				return
			}
		}
	}
}

func TestExchangesAsBytes(t *testing.T) {
	for _, c := range wireCases {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, once(c.response))
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			repeats := 2 // the second finds both connections as the first has left them
			if c.closed {
				repeats = 1
			}
			for range repeats {
				p.send(c.request)
				p.expect(c.clientSees())
			}
			if c.closed {
				p.expectEnd()
			}
			if got, want := s.saw(), strings.Repeat(c.upstreamSees(), repeats); got != want {
				t.Errorf("the upstream saw\n%q\nwant\n%q", got, want)
			}
		})
	}
}

func TestEveryRequestByteByByte(t *testing.T) {
	t.Parallel()
	for _, c := range wireCases {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, func(sc *serviceConn, _ int) {
				if _, _, ok := sc.request(); !ok {
					return
				}
				for i := range len(c.response) {
					if !sc.write(c.response[i : i+1]) {
						return
					}
				}
				if !strings.Contains(c.response, "HTTP/1.0") && !strings.Contains(c.response, "Connection: close") {
					sc.drain()
				}
			})
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			for i := range len(c.request) {
				p.send(c.request[i : i+1])
			}
			method, _, _ := strings.Cut(c.request, " ")
			got, want := readAs(t, p, method), readAs(t, stringPeer(t, c.clientSees()), method)
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// readAs reads the final response and describes it whatever its chunks were.
func readAs(t *testing.T, p *peer, method string) string {
	t.Helper()
	for {
		r, err := http.ReadResponse(reader(p), &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode >= 200 {
			return fmt.Sprint(r.Status, r.Header, r.ContentLength, r.TransferEncoding, r.Close, r.Trailer, string(body))
		}
	}
}

func TestADateIsAddedWhereNoneIs(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send(get)
	r, _ := p.response("GET")
	if _, err := http.ParseTime(r.Header.Get("Date")); err != nil || len(r.Header["Date"]) != 1 {
		t.Errorf("Date is %q: %v", r.Header["Date"], err)
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	s := newService(t, replying(func(r *http.Request, body string) string {
		text := r.Method + " " + r.URL.Path + " " + body
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
  - {match: /, upstream: s}
  - {match: "GET /here", respond: {body: "from here"}}
`)
	p := g.dial()
	var all strings.Builder
	var want []string
	for i := range 60 {
		long := strings.Repeat("x", i*37)
		fmt.Fprintf(&all, "GET /%d HTTP/1.1\r\nHost: a\r\nX-Pad: %s\r\n\r\n", i, long)
		fmt.Fprintf(&all, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", i, len(long), long)
		fmt.Fprintf(&all, "POST /here HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
		fmt.Fprintf(&all, "PUT /%d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s!\r\n0\r\n\r\n", i, len(long)+1, long)
		fmt.Fprintf(&all, "GET /here HTTP/1.1\r\nHost: a\r\n\r\n")
		want = append(want, fmt.Sprintf("200 GET /%d ", i), fmt.Sprintf("200 POST /%d %s", i, long), "200 POST /here abc",
			fmt.Sprintf("200 PUT /%d %s!", i, long), "200 from here")
	}
	go io.WriteString(p, all.String())
	for i, w := range want {
		r, body := p.response("GET")
		if got := fmt.Sprintf("%d %s", r.StatusCode, body); got != w {
			t.Fatalf("answer %d is %q, want %q", i, got, w)
		}
	}
}

func TestAMalformedRequestEndsAPipelineBehindTheAnswersBefore(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send(get + get + "GET / HTTP/1.1\r\nHost : a\r\n\r\n" + get)
	for range 2 {
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Fatalf("got %d %q", r.StatusCode, body)
		}
	}
	if r := p.expectFailure(400, "bad_request"); !r.Close {
		t.Error("the answer does not say that the connection ends")
	}
	p.expectEnd()
	if n := strings.Count(s.saw(), "GET "); n != 2 {
		t.Errorf("the upstream saw %d requests, want the two before the malformed one", n)
	}
}

func TestARequestThatFillsItsBufferLeavesRoomForTheNext(t *testing.T) {
	s := newService(t, replying(echo))
	g := serveClean(t, oneUpstream(s.address()))
	for _, size := range []int{1 << 10, 4 << 10, 16 << 10} {
		first := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
		const head = "GET / HTTP/1.1\r\nHost: a\r\nX-Pad: "
		for _, beyond := range []int{-1, 0, 1} { // bytes of the second request in the same read
			p := g.dial()
			second := head + strings.Repeat("x", size) + "\r\n\r\n"
			p.send(first + second[:size+beyond])
			if r, body := p.response("POST"); r.StatusCode != 200 || body != "POST a" {
				t.Fatalf("got %d %q", r.StatusCode, body)
			}
			p.send(second[size+beyond:] + get)
			for range 2 {
				if r, body := p.response("GET"); r.StatusCode != 200 || body != "GET " {
					t.Fatalf("size %d%+d: got %d %q", size, beyond, r.StatusCode, body)
				}
			}
			p.Close()
		}
	}
}

func TestMaxRequestsEndsAConnectionInAnOrderlyWay(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0", limits: {max_requests: 3}}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s}]
`)
	p := g.dial()
	for i := range 3 {
		p.send(get)
		if r, _ := p.response("GET"); r.Close != (i == 2) {
			t.Errorf("request %d: Connection: close is %v", i+1, r.Close)
		}
	}
	p.expectEnd()
	// A client that did not expect the end may have sent more. Nobody answers that, and it must not
	// make the kernel reset the connection, which would take unread responses away.
	p.send(get)
	p.send(get)
	p.expectEnd()
}
