package gateway

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/proxy"
)

// overTLS is a gateway that answers by itself behind TLS; more are further keys of the listener's
// tls, and routes what it serves.
func overTLS(more, rest string, certs ...pair) string {
	var list []string
	for _, c := range certs {
		list = append(list, fmt.Sprintf("{cert: %q, key: %q}", c.cert, c.key))
	}
	if rest == "" {
		rest = "routes: [{match: /, respond: {body: ok}, response_headers: {set: {X-Subject: \"${tls_client_subject}\"}}}]\n"
	}
	return "listeners: [{address: \"127.0.0.1:0\", tls: {certificates: [" + strings.Join(list, ", ") + "]" + more + "}}]\n" + rest
}

func TestBothVersionsOfTLSAreServed(t *testing.T) {
	ca := newAuthority(t)
	g := serve(t, overTLS("", "", ca.issue(t, "a.example")))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		p := g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a.example", MaxVersion: version, NextProtos: []string{"http/1.1"}})
		if s := p.state(); s.Version != version || s.NegotiatedProtocol != "http/1.1" {
			t.Errorf("agreed on %x and %q", s.Version, s.NegotiatedProtocol)
		}
		p.send(plainGet + plainGet + plainGet) // pipelined
		for range 3 {
			if r, _ := p.response("GET"); r.StatusCode != 200 {
				t.Errorf("got %d", r.StatusCode)
			}
		}
	}
	if h := g.snapshot().Handshakes; h[0][0] != 1 || h[1][0] != 1 {
		t.Errorf("counted %v", h)
	}
	old := serve(t, overTLS(", min_version: \"1.3\"", "", ca.issue(t, "a.example")))
	if _, err := old.dialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a.example", MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is served where 1.3 is the least")
	}
	eventually(t, "the failed handshake is counted", func() bool { return old.snapshot().HandshakeFailures[proxy.HandshakeFailed] == 1 })
}

func TestTheCertificateIsChosenByTheNameThatTheClientAsksFor(t *testing.T) {
	ca := newAuthority(t)
	g := serve(t, overTLS("", "", ca.issue(t, "first.example"), ca.issue(t, "*.wild.example"), ca.issue(t, "exact.wild.example")))
	for name, want := range map[string]string{
		"first.example": "first.example", "x.wild.example": "*.wild.example",
		"exact.wild.example": "exact.wild.example", "other.example": "first.example",
	} {
		p := g.mustDialTLS(&tls.Config{ServerName: name, InsecureSkipVerify: true})
		if got := p.state().PeerCertificates[0].DNSNames[0]; got != want {
			t.Errorf("%s: got the certificate of %s, want %s", name, got, want)
		}
	}
}

func TestCertificateFilesThatChangeAreUsedWithoutARestart(t *testing.T) {
	ca := newAuthority(t)
	files := ca.issue(t, "a.example")
	g := serve(t, overTLS("", "", files))
	cfg := &tls.Config{RootCAs: ca.pool, ServerName: "a.example"}
	old := g.mustDialTLS(cfg)
	serial := old.state().PeerCertificates[0].SerialNumber
	ca.issueTo(t, files, "a.example")
	eventually(t, "new handshakes get the new certificate", func() bool {
		p := g.mustDialTLS(cfg)
		defer p.Close()
		return p.state().PeerCertificates[0].SerialNumber.Cmp(serial) != 0
	})
	old.send(plainGet)
	if r, _ := old.response("GET"); r.StatusCode != 200 {
		t.Errorf("the old connection: %d", r.StatusCode)
	}
}

