package gateway

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/http2"

	codec3 "plimsoll/internal/http3"
)

// serveCache runs a gateway with a cache that speaks every protocol: over TLS at its first listener,
// in plain text at its second. routes are those of its configuration, over an upstream named
// origin; more are further keys of the configuration.
func serveCache(t *testing.T, address, routes, more string) *bed {
	t.Helper()
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	return &bed{serveClean(t, fmt.Sprintf(`
listeners:
  - {address: "127.0.0.1:0", http2: true, http3: true, tls: {certificates: [{cert: %q, key: %q}]}}
  - {address: "127.0.0.2:0", http2: true}
upstreams: {origin: {targets: [%q], retry: {attempts: 0}}}
routes: %s
%s
`, cert.cert, cert.key, address, routes, more)), ca}
}

// talker is a client's connection of any protocol.
type talker struct {
	t    *testing.T
	bed  *bed
	p    spoken
	two  *h2
	thr  *h3
	one  *peer // of HTTP/1.1, between two requests
	slow bool  // it opens no windows
}

// talk connects a client that speaks p.
func (b *bed) talk(p spoken) *talker {
	b.t.Helper()
	c := &talker{t: b.t, bed: b, p: p}
	switch {
	case p.http3:
		c.thr = b.h3()
	case p.http2 && p.tls:
		c.two = b.h2TLS(b.ca)
	case p.http2:
		c.two = newH2(b.t, dialRaw(b.t, b.address(1)).Conn, "http")
		c.two.greet()
	}
	return c
}

// talkSlowly is talk for a client that will read next to nothing of a body.
func (b *bed) talkSlowly(p spoken) *talker {
	b.t.Helper()
	c := &talker{t: b.t, bed: b, p: p, slow: true}
	switch {
	case p.http3:
		c.thr = b.dialH3(b.tls(), &quic.Config{InitialStreamReceiveWindow: 2048,
			MaxStreamReceiveWindow: 2048, InitialConnectionReceiveWindow: 4096,
			MaxConnectionReceiveWindow: 4096})
		c.thr.greet()
	case p.http2:
		conn, scheme := dialRaw(b.t, b.address(1)).Conn, "http"
		if p.tls {
			conn, scheme = b.mustDialTLS(&tls.Config{RootCAs: b.ca.pool, ServerName: "a",
				NextProtos: []string{"h2"}}).Conn, "https"
		}
		c.two = newH2(b.t, conn, scheme)
		c.two.thrifty = true
		c.two.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 2048})
	}
	return c
}

// call is a request under way.
type call struct {
	method string
	of     *talker // of HTTP/1.1: whose connection it is
	one    *peer
	two    *h2stream
	thr    *h3stream
}

// got is a response in terms of every protocol.
type got struct {
	status   int
	fields   http.Header
	body     string
	trailers http.Header
	interims int
	cut      bool  // it broke off
	why      error // over HTTP/3
	closes   bool  // over HTTP/1.1: the connection ends with it
}

func (g *got) String() string {
	return fmt.Sprintf("%d %v %.80q (%d bytes) %v %d interim, cut off: %v", g.status, g.fields,
		g.body, len(g.body), g.trailers,
		g.interims, g.cut)
}

// begin sends a request without a body; fields are names and values in turn.
func (c *talker) begin(method, path string, fields ...string) *call {
	c.t.Helper()
	lower := make([]string, len(fields))
	for i, s := range fields {
		if lower[i] = s; i%2 == 0 {
			lower[i] = strings.ToLower(s)
		}
	}
	switch {
	case c.two != nil:
		return &call{method: method, two: c.two.ask(method, path, lower...)}
	case c.thr != nil:
		st := c.thr.stream()
		st.say(true, frame(codec3.Headers, section(c.thr.request(method, path, lower...)...)))
		return &call{method: method, thr: st}
	}
	p := c.connect()
	p.send(method + " " + path + " HTTP/1.1\r\nHost: a\r\n" + fieldText(fields) + "\r\n")
	return &call{method: method, one: p, of: c}
}

