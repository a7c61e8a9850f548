package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	codec "plimsoll/internal/http3"
)

// client is quic-go's own client of HTTP/3.
func (b *bed) client() *http.Client {
	tr := &http3.Transport{TLSClientConfig: b.tls()}
	b.t.Cleanup(func() { tr.Close() })
	return &http.Client{Transport: tr, Timeout: patience}
}

// url3 is where that client reaches the first listener.
func (b *bed) url3(path string) string { return "https://" + b.address(0) + path }

func TestARequestOverHTTP3(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	for range 3 {
		st := c.get("/x?y")
		st.answer()
		if st.status != 200 || string(st.body) != "ok" || st.fields.Get("Content-Length") != "2" {
			t.Errorf("it got %d, %v and %q", st.status, st.fields, st.body)
		}
		if said := st.fields.Get("Alt-Svc"); said != "" {
			t.Errorf("over HTTP/3 it is told of HTTP/3: %q", said)
		}
	}
}

// Bodies of every size go both ways at once, whole, by a client that somebody else has written.
func TestBodiesGoBothWaysOverHTTP3(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *serviceConn, _ int) {
		for {
			r, err := http.ReadRequest(c.R)
			if err != nil {
				return
			}
			c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
			buf, total := make([]byte, 30_000), 0
			for {
				n, err := r.Body.Read(buf)
				total += n
				if n > 0 {
					c.write(fmt.Sprintf("%x\r\n%s\r\n", n, buf[:n]))
				}
				if err != nil {
					break
				}
			}
			c.write(fmt.Sprintf("0\r\nX-Sum: %d\r\n\r\n", total))
		}
	})
	b := serveH3(t, "drain: {timeout: 1s}\n"+oneUpstream(s.address()))
	c := b.client()
	for _, size := range []int{0, 1, 1000, 8190, 16 << 10, 70_000, 1 << 20, 3<<20 + 17} {
		body := noise(size)
		for _, length := range []int64{int64(size), -1} {
			req, _ := http.NewRequest("POST", b.url3("/"), io.NopCloser(bytes.NewReader(body)))
			req.ContentLength = length
			r, err := c.Do(req)
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			got, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || !bytes.Equal(got, body) || r.Trailer.Get("X-Sum") != fmt.Sprint(size) {
				t.Fatalf("%d bytes: %d came back with %v and the trailers %v", size, len(got), err, r.Trailer)
			}
		}
	}
}

func TestInterimResponsesAndExpectOverHTTP3(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *serviceConn, _ int) {
		for c.head() != "" {
			c.write("HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
			body := make([]byte, 3)
			if _, err := io.ReadFull(c.R, body); err != nil {
				return
			}
			c.write(simple)
		}
	})
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	st := c.stream()
	st.say(false, frame(codec.Headers, section(c.request("POST", "/", "expect", "100-continue", "content-length", "3")...)))
	for len(st.interims) < 1 { // the client waits
		if err := st.frame(); err != nil {
			t.Fatal(err)
		}
	}
	st.say(true, frame(codec.Data, "abc"))
	st.answer()
	if st.status != 200 || st.interims[0] != 100 || st.interims[1] != 103 || st.hints[1].Get("Link") != "</s>" {
		t.Errorf("status %d, %v before it, with %v", st.status, st.interims, st.hints)
	}
	hints := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			if status == 103 && h.Get("Link") == "</s>" {
				hints++
			}
			return nil
		},
	})
	req, _ := http.NewRequestWithContext(ctx, "POST", b.url3("/"), strings.NewReader("abc"))
	r, err := b.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != 200 || hints != 1 {
		t.Errorf("quic-go's client: status %d, %d hints", r.StatusCode, hints)
	}
}

