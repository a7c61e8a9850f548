package gateway

import (
	"fmt"
	"net/http"
	"testing"
)

// Each event is with the client before the service says the next one, over both versions and
// whether the service frames it in chunks or ends the connection behind it. A client that reads
// nothing of an event until more comes would wait for ever here.
func TestEventsOfAStreamReachTheClientAtOnce(t *testing.T) {
	t.Parallel()
	const events = 5
	for name, framing := range map[string]struct {
		head  string
		event func(text string) string
	}{
		"chunks": {"Transfer-Encoding: chunked\r\n", func(text string) string {
			return fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
		}},
		"up to the end": {"", func(text string) string { return text }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := map[int]chan int{1: make(chan int), 2: make(chan int)} // by connection
			s := newService(t, func(c *serviceConn, conn int) {
				if _, _, ok := c.request(); !ok {
					return
				}
				c.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + framing.head + "\r\n")
				for n := range said[conn] {
					c.write(framing.event(event(n)))
				}
			})
			t.Cleanup(func() { close(said[1]); close(said[2]) })
			g := serve(t, withH2(oneUpstream(s.address())))

			p := g.dial()
			p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			r, err := http.ReadResponse(p.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			for n := range events {
				said[1] <- n
				got := make([]byte, len(event(n)))
				for at := 0; at < len(got); {
					m, err := r.Body.Read(got[at:])
					if err != nil {
						t.Fatal(err)
					}
					at += m
				}
				if string(got) != event(n) {
					t.Fatalf("event %d is %q", n, got)
				}
			}
			p.Close()

			c := g.h2()
			st, all := c.ask("GET", "/"), ""
			for n := range events {
				said[2] <- n
				all += event(n)
				c.wait("an event", func() bool { return string(st.body) == all })
			}
		})
	}
}

func event(n int) string { return fmt.Sprintf("id: %d\ndata: hello\n\n", n) }
