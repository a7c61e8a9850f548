//go:build !race

package gateway

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// fixedService answers every request head on a connection with the same bytes, in memory made
// beforehand.
func fixedService(t *testing.T, response []byte) string {
	t.Helper()
	return acceptEach(t, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			if _, err := c.Write(response); err != nil {
				return
			}
		}
	})
}

// mallocs counts what the process allocates while f runs.
func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// expectNoAllocations fails the test when exchanges that follow so many others cost memory. Client,
// service and
// gateway share this process, and the first two are to allocate nothing.
//
// What runs beside them (a sweep a second, the garbage collector) allocates, and the more the
// longer they take: it is measured for as long without any, and of three rounds the best counts.
// What a request allocates, even one in fifty, is in all three.
func expectNoAllocations(t *testing.T, before, requests int, exchange func()) {
	t.Helper()
	for range before { // the buffers and tables of the steady state
		exchange()
	}
	var n, idle uint64
	for range 3 {
		began := time.Now()
		n = mallocs(func() {
			for range requests {
				exchange()
			}
		})
		took := time.Since(began)
		if idle = mallocs(func() { pause(t.Context(), took) }); n <= idle+uint64(requests/50)+1 {
			return
		}
	}
	t.Errorf("%d allocations over %d requests and %d without any, want none for a request", n, requests, idle)
}

// sameAnswer is a request that is repeated on a connection, whose answers have bodies of one
// length.
type sameAnswer struct {
	t       *testing.T
	p       *peer
	request []byte
	body    int
	buf     []byte
}

func (p *peer) repeat(t *testing.T, request []byte, body int) *sameAnswer {
	return &sameAnswer{t, p, request, body, make([]byte, body+64<<10)}
}

// exchange sends the request and reads the answer, without allocating.
func (s *sameAnswer) exchange() {
	if _, err := s.p.Write(s.request); err != nil {
		s.t.Fatal(err)
	}
	head := 0
	for n := 0; head == 0 || n < head+s.body; {
		m, err := s.p.Read(s.buf[n:])
		if err != nil {
			s.t.Fatal(err)
		}
		if n += m; head == 0 {
			head = bytes.Index(s.buf[:n], crlfcrlf) + 4
			if head < 4 {
				head = 0
			}
		}
	}
}

var crlfcrlf = []byte("\r\n\r\n")

// Client, service and gateway share this process, and the first two allocate nothing, so what is
// allocated is the gateway's.
func TestAllocNothingPerProxiedRequest(t *testing.T) {
	const browser = "GET /catalogue?page=3 HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0\r\n" +
		"Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.7\r\nAccept-Encoding: gzip, br\r\n" +
		"Cookie: session=8d2f0c5e9b7a4f3d; theme=dark\r\nReferer: " +
		"http://localhost/\r\nSec-Fetch-Mode: navigate\r\nCache-Control: no-cache\r\n\r\n"
	const everything = `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["ADDRESS"]}}
routes: [{match: /, upstream: s, sla: P2, fallback: {body: later}, request_id: true, trace: true, max_body: 1MB, access: {deny: [10.0.0.0/8]},
  request_headers: {set: {X-Client: "${client_address}"}}, response_headers: {set: {X-Route: "${route}"}}}]
access_log: {path: access.log}
`
	const shed = `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["ADDRESS"], breaker: {consecutive_failures: 1, failure_ratio: 0%, open_for: 1h}}}
routes: [{match: /, upstream: s, sla: P2, fallback: {body: ok}}]
`
	// None of what protects may find this machine too slow.
	const claims = `
sla_header: X-SLA-Class
admission: {mode: enforce, delay: 10s}
listeners: [{address: "127.0.0.1:0", trusted_proxies: ["127.0.0.1"]}]
upstreams: {s: {targets: ["ADDRESS"], concurrency: adaptive, breaker: {adaptive: {latency_over: 1m}, consecutive_failures: 5}, retry: {attempts: 1, on: [connect], budget: 20%}}}
routes: [{match: /, upstream: s, deadline_header: X-Left-Ms, concurrency: {max: 9, key: client_address, max_per_value: 9},
  limits: [{rate: 1000000/s, burst: 1000000, key: client_address}, {rate: 1000000/s, burst: 1000000}]}]
`
	const claiming = "GET /a HTTP/1.1\r\nHost: x\r\nX-SLA-Class: P3\r\nX-Left-Ms: 500000\r\n\r\n"
	const late = "GET /a HTTP/1.1\r\nHost: x\r\nX-Left-Ms: 0\r\n\r\n"
	cases := []struct{ name, config, request, response string }{
		{"plain", oneUpstream("ADDRESS"), "GET /a HTTP/1.1\r\nHost: x\r\n\r\n", okResponse},
		{"a browser's headers", oneUpstream("ADDRESS"), browser, okResponse},
		{"a body up", oneUpstream("ADDRESS"), "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", okResponse},
		{"chunks down", oneUpstream("ADDRESS"), "GET /a HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"trailers up and down", oneUpstream("ADDRESS"), "POST /a HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Status: 0\r\n\r\n"},
		{"policies and an access log", everything, browser, okResponse},
		{"a static answer in place of a refusal", shed, browser, "nonsense\r\n\r\n"},
		{"all that protects, and a trusted peer's class and deadline", claims, claiming, okResponse},
		{"a stranger's", strings.Replace(claims, "[\"127.0.0.1\"]", "[]", 1), claiming, okResponse},
		{"a deadline that has passed", strings.Replace(claims, "deadline_header",
			"sla: P2, fallback: {body: ok}, deadline_header", 1), late, okResponse},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			address := fixedService(t, []byte(c.response))
			g := serve(t, string(bytes.ReplaceAll([]byte(c.config), []byte("ADDRESS"), []byte(address))))
			p := g.dial()
			request, ok, buf := []byte(c.request), []byte("HTTP/1.1 200 "), make([]byte, 64<<10)
			exchange := func() {
				if _, err := p.Write(request); err != nil {
					t.Fatal(err)
				}
				for n := 0; !bytes.HasSuffix(buf[:n], []byte("ok")) && !bytes.HasSuffix(buf[:n], []byte("0\r\n\r\n")); {
					m, err := p.Read(buf[n:])
					if err != nil && err != io.EOF {
						t.Fatal(err)
					}
					if n += m; n > len(ok) && !bytes.HasPrefix(buf, ok) {
						t.Fatalf("got %q", buf[:n])
					}
				}
			}
			expectNoAllocations(t, 2000, 5000, exchange)
		})
	}
}
