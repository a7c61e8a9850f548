package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	codec "plimsoll/internal/http3"
)

func TestADrainTellsClientsOfHTTP3AndFinishesTheirStreams(t *testing.T) {
	t.Parallel()
	held := newGate(t)
	s := newService(t, held.script)
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	st := c.get("/")
	held.next(t)
	address := b.address(0)
	b.stop()
	said := controlFrames(c)
	if f := <-said; f.kind != codec.Settings {
		t.Errorf("the first frame is %d", f.kind)
	}
	if f := <-said; f.kind != codec.GoAway || f.id != codec.LastStream {
		t.Errorf("the first GOAWAY is %+v", f)
	}
	if f := <-said; f.kind != codec.GoAway || f.id != 4 {
		t.Errorf("the second GOAWAY is %+v", f)
	}
	b.expectNoMoreH3(address)
	late := c.get("/late")
	if code, ok := errH3(late.read()); !ok || code != uint64(codec.RequestRejected) {
		t.Errorf("a request after GOAWAY ended with %#x", code)
	}
	held.let <- okResponse
	st.answer()
	if st.status != 200 {
		t.Errorf("the request under way got %d", st.status)
	}
	if code := c.endedBy(); code != uint64(codec.NoError) {
		t.Errorf("the connection ended with %#x", code)
	}
	if err := b.drained(); err != nil || !strings.Contains(b.logged.String(), "exchanges_cut=0") {
		t.Errorf("ended with %v\n%s", err, b.logged.String())
	}
}

// expectNoMoreH3 checks that clients that come to an address now are told at once that they are not
// let in.
func (b *bed) expectNoMoreH3(address string) {
	b.t.Helper()
	q, err := quic.DialAddr(context.Background(), address, b.tls(), nil)
	if err == nil {
		q.CloseWithError(0, "")
	}
	e, is := errors.AsType[*quic.TransportError](err)
	if !is || e.ErrorCode != quic.ConnectionRefused {
		b.t.Errorf("a client that comes late gets %v", err)
	}
}

// A gateway that drains refuses clients of HTTP/3 for as long as it lives, also where it has none.
func TestADrainRefusesClientsOfHTTP3ToItsEnd(t *testing.T) {
	t.Parallel()
	held := newGate(t)
	s := newService(t, held.script)
	b := serveH3(t, oneUpstream(s.address()))
	st := b.h2TLS(b.ca).ask("GET", "/")
	held.next(t)
	address := b.address(0)
	b.stop()
	eventually(t, "clients of HTTP/3 are refused", func() bool {
		q, err := quic.DialAddr(context.Background(), address, b.tls(), nil)
		if err == nil {
			q.CloseWithError(0, "")
		}
		return err != nil
	})
	b.expectNoMoreH3(address)
	held.let <- okResponse
	st.expect(200, "ok")
	if err := b.drained(); err != nil {
		t.Error(err)
	}
}

// controlFrame is a frame of the gateway's control stream.
type controlFrame struct {
	kind codec.FrameType
	id   uint64
}

// controlFrames reads the gateway's control stream.
func controlFrames(c *h3) <-chan controlFrame {
	frames := make(chan controlFrame, 16)
	s, err := c.AcceptUniStream(c.Context())
	if err != nil {
		close(frames)
		return frames
	}
	go func() {
		defer close(frames)
		r := quicvarint.NewReader(s)
		quicvarint.Read(r)
		for {
			kind, err := quicvarint.Read(r)
			n, err2 := quicvarint.Read(r)
			payload := make([]byte, n)
			if _, err3 := io.ReadFull(r, payload); err != nil || err2 != nil || err3 != nil {
				return
			}
			f := controlFrame{kind: codec.FrameType(kind)}
			if f.kind == codec.GoAway {
				f.id, _, _ = quicvarint.Parse(payload)
			}
			frames <- f
		}
	}()
	return frames
}

func TestTheLimitOfADrainCutsConnectionsOfHTTP3(t *testing.T) {
	t.Parallel()
	held := newGate(t)
	s := newService(t, held.script)
	b := serveH3(t, "drain: {timeout: 100ms}\n"+oneUpstream(s.address()))
	c := b.h3()
	st := c.get("/")
	held.next(t)
	b.end()
	if err := st.read(); err == nil {
		t.Errorf("a request that was cut got %d", st.status)
	}
	if !strings.Contains(b.logged.String(), "exchanges_cut=1") {
		t.Error("the log does not say that one was cut")
	}
}

