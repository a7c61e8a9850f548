package gateway

import (
	"strings"
	"testing"
	"time"
)

// streamed is a configuration whose routes to service s hold no body: the service sees it as it
// comes.
func streamed(yaml string) string {
	return strings.ReplaceAll(yaml, "upstream: s", "upstream: s, hold_body: 0B")
}

func TestARequestGoesThrough(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serve(t, oneUpstream(s.address()))
	p := g.dial()
	for range 3 {
		p.send("GET /a?b=c HTTP/1.1\r\nHost: Example.com\r\nAccept: x\r\n\r\n")
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Fatalf("got %d %q", r.StatusCode, body)
		}
	}
	want := "GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nAccept: x\r\n" +
		"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: example.com\r\n\r\n"
	if got := s.saw(); got != strings.Repeat(want, 3) {
		t.Errorf("the service saw\n%s\nwant three of\n%s", got, want)
	}
	if n := s.connections(); n != 1 {
		t.Errorf("the service was opened %d connections for three requests of one client, want 1", n)
	}
}

// A loop that was too late for a scrape is in the next one as it is then, and not as it was for
// ever.
func TestALoopThatWasStuckIsCountedAgain(t *testing.T) {
	ready := make(chan struct{})
	g := serveWith(t, "loops: 1\nlisteners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, respond: {}}]\n",
		Options{lookTime: 10 * time.Millisecond, Ready: func() { close(ready) }})
	<-ready
	free := make(chan struct{})
	g.loops[0].Post(func() { <-free })
	if n := g.snapshot().Missed; n != 1 {
		t.Errorf("%d loops are missing, want the one that is stuck", n)
	}
	close(free)
	g.dial().request("GET", "/")
	eventually(t, "the request to be counted", func() bool { s := g.snapshot(); return s.Missed == 0 && s.Requests == 1 })
}