func TestClientCertificates(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	server := ca.issue(t, "a.example")
	own, alien := ca.issue(t, "client.example").load(t), foreign.issue(t, "client.example").load(t)
	for _, c := range []struct {
		auth    string
		cert    *tls.Certificate
		subject string
		refused bool
	}{
		{"none", nil, "", false}, {"none", &own, "", false},
		{"request", nil, "", false}, {"request", &own, "CN=client.example", false}, {"request", &alien, "", true},
		{"require", nil, "", true}, {"require", &own, "CN=client.example", false}, {"require", &alien, "", true},
	} {
		more := ", client_auth: " + c.auth
		if c.auth != "none" {
			more += fmt.Sprintf(", client_ca: %q", ca.file)
		}
		g := serve(t, overTLS(more, "", server))
		cfg := &tls.Config{RootCAs: ca.pool, ServerName: "a.example"}
		if c.cert != nil { // given whatever the server says it wants
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.cert, nil }
		}
		subject, err := "", error(nil)
		if p, dialErr := g.dialTLS(cfg); dialErr != nil {
			err = dialErr
		} else {
			p.send(plainGet)
			var r *http.Response
			if r, err = http.ReadResponse(p.r, nil); err == nil {
				subject = r.Header.Get("X-Subject")
			}
		}
		if (err != nil) != c.refused || subject != c.subject {
			t.Errorf("%s, certificate %v: %q, %v", c.auth, c.cert != nil, subject, err)
		}
	}
}

func TestSessionsAreResumedAcrossAReload(t *testing.T) {
	ca := newAuthority(t)
	files := ca.issue(t, "a.example")
	g := serve(t, overTLS("", "", files))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cfg := &tls.Config{RootCAs: ca.pool, ServerName: "a.example",
			ClientSessionCache: tls.NewLRUClientSessionCache(1), MaxVersion: version}
		p := g.mustDialTLS(cfg)
		p.send(plainGet)
		p.response("GET") // the ticket comes with it
		if err := g.reload(overTLS(fmt.Sprintf(", handshake_timeout: %ds", version&0xff), "", files)); err != nil {
			t.Fatal(err)
		}
		if p := g.mustDialTLS(cfg); !p.state().DidResume {
			t.Errorf("a session of version %x was not resumed after a reload", version)
		}
	}
}

func TestAReloadTakesAuthoritiesUpThatChangedInTheirFile(t *testing.T) {
	ca, next := newAuthority(t), newAuthority(t)
	yaml := overTLS(fmt.Sprintf(", client_auth: require, client_ca: %q", ca.file), "", ca.issue(t, "a.example"))
	client := next.issue(t, "client.example").load(t)
	g := serve(t, yaml)
	ask := func() error {
		p, err := g.dialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a.example", Certificates: []tls.Certificate{client}})
		if err != nil {
			return err
		}
		p.send(plainGet)
		_, err = http.ReadResponse(p.r, nil)
		return err
	}
	if ask() == nil {
		t.Fatal("a foreign client was let in")
	}
	writePEM(t, ca.file, "CERTIFICATE", next.cert.Raw)
	if err := g.reload(yaml); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("a client of the new authority: %v", err)
	}
}

// halfHello is how the record of a TLS client's first message begins.
const halfHello = "\x16\x03\x01\x02\x00\x01"

// Connections that never say anything must not keep new clients from their handshakes.
func TestHazardSlowTLSClients(t *testing.T) {
	ca := newAuthority(t)
	g := serve(t, overTLS(", max_handshakes: 1", "", ca.issue(t, "a.example")))
	for range 8 {
		g.dial()
	}
	eventually(t, "the silent ones are there", func() bool { return g.snapshot().Accepted == 8 })
	g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a.example"})
	if n := g.snapshot().HandshakeFailures[proxy.HandshakeRefused]; n != 0 {
		t.Errorf("%d handshakes were refused, want none", n)
	}
}

// gathering is a connection that keeps what is written to it once it is told to.
type gathering struct {
	net.Conn
	on   bool
	kept []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	if !g.on {
		return g.Conn.Write(p)
	}
	g.kept = append(g.kept, p...)
	return len(p), nil
}