// A call that breaks off behind its head ends with a status that clients know, and not with a reset.
func TestACallOverHTTP3ThatBreaksOffHasAStatus(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		c.write("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"5\r\n\x00\x00\x00\x00\x00\r\n")
	})
	c := serveH3(t, oneUpstream(s.address())).h3()
	st := c.stream().say(true, frame(codec.Headers,
		section(c.request("POST", "/a.B/C", "content-type", "application/grpc", "te", "trailers")...)))
	st.answer()
	if st.status != 200 || len(st.body) != 5 || st.trailers.Get("Grpc-Status") != "14" {
		t.Errorf("got %d, %d bytes and %v", st.status, len(st.body), st.trailers)
	}
}

func TestAWebSocketOverHTTP3ReachesAServiceOfHTTP1(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *serviceConn, _ int) {
		if r, _, ok := c.request(); !ok || r.Header.Get("Upgrade") != "websocket" {
			return
		}
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Accept: x\r\n\r\nhello, ")
		said := make([]byte, 5)
		if _, err := io.ReadFull(c.R, said); err == nil {
			c.write("you said " + string(said))
		}
		c.drain()
		c.write("; bye")
	})
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	st := c.stream()
	fields := append([]string{":protocol", "websocket"}, c.request("CONNECT", "/chat")...)
	st.say(true, frame(codec.Headers, section(fields...)), frame(codec.Data, "abc"), frame(codec.Data, "de"))
	st.answer()
	if st.status != 200 || string(st.body) != "hello, you said abcde; bye" ||
		st.fields.Get("Sec-Websocket-Accept") != "" {
		t.Errorf("the answer is %d %v %q", st.status, st.fields, st.body)
	}
}

func TestAltSvc(t *testing.T) {
	t.Parallel()
	own := "HTTP/1.1 200 OK\r\nAlt-Svc: clear\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct{ key, response, want string }{
		"by default":       {"", simple, `h3=":PORT"; ma=86400`},
		"as configured":    {`, alt_svc: 'h3=":443"; ma=60'`, simple, `h3=":443"; ma=60`},
		"off":              {`, alt_svc: "off"`, simple, ""},
		"of the service's": {"", own, "clear"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, answering(c.response))
			ca := newAuthority(t)
			yaml := withH3(oneUpstream(s.address()), ca.issue(t, "a"))
			g := serve(t, strings.Replace(yaml, "http3: true", "http3: true"+c.key, 1))
			_, port, _ := strings.Cut(g.address(0), ":")
			want := strings.ReplaceAll(c.want, "PORT", port)
			p := g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a"})
			for _, path := range []string{"/", "/a%00b"} { // the gateway's own answers too
				p.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
				r, _ := p.response("GET")
				if path != "/" && c.response == own {
					want = r.Header.Get("Alt-Svc")
				}
				if got := strings.Join(r.Header["Alt-Svc"], "|"); got != want {
					t.Errorf("over HTTP/1.1, %s says %q, want %q", path, got, want)
				}
			}
			if c.response == own {
				want = c.want
			}
			st := g.h2TLS(ca).ask("GET", "/")
			st.answer()
			if got := strings.Join(st.fields["Alt-Svc"], "|"); got != want {
				t.Errorf("over HTTP/2 %q, want %q", got, want)
			}
		})
	}
}

// Clients that were told of HTTP/3 would try it for a day.
func TestAListenerThatHasLostHTTP3TellsItsClients(t *testing.T) {
	t.Parallel()
	const plain = `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /, respond: {status: 204}}]
`
	ca := newAuthority(t)
	without := strings.Replace(withH3(plain, ca.issue(t, "a")), "http3: true, ", "", 1)
	with := strings.Replace(without, "tls:", "http3: true, tls:", 1)
	off := strings.Replace(with, "http3: true", `http3: true, alt_svc: "off"`, 1)
	for name, c := range map[string]struct{ first, want string }{
		"that it had":              {with, "clear"},
		"that it never spoke of":   {off, ""},
		"that the process had not": {without, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, c.first)
			for range 2 { // to the end, through further reloads
				if err := g.reload(without); err != nil {
					t.Fatal(err)
				}
				st := g.h2TLS(ca).ask("GET", "/")
				st.answer()
				if got := strings.Join(st.fields["Alt-Svc"], "|"); got != c.want {
					t.Errorf("Alt-Svc is %q, want %q", got, c.want)
				}
			}
			if err := g.reload(with); err != nil {
				t.Fatal(err)
			}
			st := g.h2TLS(ca).ask("GET", "/")
			st.answer()
			if got := st.fields.Get("Alt-Svc"); !strings.HasPrefix(got, "h3=") {
				t.Errorf("with http3 again, Alt-Svc is %q", got)
			}
		})
	}
	// A process that is handed a socket for HTTP/3, and has no use for it, says so too.
	g := serve(t, plain)
	g.mu.Lock()
	defer g.mu.Unlock()
	lc := g.config.Listeners[0]
	g.inherited.fds = map[string][]int{udpPrefix + lc.Address: {1, 2}}
	l, err := g.bind(lc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.closeSockets()
	if got := string(l.altSvc(lc)); got != "clear" {
		t.Errorf("after an upgrade, Alt-Svc is %q", got)
	}
}