// On a crowded machine the time for which an idle connection stays open behind its GOAWAY may be over
// before that is sent. So one of several has to get it.
func TestMaxRequestsAndIdleTimeEndAConnectionOfHTTP3(t *testing.T) {
	t.Parallel()
	for limits, tries := range map[string]int{"max_requests: 2": 1, "idle_timeout: 1s": 5} {
		s := newService(t, answering(simple))
		b := limitedH3(t, limits, oneUpstream(s.address()))
		goaways := 0
		for try := 0; goaways == 0 && try < tries; try++ {
			c := b.h3()
			said := controlFrames(c)
			if strings.HasPrefix(limits, "max") {
				c.get("/").answer()
				c.get("/").answer()
			} else if err := c.get("/").read(); err != nil {
				// On a crowded machine the connection may have been idle for long enough before.
				if code, ok := errH3(err); !ok || code != uint64(codec.RequestRejected) {
					t.Errorf("%s: %v", limits, err)
				}
			}
			for f := range said {
				if f.kind == codec.GoAway {
					goaways++
				}
			}
			if code := c.endedBy(); code != uint64(codec.NoError) {
				t.Errorf("%s: ended with %#x", limits, code)
			}
		}
		if goaways == 0 {
			t.Errorf("%s: no connection was told that it ends", limits)
		}
	}
}

// A reload keeps connections; one that drops HTTP/3 ends them in good order, and one that takes it
// up again does so at once, beside those that still end.
func TestReloadsOfHTTP3(t *testing.T) {
	t.Parallel()
	held := newGate(t)
	s := newService(t, held.script)
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	port := freeAddress(t)
	plain := strings.Replace(oneUpstream(s.address()), "127.0.0.1:0", port, 1)
	with := func(more string) string {
		return strings.Replace(plain, `"`+port+`"`, fmt.Sprintf(`"%s"%s, tls: {certificates: [{cert: %q, key: %q}]}`,
			port, more, cert.cert, cert.key), 1)
	}
	b := &bed{serve(t, with(", http3: true")), ca}
	c := b.h3()
	under := c.get("/")
	held.next(t)
	if err := b.reload(with(", http3: true, limits: {max_requests: 100}")); err != nil {
		t.Fatal(err)
	}
	more := c.get("/more")
	held.next(t)
	held.let <- okResponse
	held.let <- okResponse
	under.answer()
	more.answer()

	// Dropped: what is under way is finished, and nobody new is let in.
	last := c.get("/last")
	held.next(t)
	if err := b.reload(with("")); err != nil {
		t.Fatal(err)
	}
	b.expectNoMoreH3(port)
	// Taken up again, while the old connection is there.
	if err := b.reload(with(", http3: true")); err != nil {
		t.Fatal(err)
	}
	again := b.h3()
	first := again.get("/first")
	held.next(t)
	held.let <- okResponse
	held.let <- okResponse
	first.answer()
	last.answer()
	if code := c.endedBy(); code != uint64(codec.NoError) {
		t.Errorf("the old connection ended with %#x", code)
	}
	st := again.get("/")
	held.next(t)
	held.let <- okResponse
	st.answer()
}

// Connections that a reload ends would last as long as their WebSockets, so these are closed, and those
// that were being opened.
func TestAReloadThatRemovesHTTP3ClosesItsWebSockets(t *testing.T) {
	t.Parallel()
	asked, let := make(chan bool), make(chan bool)
	s := newService(t, func(c *serviceConn, _ int) {
		if c.head() == "" {
			return
		}
		asked <- true
		<-let
		c.write(wasSwitched)
		c.drain()
	})
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	plain := strings.Replace(oneUpstream(s.address()), "match: /", "match: /, websocket: {close_grace: 10ms}", 1)
	b := &bed{serve(t, withH3(plain, cert)), ca}
	c := b.h3()
	open := func() *h3stream {
		fields := append([]string{":protocol", "websocket"}, c.request("CONNECT", "/")...)
		st := c.stream().say(false, frame(codec.Headers, section(fields...)))
		<-asked
		return st
	}
	first := open()
	let <- true
	if err := first.frame(); err != nil || first.status != 200 {
		t.Fatalf("%d, %v", first.status, err)
	}
	late := open()
	if err := b.reload(strings.Replace(withH3(plain, cert), "http3: true, ", "", 1)); err != nil {
		t.Fatal(err)
	}
	let <- true
	for _, st := range []*h3stream{first, late} {
		st.answer()
		if code := "\x03\xe9"; len(st.body) < 4 || st.body[0] != 0x88 || string(st.body[2:4]) != code {
			t.Errorf("got %d %q", st.status, st.body)
		}
	}
	if code := c.endedBy(); code != uint64(codec.NoError) {
		t.Errorf("the connection ended with %#x", code)
	}
}

