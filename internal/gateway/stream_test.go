package gateway

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
)

// noise is bytes that no run of the same length repeats. Tests share them: nobody may write to them.
func noise(n int) []byte { return allNoise()[:n:n] }

// allNoise is made once: to make as much as each test needs took a hundredth of their time.
var allNoise = sync.OnceValue(func() []byte {
	b := make([]byte, 32<<20)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
})

const large = 4 << 20

// inChunks frames a body as chunks of many sizes.
func inChunks(body []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(body) + len(body)/100 + 1000)
	for n := 1; len(body) > 0; n = n*3%70001 + 1 {
		n = min(n, len(body))
		fmt.Fprintf(&b, "%x;e=%d\r\n%s\r\n", n, n, body[:n])
		body = body[n:]
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

// framings are the ways in which a body of a response, or a request, can travel.
func framings(body []byte) map[string]string {
	return map[string]string{
		"length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
		"chunks": "Transfer-Encoding: chunked\r\n\r\n" + string(inChunks(body)),
	}
}

func TestLargeResponsesArriveWhole(t *testing.T) {
	body := noise(large)
	sum := sha256.Sum256(body)
	all := framings(body)
	all["to the end"] = "Connection: close\r\n\r\n" + string(body)
	for name, rest := range all {
		for _, version := range []string{"1.1", "1.0"} {
			t.Run(name+" to HTTP "+version, func(t *testing.T) {
				s := newService(t, once("HTTP/1.1 200 OK\r\n"+rest))
				g := serveClean(t, oneUpstream(s.address()))
				p := g.dial()
				p.send("GET / HTTP/" + version + "\r\nHost: a\r\n\r\n")
				if r, got := p.response("GET"); r.StatusCode != 200 || sha256.Sum256([]byte(got)) != sum {
					t.Errorf("got %d and %d bytes, which are not those that were sent", r.StatusCode, len(got))
				}
			})
		}
	}
}

func TestLargeRequestsArriveWhole(t *testing.T) {
	body := noise(large)
	for name, rest := range framings(body) {
		t.Run(name, func(t *testing.T) {
			s := newService(t, replying(func(_ *http.Request, body string) string {
				return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n%x", sha256.Sum256([]byte(body)))
			}))
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			for range 2 {
				go io.WriteString(p, "POST / HTTP/1.1\r\nHost: a\r\n"+rest)
				if r, got := p.response("POST"); r.StatusCode != 200 || got != fmt.Sprintf("%x", sha256.Sum256(body)) {
					t.Errorf("got %d %q", r.StatusCode, got)
				}
			}
		})
	}
}

// mostHeld is how much a stalled direction may make the gateway hold: the queue's mark, one more
// read with its framing, and what heads need.
const mostHeld = reactor.HighWater + 3*reactor.ScratchSize

func TestASlowReaderStopsTheReadingOnTheOtherSide(t *testing.T) {
	body := noise(24 << 20)
	var sent counter
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		io.WriteString(c, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body)))
		io.Copy(io.MultiWriter(c, &sent), bytes.NewReader(body))
	})
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send(get)
	if n := stalls(t, "the upstream's sending", sent.n.Load); n >= int64(len(body)) {
		t.Fatal("the upstream was read to the end for a client that does not read")
	}
	if n := g.buffered(); n > mostHeld {
		t.Errorf("%d bytes of buffers are held for one client that does not read, want at most %d", n, mostHeld)
	}
	if r, got := p.response("GET"); r.StatusCode != 200 || got != string(body) {
		t.Errorf("then the client got %d and %d bytes, which are not those that were sent", r.StatusCode, len(got))
	}
}

func TestASlowUpstreamStopsTheReadingOfTheClient(t *testing.T) {
	body := noise(24 << 20)
	read := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		<-read
		replying(func(_ *http.Request, got string) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%v", got == string(body))
		})(c, 0)
	})
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	var sent counter
	go func() {
		io.WriteString(p, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body)))
		io.Copy(io.MultiWriter(p, &sent), bytes.NewReader(body))
	}()
	if n := stalls(t, "the client's sending", sent.n.Load); n >= int64(len(body)) {
		t.Fatal("the client was read to the end for an upstream that does not read")
	}
	if n := g.buffered(); n > mostHeld {
		t.Errorf("%d bytes of buffers are held for one upstream that does not read, want at most %d", n, mostHeld)
	}
	close(read)
	if r, got := p.response("POST"); r.StatusCode != 200 || got != "true" {
		t.Errorf("then the client got %d %q", r.StatusCode, got)
	}
}