// connect gives a connection of HTTP/1.1 on which nothing is under way.
func (c *talker) connect() *peer {
	if p := c.one; p != nil {
		c.one = nil
		return p
	}
	if c.p.tls {
		return c.bed.mustDialTLS(&tls.Config{RootCAs: c.bed.ca.pool, ServerName: "a",
			NextProtos: []string{"http/1.1"}})
	}
	return dialRaw(c.t, c.bed.address(1))
}

func fieldText(fields []string) string {
	var b strings.Builder
	for i := 0; i < len(fields); i += 2 {
		b.WriteString(fields[i] + ": " + fields[i+1] + "\r\n")
	}
	return b.String()
}

// read reads the response to its end.
func (c *call) read() *got {
	switch {
	case c.two != nil:
		return c.readTwo()
	case c.thr != nil:
		err := c.thr.read()
		return &got{status: c.thr.status, fields: c.thr.fields, body: string(c.thr.body),
			trailers: c.thr.trailers,
			interims: len(c.thr.interims), cut: err != nil, why: err}
	}
	g := &got{}
	for {
		r, err := http.ReadResponse(c.one.r, &http.Request{Method: c.method})
		if err != nil {
			g.cut = true
			c.one.Close()
			return g
		}
		body, err := readString(r.Body)
		if r.StatusCode < 200 {
			g.interims++
			continue
		}
		g.status, g.fields, g.body, g.trailers, g.cut = r.StatusCode, r.Header, body,
			r.Trailer, err != nil
		g.closes = r.Close
		if g.cut || r.Close || c.of.one != nil {
			c.one.Close()
		} else {
			c.of.one = c.one
		}
		return g
	}
}

// sendGET sends a GET on a connection of its own.
func (i *instance) sendGET(path string) *call {
	i.t.Helper()
	c := &call{method: "GET", one: i.dial(), of: &talker{t: i.t, bed: &bed{instance: i}}}
	c.one.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
	return c
}

// allAsk sends n requests for "/", each on a connection of its own.
func (i *instance) allAsk(n int) (calls []*call) {
	i.t.Helper()
	for range n {
		calls = append(calls, i.sendGET("/"))
	}
	return calls
}

// readAll reads responses at once: clients that share a body that is not stored wait for each
// other.
func readAll(calls []*call) []*got {
	all := make([]*got, len(calls))
	var reading sync.WaitGroup
	for n, c := range calls {
		reading.Go(func() { all[n] = c.read() })
	}
	reading.Wait()
	return all
}

func (c *call) readTwo() *got {
	st := c.two
	st.c.wait("the response's end", func() bool { return st.ended || st.reset })
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	return &got{status: st.status, fields: st.fields, body: string(st.body), trailers: st.trailers,
		interims: len(st.interims),
		cut:      st.reset}
}

// begun waits until a response has begun.
func (c *call) begun() {
	switch {
	case c.two != nil:
		c.two.c.wait("the response's head", func() bool { return c.two.status > 0 })
	case c.thr != nil:
		for c.thr.status == 0 {
			if err := c.thr.frame(); err != nil {
				c.thr.t.Fatal(err)
			}
		}
	default:
		if _, err := c.one.r.Peek(1); err != nil {
			c.one.t.Fatal(err)
		}
	}
}

// leave gives the request up.
func (c *call) leave() {
	switch {
	case c.two != nil:
		c.two.close(http2.ErrCodeCancel)
	case c.thr != nil:
		c.thr.CancelRead(0x10c)
	default:
		c.one.Close()
	}
}

// ask does a request and reads its response, which must come whole.
func (c *talker) ask(method, path string, fields ...string) *got {
	c.t.Helper()
	g := c.begin(method, path, fields...).read()
	if g.cut {
		c.t.Fatalf("%s: %s %s broke off: %v", c.p.name, method, path, g)
	}
	return g
}

// expect does a request whose response must have this status and this body.
func (c *talker) expect(status int, body, method, path string, fields ...string) *got {
	c.t.Helper()
	g := c.ask(method, path, fields...)
	if g.status != status || g.body != body {
		c.t.Errorf("%s: %s %s %v gives %v\nwant %d %.80q (%d bytes)", c.p.name, method, path, fields,
			g, status, body, len(body))
	}
	return g
}
