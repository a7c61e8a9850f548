package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// hintedService is a service whose every answer is a page that names its style. It says when a request
// has come, and answers when it may.
func hintedService(t *testing.T) (s *service, asked chan string, answer chan struct{}) {
	asked, answer = make(chan string, 8), make(chan struct{}, 8)
	return newService(t, func(c *serviceConn, _ int) {
		for head := c.head(); head != ""; head = c.head() {
			asked <- head
			<-answer
			c.write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLink: </s.css>; rel=preload, </n>; rel=next\r\n" +
				"Content-Length: 2\r\n\r\nok")
		}
	}), asked, answer
}

const hintedRoutes = "routes: [{match: /, upstream: s, early_hints: true}]"

func hinted(address string) string {
	return fmt.Sprintf("loops: 1\nlisteners: [{address: \"127.0.0.1:0\"}]\nupstreams: {s: {targets: [%q]}}\n%s\n",
		address, hintedRoutes)
}

// The 103 comes while the service still thinks.
func TestEarlyHintsComeBeforeTheServiceAnswersOverHTTP2(t *testing.T) {
	s, asked, answer := hintedService(t)
	g := serveClean(t, withH2(hinted(s.address())))
	c := g.h2()
	ask := func() *h2stream { return c.ask("GET", "/", "accept", "text/html") }
	first := ask()
	<-asked
	answer <- struct{}{}
	first.expect(200, "ok")
	if len(first.interims) > 0 {
		t.Errorf("the first client got %v", first.interims)
	}
	second := ask()
	<-asked
	c.wait("an early hint", func() bool { return len(second.interims) > 0 || second.ended })
	answer <- struct{}{}
	second.expect(200, "ok")
	if !slices.Equal(second.interims, []int{103}) || second.hints[0].Get("Link") != "</s.css>; rel=preload" {
		t.Errorf("the second client got %v with %v", second.interims, second.hints)
	}
	if n := g.snapshot().EarlyHints; n != 1 {
		t.Errorf("%d early hints are counted, want 1", n)
	}
	c.leave()
}

func TestEarlyHintsOverHTTP3(t *testing.T) {
	t.Parallel()
	s, asked, answer := hintedService(t)
	b := serveH3(t, hinted(s.address()))
	c := b.h3()
	for i, want := range [][]int{nil, {103}} {
		st := c.get("/", "accept", "text/html")
		<-asked
		answer <- struct{}{}
		st.answer()
		if st.status != 200 || !slices.Equal(st.interims, want) {
			t.Errorf("client %d got %v and %d, want %v", i, st.interims, st.status, want)
		}
	}
}

func TestClientsOfHTTP1GetNoEarlyHintsOfTheGateway(t *testing.T) {
	s, asked, answer := hintedService(t)
	g := serveClean(t, hinted(s.address()))
	p := g.dial()
	for _, version := range []string{"1.1", "1.1", "1.0"} {
		p.send("GET / HTTP/" + version + "\r\nHost: a\r\nAccept: text/html\r\n\r\n")
		<-asked
		answer <- struct{}{}
		if got := p.status("GET"); got != 200 {
			t.Errorf("a client of HTTP/%s got %d", version, got)
		}
	}
	if n := g.snapshot().EarlyHints; n != 0 {
		t.Errorf("%d early hints are counted", n)
	}
}

// What a stored response answers needs no hint, and what waits for a fetch does.
func TestEarlyHintsAndTheCache(t *testing.T) {
	s, asked, answer := hintedService(t)
	yaml := strings.Replace(hinted(s.address()), "early_hints: true", "early_hints: true, cache: {ttl: 1h}", 1)
	g := serveClean(t, withH2(yaml))
	c := g.h2()
	ask := func(path string) *h2stream { return c.ask("GET", path, "accept", "text/html") }
	first := ask("/")
	<-asked
	answer <- struct{}{}
	first.expect(200, "ok")
	stored := ask("/")
	stored.expect(200, "ok")
	waits := ask("/?another")
	<-asked
	c.wait("an early hint", func() bool { return len(waits.interims) > 0 || waits.ended })
	answer <- struct{}{}
	waits.expect(200, "ok")
	if len(stored.interims) != 0 || !slices.Equal(waits.interims, []int{103}) {
		t.Errorf("what is stored came with %v, and what was fetched with %v", stored.interims, waits.interims)
	}
	c.leave()
}
