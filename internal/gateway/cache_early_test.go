package gateway

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// 425 says something of the connection that a request came on, and nothing of what it is about (RFC
// 8470, section 5.2): it reaches the client, is never stored, and outdates nothing.
func TestTooEarlyIsNotStoredAndOutdatesNothing(t *testing.T) {
	var answer atomic.Value
	asked := make(chan string, 10)
	s := newService(t, replying(func(r *http.Request, _ string) string {
		asked <- r.Header.Get("If-None-Match")
		return answer.Load().(string)
	}))
	g := serveClean(t, strings.Replace(oneUpstream(s.address()), "upstream: s", "upstream: s, cache: {}", 1))
	p := g.dial()
	expect := func(status int, validator string) {
		t.Helper()
		p.send(get)
		if got := p.status("GET"); got != status {
			t.Errorf("the client got %d, want %d", got, status)
		}
		select {
		case got := <-asked:
			if got != validator {
				t.Errorf("the service was asked with If-None-Match %q, want %q", got, validator)
			}
		default:
			t.Error("the service was not asked")
		}
	}
	const early = "HTTP/1.1 425 Too Early\r\nCache-Control: public, max-age=100\r\nETag: \"e\"\r\nContent-Length: 0\r\n\r\n"
	answer.Store(early)
	expect(425, "")
	expect(425, "")
	answer.Store("HTTP/1.1 200 OK\r\nCache-Control: no-cache\r\nETag: \"a\"\r\nContent-Length: 2\r\n\r\nok")
	expect(200, "")
	answer.Store(early)
	expect(425, `"a"`)
	answer.Store("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")
	expect(200, `"a"`)
}

// A fetch is nobody's, so it is not marked as one client's early data: its response may go to many.
func TestAFetchOfEarlyDataDoesNotSaySo(t *testing.T) {
	t.Parallel()
	saw := make(chan string, 10)
	s := newService(t, replying(func(r *http.Request, _ string) string {
		saw <- r.URL.Path + " " + r.Header.Get("Early-Data")
		return simple
	}))
	yaml := strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`, `"127.0.0.1:0", early_data: true`, 1)
	b, cfg := earlyBed(t, strings.Replace(yaml, "upstream: s", "upstream: s, cache: {}", 1))
	<-saw
	c, hear := b.resume(cfg)
	st := c.get("/fetched")
	if got := <-saw; got != "/fetched " {
		t.Errorf("the service saw %q", got)
	}
	hear()
	st.answer()
}
