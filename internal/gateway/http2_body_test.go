package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// HAZARDS: what was taken of a body cannot be taken again. The frame that fills the held part has
// more than that, all of it goes to an idle connection, and the target has just closed that: a
// second try would send a body with a hole.
func TestHazardABodyOverHTTP2IsNotSentAgainWithAHole(t *testing.T) {
	const body = "0123456789abcdefghijklmnopqrst"
	s := newService(t, func(c *serviceConn, conn int) {
		for {
			_, got, ok := c.request()
			if !ok {
				return
			}
			c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(got), got))
			if conn == 1 {
				c.head()
				return
			}
		}
	})
	yaml := strings.Replace(oneUpstream(s.address()), "upstream: s", "upstream: s, hold_body: 10B", 1)
	g := serveClean(t, "loops: 1\n"+strings.Replace(yaml, `:0"}`, `:0", http2: true}`, 1))
	transport := framedTransport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	if status, _, err := fetch(client, "GET", g.url("/")); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	pipe, write := io.Pipe()
	go func() {
		write.Write([]byte(body[:5]))
		eventually(t, "the first bytes to be held", func() bool { return g.snapshot().Active == 1 })
		write.Write([]byte(body[5:]))
		write.Close()
	}()
	r, _ := http.NewRequest("PUT", g.url("/"), pipe)
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 502 || !strings.Contains(string(got), "upstream_reset") {
		t.Errorf("got %d %q (%v), want 502 with upstream_reset", answer.StatusCode, got, err)
	}
	if n := s.connections(); n != 1 {
		t.Errorf("the service has %d connections, want 1", n)
	}
}