// A client that was in the middle of its handshake when a reload removed HTTP/3 is told like the others.
func TestAReloadThatRemovesHTTP3EndsConnectionsThatWereBeingMade(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	plain := strings.Replace(oneUpstream(untouched(t).address()), `"127.0.0.1:0"`,
		`"127.0.0.1:0", limits: {idle_timeout: 10m}`, 1)
	b := &bed{serve(t, withH3(plain, cert)), ca}
	at := dialAddr(t, b.address(0))
	conn := &unhearing{udpOn(t, "127.0.0.1"), make(chan struct{})}
	tr := &quic.Transport{Conn: conn}
	t.Cleanup(func() { tr.Close() })
	made := make(chan *quic.Conn, 1)
	go func() {
		q, err := tr.Dial(context.Background(), at, b.tls(), nil)
		if err != nil {
			t.Errorf("dial: %v", err)
		}
		made <- q
	}()
	eventually(t, "its handshake is under way", func() bool { return b.quic.handshakes() == 1 })
	if err := b.reload(strings.Replace(withH3(plain, cert), "http3: true, ", "", 1)); err != nil {
		t.Error(err)
	}
	close(conn.hear)
	q := <-made
	if q == nil {
		return
	}
	if code := (&h3{Conn: q, t: t}).endedBy(); code != uint64(codec.NoError) {
		t.Errorf("the connection ended with %#x", code)
	}
}

// A new certificate is shown to clients of HTTP/3 that come after a reload.
func TestACertificateOfHTTP3IsReloaded(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	yaml := withH3(oneUpstream(s.address()), cert)
	b := &bed{serve(t, yaml), ca}
	before := b.h3().ConnectionState().TLS.PeerCertificates[0].SerialNumber
	ca.issueTo(t, cert, "a")
	if err := b.reload(yaml); err != nil {
		t.Fatal(err)
	}
	if after := b.h3().ConnectionState().TLS.PeerCertificates[0].SerialNumber; after.Cmp(before) == 0 {
		t.Error("the old certificate is still shown")
	}
}

// unhearing hears nothing until it is let.
type unhearing struct {
	net.PacketConn
	hear chan struct{}
}

func (d *unhearing) ReadFrom(p []byte) (int, net.Addr, error) {
	<-d.hear
	return d.PacketConn.ReadFrom(p)
}

// earlyBed is a gateway, and a client that has been there and comes again.
func earlyBed(t *testing.T, yaml string) (*bed, *tls.Config) {
	b := serveH3(t, yaml)
	cfg := b.tls()
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	c := b.dialH3(cfg, nil)
	c.greet()
	c.get("/").answer()
	eventually(t, "the client has a ticket", func() bool {
		_, ok := cfg.ClientSessionCache.Get("a")
		return ok
	})
	c.CloseWithError(0x100, "")
	return b, cfg
}

// resume connects a client that has been there, and hears nothing of the gateway yet.
func (b *bed) resume(cfg *tls.Config) (c *h3, hear func()) {
	b.t.Helper()
	conn := &unhearing{udpOn(b.t, "127.0.0.1"), make(chan struct{})}
	tr := &quic.Transport{Conn: conn}
	hear = sync.OnceFunc(func() { close(conn.hear) })
	q, err := tr.DialEarly(context.Background(), dialAddr(b.t, b.address(0)), cfg, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		hear()
		q.CloseWithError(0x100, "")
		tr.Close()
	})
	c = &h3{Conn: q, t: b.t}
	c.greet()
	return c, hear
}