func TestTheAccessLogAndTheCountersTellOfHTTP3(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	log := t.TempDir() + "/log"
	b := serveH3(t, withLog(log, "", "upstreams: {s: {targets: [\""+s.address()+"\"]}}\nroutes: [{match: /, upstream: s}]\n"))
	b.h3().get("/x?y", "user-agent", "me").answer()
	line := lines(t, log, 1)[0]
	for _, want := range []string{`"protocol":"HTTP/3.0"`, `"path":"/x"`, `"tls":"1.3"`, `"status":200`,
		`"client":"127.0.0.1"`, `"user_agent":"me"`} {
		if !strings.Contains(line, want) {
			t.Errorf("the line lacks %s: %s", want, line)
		}
	}
	sum := b.snapshot()
	if sum.Accepted != 1 || sum.Handshakes[1][0] != 1 {
		t.Errorf("%d connections, %v handshakes", sum.Accepted, sum.Handshakes)
	}
}

// Many clients, each with many requests at once, of all sizes: every answer is the request's own.
func TestManyRequestsAtOnceOverHTTP3(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(echo))
	b := serveH3(t, "loops: 2\n"+oneUpstream(s.address()))
	failed := make(chan string, 1000)
	done := make(chan bool)
	const clients, each = 4, 60
	for n := range clients {
		c := b.client()
		for m := range each {
			go func() {
				body := strings.Repeat(fmt.Sprintf("%d/%d ", n, m), 1+m*m)
				r, err := c.Post(b.url3("/"), "", strings.NewReader(body))
				if err == nil {
					var got []byte
					if got, err = io.ReadAll(r.Body); err == nil && string(got) != "POST "+body {
						err = fmt.Errorf("%d bytes of %d came back, status %d", len(got), len(body), r.StatusCode)
					}
					r.Body.Close()
				}
				if err != nil {
					failed <- fmt.Sprint(n, "/", m, ": ", err)
				}
				done <- true
			}()
		}
	}
	for range clients * each {
		<-done
	}
	close(failed)
	for f := range failed {
		t.Error(f)
	}
}

// A client's address may change on the way: packets of the same connection come from another port.
func TestAClientOfHTTP3MayMove(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(func(r *http.Request, _ string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(r.Header.Get("X-Forwarded-For")),
			r.Header.Get("X-Forwarded-For"))
	}))
	b := serveH3(t, oneUpstream(s.address()))
	here := &quic.Transport{Conn: udpOn(t, "127.0.0.1")}
	defer here.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	to, _ := net.ResolveUDPAddr("udp4", b.address(0))
	conn, err := here.Dial(ctx, to, b.tls(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseWithError(0x100, "")
	c := &h3{Conn: conn, t: t}
	c.greet()
	c.get("/").answer()
	elsewhere := &quic.Transport{Conn: udpOn(t, "127.0.0.2")}
	defer elsewhere.Close()
	path, err := c.AddPath(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := path.Switch(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service sees the new address", func() bool {
		st := c.get("/")
		st.answer()
		return st.status == 200 && string(st.body) == "127.0.0.2"
	})
}