// A record is decrypted when it is whole. What holds half of one holds a receive buffer, and is not
// an idle connection.
func TestHazardAHeadInAnUnfinishedRecordHasAHeadsTime(t *testing.T) {
	ca := newAuthority(t)
	config := strings.Replace(overTLS("", "", ca.issue(t, "a.example")), "]}}]", "]}, limits: {head_timeout: 50ms, idle_timeout: 1h}}]", 1)
	for name, before := range map[string]string{"the first": "", "behind a request": plainGet} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, config)
			raw := g.dial()
			wire := &gathering{Conn: raw.Conn}
			c := tls.Client(wire, &tls.Config{RootCAs: ca.pool, ServerName: "a.example"})
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			wire.on = true
			io.WriteString(c, before)
			whole := len(wire.kept)
			io.WriteString(c, plainGet)
			raw.send(string(wire.kept[:(whole+len(wire.kept))/2]))
			p := &peer{Conn: c, t: t, r: bufio.NewReader(c)}
			if before != "" {
				p.response("GET")
			}
			p.expectFailureEnd(408, "head_timeout")
			if n := g.reasons(exchange.HeadTimeout); n != 1 {
				t.Errorf("%d exchanges are counted as ended by head_timeout, want 1", n)
			}
		})
	}
}

func TestAHandshakeThatTakesTooLongEnds(t *testing.T) {
	ca := newAuthority(t)
	g := serve(t, overTLS(", handshake_timeout: 50ms", "", ca.issue(t, "a.example")))
	silent, halfway := g.dial(), g.dial()
	halfway.send(halfHello)
	silent.rest()
	io.Copy(io.Discard, halfway.r)
	eventually(t, "both are counted", func() bool { return g.snapshot().HandshakeFailures[proxy.HandshakeTimeout] == 2 })
}

func TestHandshakesInFlightAreBounded(t *testing.T) {
	ca := newAuthority(t)
	g := serve(t, overTLS(", max_handshakes: 2", "", ca.issue(t, "a.example")))
	in := g.listeners[g.config.Listeners[0].Address].tls.limiter
	var waiting []*peer
	// Those that wait aside for their clients, and those that must keep their places meanwhile.
	const most = 2*16 + 2
	for n := range most + 2 {
		p := g.dial()
		p.send(halfHello)
		waiting = append(waiting, p)
		eventually(t, "it has found its place", func() bool {
			s := in.Stats()
			return s.InFlight == min(n+1, most) && s.Waiting == max(0, n+1-most)
		})
	}
	over := g.dial()
	over.send(halfHello)
	if got, _ := io.ReadAll(over.r); len(got) != 0 {
		t.Error("a handshake too many was told something")
	}
	if n := g.snapshot().HandshakeFailures[proxy.HandshakeRefused]; n != 1 {
		t.Errorf("%d counted, want 1", n)
	}
	for _, p := range waiting {
		p.Close()
	}
	eventually(t, "all of them are gone", func() bool { return g.shared.Clients.Load() == 0 })
	g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a.example"})
}

func TestAClientThatStallsInItsHandshakeKeepsNobodyOut(t *testing.T) {
	ca := newAuthority(t)
	g := serve(t, overTLS(", max_handshakes: 1", "", ca.issue(t, "a.example")))
	in := g.listeners[g.config.Listeners[0].Address].tls.limiter
	for n := range 8 {
		g.dial().send(halfHello)
		eventually(t, "it waits aside", func() bool { s := in.Stats(); return s.InFlight == n+1 && s.Waiting == 0 })
	}
	g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a.example"})
}

func TestAnHTTPRequestToATLSPortIsToldSo(t *testing.T) {
	g := serve(t, overTLS("", "", newAuthority(t).issue(t, "a.example")))
	for _, request := range []string{plainGet, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: " +
		"100000\r\n\r\n" + strings.Repeat("x", 100000)} {
		if got := g.exchange(request); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "speaks TLS") {
			t.Errorf("got %q", got)
		}
	}
	p := g.dial()
	p.send("SSH-2.0-hello\r\n")
	if got, _ := io.ReadAll(p.r); strings.Contains(string(got), "HTTP") {
		t.Errorf("something else was answered %q", got)
	}
	eventually(t, "nothing is left", func() bool { return g.shared.Clients.Load() == 0 })
}

// newTLSService is a service behind TLS.
func newTLSService(t *testing.T, cfg *tls.Config, answer func(c *tls.Conn, r *bufio.Reader)) (address string) {
	t.Helper()
	return acceptEach(t, func(raw net.Conn) {
		c := tls.Server(raw, cfg)
		if c.Handshake() == nil {
			answer(c, bufio.NewReader(c))
		}
	})
}