// A request that may have been recorded goes on before the handshake is complete where it changes
// nothing, and says so; any other waits (RFC 8470).
func TestEarlyDataIsServedForSafeMethodsAlone(t *testing.T) {
	t.Parallel()
	saw := make(chan string, 10)
	s := newService(t, replying(func(r *http.Request, _ string) string {
		saw <- r.Method + " " + strings.Join(r.Header["Early-Data"], ",")
		return simple
	}))
	b, cfg := earlyBed(t, strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`, `"127.0.0.1:0", early_data: true`, 1))
	<-saw
	c, hear := b.resume(cfg)
	post := c.stream().say(true, frame(codec.Headers, section(c.request("POST", "/")...)))
	get := c.get("/", "early-data", "1")
	if got := <-saw; got != "GET 1" {
		t.Errorf("before the handshake was complete the service saw %q", got)
	}
	hear()
	if got := <-saw; got != "POST " {
		t.Errorf("afterwards it saw %q", got)
	}
	get.answer()
	post.answer()
	if !c.ConnectionState().Used0RTT {
		t.Error("the client's early data was not taken")
	}
	if n := b.listeners[b.config.Listeners[0].Address].quic.Stats().Early; n != 1 {
		t.Errorf("%d connections with early data", n)
	}
	// A stranger's own word counts for nothing.
	c.get("/", "early-data", "1").answer()
	if got := <-saw; got != "GET " {
		t.Errorf("a stranger's Early-Data went on: %q", got)
	}
}

func TestEarlyDataIsNotTakenByDefault(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(echo))
	b, cfg := earlyBed(t, oneUpstream(s.address()))
	c := b.dialH3(cfg, nil)
	c.greet()
	c.get("/").answer()
	if state := c.ConnectionState(); !state.TLS.DidResume || state.Used0RTT {
		t.Errorf("resumed %v, with early data %v", state.TLS.DidResume, state.Used0RTT)
	}
}

// An upgrade takes the UDP socket along. The old process keeps the connections that it has.
func TestAnUpgradeKeepsTheConnectionsOfHTTP3(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	address := freeAddress(t)
	yaml := strings.Replace(withH3(oneUpstream(s.address()), cert), "127.0.0.1:0", address, 1) +
		"loops: 2\ndrain: {timeout: 1m}\n"
	c := startChild(t, yaml)
	eventually(t, "the gateway serves", func() bool { return strings.Contains(c.logged.String(), "msg=serving") })
	dial := func() *h3 {
		q, err := quic.DialAddr(context.Background(), address, &tls.Config{RootCAs: ca.pool, ServerName: "a",
			NextProtos: []string{"h3"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.CloseWithError(0x100, "") })
		client := &h3{Conn: q, t: t}
		client.greet()
		return client
	}
	old := dial()
	under := old.get("/")
	held.next(t)
	c.signal(syscall.SIGUSR2)
	eventually(t, "the old process drains, and the new one serves", func() bool {
		return strings.Contains(c.logged.String(), "msg=draining") && strings.Count(c.logged.String(),
			"msg=serving") == 2
	})
	fresh := dial()
	first := fresh.get("/first")
	held.next(t)
	// The old connection has gone on meanwhile, through the new process.
	held.let <- okResponse
	held.let <- okResponse
	first.answer()
	under.answer()
	if under.status != 200 || first.status != 200 {
		t.Errorf("the old connection's request got %d, the new one's %d", under.status, first.status)
	}
	if code := old.endedBy(); code != uint64(codec.NoError) {
		t.Errorf("the old connection ended with %#x", code)
	}
	eventually(t, "the old process ends", c.over)
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the old process ended with %d", code)
	}
	// The old process may have read the packet that began the fresh connection just before it
	// handed the socket over, and then ends that one too.
	again := dial().get("/again")
	held.next(t)
	held.let <- okResponse
	again.answer()
}

// Nothing is left of HTTP/3 in a process whose gateway has ended, whatever its clients were at.
func TestNothingOfHTTP3StaysBehind(t *testing.T) {
	s := newService(t, func(c *serviceConn, n int) {
		for c.head() != "" {
			if n%2 == 0 {
				c.drain()
				return
			}
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n")
			io.CopyN(c, zeros{}, 5_000_000)
		}
	})
	files := descriptorsOpen(t)
	b := serveH3(t, "drain: {timeout: 50ms}\n"+oneUpstream(s.address()))
	for range 3 {
		c := b.h3()
		for range 5 {
			c.get("/")
			c.stream().say(false, frame(codec.Headers, section(c.request("POST", "/")...)), frame(codec.Data, "x"))
			c.stream().say(false, "\x01")
		}
		defer c.CloseWithError(0x100, "")
	}
	eventually(t, "requests are under way", func() bool { return b.snapshot().Active > 5 })
	b.end()
	for _, what := range []string{"proxy.readHTTP3", "(*http3Stream).write", "proxy.ServeHTTP3", "quicio.(*Endpoint)"} {
		eventually(t, "no goroutine is in "+what, func() bool { return goroutines(what) == 0 })
	}
	eventually(t, "no descriptor of the gateway's is left", func() bool { return descriptorsOpen(t) <= files+3+20 })
}

func descriptorsOpen(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}