func TestAClientThatPipelinesAndDoesNotReadIsNotAnsweredWithoutEnd(t *testing.T) {
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /, respond: {body: "`+strings.Repeat("x", 30<<10)+`"}}]
`)
	p := g.dial()
	var asked counter
	const requests = 1000
	go io.Copy(io.MultiWriter(p, &asked), strings.NewReader(strings.Repeat(get, requests)))
	stalls(t, "the client's requests", func() int64 { return int64(g.snapshot().Requests) })
	if n := g.buffered(); n > mostHeld {
		t.Errorf("%d bytes of buffers are held for one client that does not read, want at most %d", n, mostHeld)
	}
	for range requests {
		if r, body := p.response("GET"); r.StatusCode != 200 || len(body) != 30<<10 {
			t.Fatalf("then the client got %d and %d bytes", r.StatusCode, len(body))
		}
	}
}

func TestALongAnswerOfTheGatewayIsNotCopiedForASlowClient(t *testing.T) {
	body := string(bytes.Repeat([]byte("0123456789abcdef"), 1<<20)) // 16 MB
	path := t.TempDir() + "/body"
	writeFile(t, path, body)
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /, respond: {file: "`+path+`"}}]
`)
	p := g.dial()
	p.send(get + get)
	stalls(t, "the answer", func() int64 { return g.buffered() })
	if n := g.buffered(); n > mostHeld {
		t.Errorf("%d bytes of buffers are held for one client that does not read, want at most %d", n, mostHeld)
	}
	for range 2 {
		if r, got := p.response("GET"); r.StatusCode != 200 || got != body {
			t.Fatalf("then the client got %d and %d bytes", r.StatusCode, len(got))
		}
	}
}

func TestAnUpstreamThatAnswersBeforeTheBodyIsWhole(t *testing.T) {
	const answer = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
	for name, then := range map[string]func(*serviceConn){
		"and reads on":   func(c *serviceConn) { c.drain() },
		"and closes":     func(c *serviceConn) {},
		"and only waits": func(c *serviceConn) { c.s.block(c) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, func(c *serviceConn, _ int) {
				c.head()
				c.write(answer)
				then(c)
			})
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			// The client sends all of it whatever it is told meanwhile, as many do, and only then
			// reads.
			p.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", 8<<20))
			body := noise(8 << 20)
			for len(body) > 0 {
				n, err := p.Write(body[:min(len(body), 64<<10)])
				if err != nil {
					break // it was told so by a connection that has ended; the answer must be there nevertheless
				}
				body = body[n:]
			}
			if r, got := p.response("POST"); r.StatusCode != 401 || got != "no" || !r.Close {
				t.Errorf("got %d %q, close %v", r.StatusCode, got, r.Close)
			}
			p.expectEnd()
		})
	}
}

func TestARefusedBodyIsReadOverUntilTheClientHasItsAnswer(t *testing.T) {
	s := untouched(t)
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, max_body: 1KB}]
`)
	p := g.dial()
	p.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", 8<<20))
	for range 8 << 4 {
		p.send(string(noise(64 << 10)))
	}
	p.expectFailureEnd(413, "body_too_large")
	s.expectUntouched()
}

func TestAHeadOfManyPiecesWithALargeBodyBehindIt(t *testing.T) {
	// What is there of a head and one whole read behind it are more than a buffer holds.
	body := noise(1 << 20)
	field := "X-Long: " + strings.Repeat("y", 7<<10) + "\r\n"
	known := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		c.write("HTTP/1.1 200 OK\r\n" + field)
		<-known
		c.write(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
		c.drain()
	})
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send(get)
	eventually(t, "the head's first piece", func() bool { return g.snapshot().UpstreamReceived > 0 })
	close(known)
	if r, got := p.response("GET"); r.StatusCode != 200 || got != string(body) {
		t.Errorf("got %d and %d bytes", r.StatusCode, len(got))
	}
}

func TestOneStreamDoesNotKeepTheLoopForItself(t *testing.T) {
	endless := bytes.Repeat([]byte("x"), 1<<20)
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		c.write("HTTP/1.1 200 OK\r\n\r\n")
		for c.write(string(endless)) {
		}
	})
	g := serveClean(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes:
  - {match: /, upstream: s}
  - {match: /here, respond: {body: "here"}}
`)
	greedy, other := g.dial(), g.dial()
	greedy.send(get)
	go io.Copy(io.Discard, greedy)
	for range 50 {
		if status, body := other.request("GET", "/here"); status != 200 || body != "here" {
			t.Fatalf("got %d %q", status, body)
		}
	}
	greedy.Close()
	eventually(t, "the end of the stream", func() bool { return g.snapshot().Ends[exchange.ClientGone] == 1 })
}