// answerTLS reads requests and answers each with the same bytes.
func answerTLS(response string) func(c *tls.Conn, r *bufio.Reader) {
	return func(c *tls.Conn, r *bufio.Reader) {
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, request.Body)
			if _, err := io.WriteString(c, response); err != nil {
				return
			}
		}
	}
}

func toTLS(address, settings string) string {
	return "listeners: [{address: \"127.0.0.1:0\"}]\nupstreams: {s: {targets: [\"" + address +
		"\"], tls: {" + settings + "}}}\nroutes: [{match: /, upstream: s}]\n"
}

func TestTLSToUpstreams(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	server := ca.issue(t, "service.example")
	client := ca.issue(t, "gateway.example")
	open := newTLSService(t, &tls.Config{Certificates: []tls.Certificate{server.load(t)}}, answerTLS(okResponse))
	mutual := newTLSService(t, &tls.Config{Certificates: []tls.Certificate{server.load(t)},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool},
		func(c *tls.Conn, r *bufio.Reader) {
			name := c.ConnectionState().PeerCertificates[0].Subject.CommonName + " " + c.ConnectionState().ServerName
			answerTLS(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(name), name))(c, r)
		})
	for _, c := range []struct {
		what, address, settings string
		status                  int
		body                    string
	}{
		{"the target's host is checked", open, fmt.Sprintf("ca: %q", ca.file), 200, "ok"},
		{"another name is asked for", open, fmt.Sprintf("ca: %q, server_name: service.example", ca.file), 200, "ok"},
		{"a name that the certificate lacks", open, fmt.Sprintf("ca: %q, server_name: other.example", ca.file), 502, "connect_failed"},
		{"the wrong authority", open, fmt.Sprintf("ca: %q", foreign.file), 502, "connect_failed"},
		{"no authority, and told not to mind", open, "insecure_skip_verify: true", 200, "ok"},
		{"a client certificate", mutual, fmt.Sprintf("ca: %q, server_name: service.example, "+
			"cert: %q, key: %q", ca.file, client.cert, client.key), 200,
			"gateway.example service.example"},
	} {
		g := serve(t, toTLS(c.address, c.settings))
		p := g.dial()
		for range 2 {
			p.send(plainGet)
			if r, body := p.response("GET"); r.StatusCode != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%s: %d %q, want %d %q", c.what, r.StatusCode, body, c.status, c.body)
			}
		}
		if c.status == 502 {
			eventually(t, "the reason is logged", func() bool { return strings.Contains(g.logged.String(), "TLS with a target failed") })
			if n := strings.Count(g.logged.String(), "TLS with a target failed"); n != 1 {
				t.Errorf("%s: %d lines were logged for failures of one moment, want 1", c.what, n)
			}
		}
	}
}

func TestAHealthCheckSpeaksTLSWithoutAServerName(t *testing.T) {
	t.Parallel() // checks are seconds apart
	ca := newAuthority(t)
	address := newTLSService(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "a.example").load(t)}}, answerTLS(okResponse))
	yaml := strings.Replace(toTLS(address, fmt.Sprintf("ca: %q", ca.file)), "], tls:",
		"], health: {active: {path: /, interval: 2s, timeout: 2s}}, tls:", 1)
	g := serve(t, yaml)
	eventually(t, "a check succeeds", func() bool {
		light := g.upstreams["s"].Status().Targets[0].Light
		if light != nil && light.Failures > 0 && strings.Contains(light.Last, "tls:") {
			t.Fatalf("the check: %+v", light)
		}
		return light != nil && light.Successes > 0
	})
}

