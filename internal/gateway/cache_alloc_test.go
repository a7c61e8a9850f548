//go:build !race

package gateway

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
)

// A hit costs no allocation, whatever of the stored response it sends.
func TestAllocNothingPerHit(t *testing.T) {
	for name, c := range map[string]struct {
		size           int
		fields, status string
	}{
		"1 KB":                {1000, "", "200"},
		"100 KB":              {100_000, "", "200"},
		"a range":             {100_000, "Range: bytes=1000-90000\r\n", "206"},
		"what the client has": {1000, "If-None-Match: \"1\"\r\n", "304"},
		"a variant": {1000,
			"Accept-Encoding: gzip, br;q=0.5\r\nAccept: text/html, */*;q=0.1\r\n", "200"},
		"a cookie, and a plea": {1000, "Cookie: a=b\r\nCache-Control: max-age=500\r\n", "200"},
	} {
		t.Run(name, func(t *testing.T) {
			response := fmt.Sprintf("HTTP/1.1 200 OK\r\nCache-Control: public, max-age=10000\r\n"+
				"ETag: \"1\"\r\n"+
				"Vary: Accept-Encoding\r\nContent-Length: %d\r\n\r\n%s", c.size, letters(c.size))
			g := serve(t, strings.Replace(oneUpstream(fixedService(t, []byte(response))),
				"upstream: s", "upstream: s, cache: {}", 1))
			p := g.dial()
			request := "GET /a HTTP/1.1\r\nHost: a\r\n" + c.fields + "\r\n"
			p.send("GET /a HTTP/1.1\r\nHost: a\r\n" + strings.ReplaceAll(strings.ReplaceAll(c.fields,
				"Range", "X-Range"), "Cookie", "X-Cookie") + "\r\n")
			p.response("GET") // stores it
			p.send(request)
			r, body := p.response("GET")
			if r.Status[:3] != c.status || !strings.Contains(r.Header.Get("Cache-Status"), "hit") {
				t.Fatalf("got %s, %s", r.Status, r.Header.Get("Cache-Status"))
			}
			again := p.repeat(t, []byte(request), len(body)).exchange
			expectNoAllocations(t, 1000, 2000, again)
			expectNotOneAllocation(t, again)
		})
	}
}

// expectNotOneAllocation has a round of exchanges in which nothing whatever allocates. What runs beside
// them does, about once a second, so that some rounds are without.
func expectNotOneAllocation(t *testing.T, exchange func()) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const requests, rounds = 100, 200
	least := uint64(1 << 62)
	for range rounds {
		n := mallocs(func() {
			for range requests {
				exchange()
			}
		})
		if least = min(least, n); n == 0 {
			return
		}
	}
	t.Errorf("%d allocations at the least over %d requests, want none", least, requests)
}