func TestAReloadTakesAnUpstreamsNewCertificateUp(t *testing.T) {
	ca := newAuthority(t)
	files := ca.issue(t, "old.example")
	address := newTLSService(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(t,
		"service").load(t)}, ClientAuth: tls.RequireAnyClientCert},
		func(c *tls.Conn, r *bufio.Reader) {
			answerTLS("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nName: "+c.ConnectionState().PeerCertificates[0].Subject.CommonName+"\r\n\r\n")(c, r)
		})
	yaml := toTLS(address, fmt.Sprintf("insecure_skip_verify: true, cert: %q, key: %q", files.cert, files.key))
	g := serve(t, yaml)
	p := g.dial()
	for _, want := range []string{"old.example", "new.example"} {
		p.send(plainGet)
		if r, _ := p.response("GET"); r.Header.Get("Name") != want {
			t.Errorf("the service saw the certificate of %q, want %q", r.Header.Get("Name"), want)
		}
		ca.issueTo(t, files, "new.example")
		if err := g.reload(yaml); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLargeBodiesGoBothWaysOverTLS(t *testing.T) {
	ca := newAuthority(t)
	files := ca.issue(t, "a.example")
	address := newTLSService(t, &tls.Config{Certificates: []tls.Certificate{files.load(t)}}, func(c *tls.Conn, r *bufio.Reader) {
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", request.ContentLength)
			if _, err := io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{request.Body}, make([]byte, 3000)); err != nil {
				return
			}
		}
	})
	g := serve(t, overTLS("", fmt.Sprintf("upstreams: {s: {targets: [%q], tls: {ca: "+
		"%q}}}\nroutes: [{match: /, upstream: s}]\n", address, ca.file), files))
	body := bytes.Repeat([]byte("0123456789abcdef+"), 8<<20/17)
	want := sha256.Sum256(body)
	for range 2 {
		p := g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a.example"})
		go func() {
			fmt.Fprintf(p, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body))
			p.Write(body)
		}()
		r, err := http.ReadResponse(p.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if n, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{r.Body},
			make([]byte, 1000)); err != nil || n != int64(len(body)) ||
			[32]byte(sum.Sum(nil)) != want {
			t.Fatalf("%d of %d bytes came back, %v", n, len(body), err)
		}
	}
}

func TestABodyThatEndsWithoutCloseNotifyIsACut(t *testing.T) {
	ca := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "a.example").load(t)}}
	const head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome of the body"
	for _, c := range []struct {
		what string
		end  func(*tls.Conn)
		cut  bool
	}{
		{"close_notify", func(c *tls.Conn) { c.Close() }, false},
		{"the end of the connection alone", func(c *tls.Conn) { c.NetConn().Close() }, true},
	} {
		address := newTLSService(t, cfg, func(conn *tls.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(conn, head)
			c.end(conn)
		})
		g := serve(t, toTLS(address, fmt.Sprintf("ca: %q", ca.file)))
		p := g.dial()
		p.send(plainGet)
		r, err := http.ReadResponse(p.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(r.Body)
		if (err != nil) != c.cut {
			t.Errorf("%s: the client's body ended with %v", c.what, err)
		}
		if n := g.snapshot().Reasons[exchange.UpstreamCut]; (n == 1) != c.cut {
			t.Errorf("%s: %d cuts counted", c.what, n)
		}
	}
}

func TestRealClientsSpeakTLS(t *testing.T) {
	ca := newAuthority(t)
	s := newService(t, answering(okResponse))
	g := serve(t, overTLS("", "upstreams: {s: {targets: [\""+s.address()+"\"]}}\nroutes: [{match: /, upstream: s}]\n", ca.issue(t, "a.example")))
	address := g.address(0)
	for _, version := range [][]string{{"--tlsv1.2", "--tls-max", "1.2"}, {"--tlsv1.3"}} {
		args := append(version, "-sS", "--fail", "--cacert", ca.file, "--resolve",
			"a.example:"+address[strings.LastIndex(address, ":")+1:]+":127.0.0.1",
			"https://a.example"+address[strings.LastIndex(address, ":"):]+"/x")
		if out, err := exec.Command("curl", args...).CombinedOutput(); err != nil || string(out) != "ok" {
			t.Errorf("curl %v: %q, %v", version, out, err)
		}
	}
	cmd := exec.Command("openssl", "s_client", "-quiet", "-connect", address, "-servername",
		"a.example", "-CAfile", ca.file, "-verify_return_error")
	cmd.Stdin = strings.NewReader("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
	if out, err := cmd.Output(); err != nil || !strings.HasSuffix(string(out), "\r\n\r\nok") {
		t.Errorf("openssl: %q, %v", out, err)
	}
}
