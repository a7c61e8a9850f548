package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"plimsoll/internal/config"
	"plimsoll/internal/upstream"
)

func TestNothingFailsWhileTheConfigurationIsReloadedUnderLoad(t *testing.T) {
	s := newService(t, answering(okResponse))
	logs := t.TempDir()
	version := func(n int) string {
		return fmt.Sprintf(`
loops: 2
listeners: [{address: "127.0.0.1:0", limits: {max_connections: %d}}]
upstreams:
  s: {targets: [%q], balance: %s}
  other%d: {targets: [%q], health: {active: {path: /, interval: 100ms}}}
routes:
  - {match: /, upstream: s, response_headers: {set: {X-Version: "%d"}}}
  - {match: /other%d, upstream: other%d}
access_log: {path: %q, format: %s}
`, 10000+n, s.address(), []string{"p2c", "round_robin"}[n%2], n, s.address(), n, n, n, filepath.Join(logs, fmt.Sprint(n%3)), []string{"json", "combined"}[n/2%2])
	}
	g := serve(t, version(0))
	l := startLoad(t, g.address(0), 3)
	for n := range 50 {
		if err := g.reload(version(n + 1)); err != nil {
			t.Fatal(err)
		}
		l.more(2)
	}
	if failed := l.end(); failed != nil {
		t.Errorf("%d clients met a failure while the configuration was reloaded: %s", len(failed), strings.Join(failed, "; "))
	}
	if n := g.snapshot().Reloads; n != 50 {
		t.Errorf("%d reloads were counted, want 50", n)
	}
}

func TestABadConfigurationIsRefusedWithPositionsAndTheOldOneGoesOn(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serve(t, oneUpstream(s.address()))
	p := g.dial()
	for _, c := range []struct{ yaml, want string }{
		{"listeners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, upstream: nobody}]\n", "plimsoll.yaml:2:31: "},
		{"listeners: [{address: \"127.0.0.1:0\"}]\nroutes:\n  - {match: /a/b, respond: {}}\n  - " +
			"{match: /a/b, respond: {}}\n", "plimsoll.yaml:4:5: routes[1].match: "},
		{"listeners: [", "plimsoll.yaml"},
	} {
		err := g.reload(c.yaml)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a bad configuration: %v\nwant %q", err, c.want)
		}
		p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, _ := p.response("GET"); r.StatusCode != 200 {
			t.Errorf("after a refused configuration: %d", r.StatusCode)
		}
	}
	if n := g.snapshot().ReloadFailures; n != 3 {
		t.Errorf("%d failed reloads were counted, want 3", n)
	}
	if !strings.Contains(g.logged.String(), "refused") {
		t.Error("the refusals were not logged")
	}
}

func TestConnectionsToAnUnchangedUpstreamCarryOver(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serve(t, oneUpstream(s.address()))
	p := g.dial()
	for n := range 4 {
		p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, _ := p.response("GET"); r.StatusCode != 200 {
			t.Fatalf("got %d", r.StatusCode)
		}
		yaml := strings.Replace(oneUpstream(s.address()), "upstream: s}",
			fmt.Sprintf("upstream: s, request_headers: {set: {X-N: \"%d\"}}}", n), 1)
		if err := g.reload(yaml); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.connections(); n != 1 {
		t.Errorf("the service was opened %d connections over the reloads, want 1", n)
	}
	if saw := s.saw(); !strings.Contains(saw, "X-N: 2") {
		t.Errorf("the new configurations had no effect; the service saw\n%s", saw)
	}
}

func TestWhatAnOperatorSaidOfATargetOutlivesAChangeOfItsUpstream(t *testing.T) {
	a, b := newService(t, answering(okResponse)), newService(t, answering(okResponse))
	yaml := `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["` + a.address() + `", "` + b.address() + `"], slow_start: %s}}
routes: [{match: /, upstream: s}]
`
	g := serve(t, fmt.Sprintf(yaml, "0s"))
	if err := g.upstreams["s"].Drain(a.address()); err != nil {
		t.Fatal(err)
	}
	if err := g.reload(fmt.Sprintf(yaml, "1ms")); err != nil {
		t.Fatal(err)
	}
	p := g.dial()
	for range 20 {
		p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		p.response("GET")
	}
	if a.saw() != "" {
		t.Error("a target that was taken out got requests after the reload")
	}
}

const withoutRoutes = `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /new, respond: {body: new}}]
`

func TestAnExchangeUnderWayFinishesOnTheOldConfiguration(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	g := serve(t, oneUpstream(s.address()))
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	held.next(t)
	if err := g.reload(withoutRoutes); err != nil {
		t.Fatal(err)
	}
	held.let <- okResponse
	if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" || r.Close {
		t.Errorf("the exchange under way: %d %q, close %v", r.StatusCode, body, r.Close)
	}
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := p.response("GET"); r.StatusCode != 404 {
		t.Errorf("the next one on the same connection: %d, want 404", r.StatusCode)
	}
	eventually(t, "the removed upstream's goroutines end", func() bool { return goroutines("upstream.(*Upstream)") == 0 })
}

func TestARetryUnderWayFinishesOnTheOldConfiguration(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	g := serve(t, oneUpstream(s.address()))
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	held.next(t)
	if err := g.reload(withoutRoutes); err != nil {
		t.Fatal(err)
	}
	held.let <- ""
	held.next(t)
	held.let <- okResponse
	if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
		t.Errorf("the retried exchange: %d %q", r.StatusCode, body)
	}
}

func TestAnExchangeThatWaitsForAConnectionFinishesOnTheOldConfiguration(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	g := serve(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"], pool: {max_connections: 1}}}
routes: [{match: /, upstream: s}]
`)
	first, second := g.dial(), g.dial()
	first.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
	held.next(t)
	second.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
	u := g.upstreams["s"]
	eventually(t, "the second request waits", func() bool {
		return g.loads([]*upstream.Upstream{u})[0].Waiting == 1
	})
	if err := g.reload(strings.Replace(withoutRoutes, "listeners", "loops: 1\nlisteners", 1)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*peer{first, second} {
		held.let <- okResponse
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Errorf("got %d %q", r.StatusCode, body)
		}
	}
}

// echoing is a service that switches protocols and then sends everything back.
func echoing(c *serviceConn, _ int) {
	if c.head() == "" {
		return
	}
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
	io.Copy(c, c.R)
}

// openTunnel upgrades a connection to an echo service.
func openTunnel(g *instance) *peer {
	g.t.Helper()
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		b, err := p.r.ReadByte()
		if err != nil {
			g.t.Fatalf("the upgrade: %v after %q", err, head.String())
		}
		head.WriteByte(b)
	}
	if !strings.HasPrefix(head.String(), "HTTP/1.1 101 ") {
		g.t.Fatalf("the upgrade was answered %q", head.String())
	}
	return p
}

// echoes says whether a tunnel carries bytes both ways.
func (p *peer) echoes(text string) bool {
	p.send(text)
	got := make([]byte, len(text))
	_, err := io.ReadFull(p.r, got)
	return err == nil && string(got) == text
}

func TestAWebSocketOfARemovedUpstreamGoesOnOverManyReloads(t *testing.T) {
	s := newService(t, echoing)
	g := serve(t, oneUpstream(s.address()))
	p := openTunnel(g)
	for n := range 5 {
		if err := g.reload(strings.Replace(withoutRoutes, "/new", fmt.Sprintf("/new%d", n), 1)); err != nil {
			t.Fatal(err)
		}
		if !p.echoes(fmt.Sprintf("hello %d", n)) {
			t.Fatalf("the tunnel broke with reload %d", n+1)
		}
	}
	if goroutines("upstream.(*Upstream)") == 0 {
		t.Error("the upstream ended under its tunnel")
	}
	p.Close()
	eventually(t, "the upstream ends with its last tunnel", func() bool { return goroutines("upstream.(*Upstream)") == 0 })
}

func TestReloadsLeaveNoGoroutinesBehind(t *testing.T) {
	s := newService(t, answering(okResponse))
	cert := newAuthority(t).issue(t, "a.example")
	yaml := func(n int) string {
		return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0", tls: {certificates: [{cert: %q, key: %q}], max_handshakes: %d}}]
upstreams: {s: {targets: [%q], slow_start: %dms, health: {active: {path: /}}}}
routes: [{match: /, upstream: s}]
access_log: {path: %q}
`, cert.cert, cert.key, 10+n, s.address(), n, filepath.Join(t.TempDir(), fmt.Sprint(n)))
	}
	g := serve(t, yaml(0))
	before := runtime.NumGoroutine()
	for n := range 20 {
		if err := g.reload(yaml(n + 1)); err != nil {
			t.Fatal(err)
		}
	}
	// Some that serve the whole gateway may not have begun when they were counted; a leak would be
	// one for each reload.
	eventually(t, "twenty reloads leave fewer goroutines than reloads behind", func() bool { return runtime.NumGoroutine() < before+10 })
}

func TestListenersComeAndGoWithTheConfiguration(t *testing.T) {
	kept, added := "127.0.0.1:0", freeAddress(t)
	yaml := func(addresses ...string) string {
		text := "routes: [{match: /, respond: {body: ok}}]\nlisteners:\n"
		for _, a := range addresses {
			text += "  - address: \"" + a + "\"\n"
		}
		return text
	}
	g := serve(t, yaml(kept))
	if err := g.reload(yaml(kept, added)); err != nil {
		t.Fatal(err)
	}
	p := dialRaw(t, added)
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := p.response("GET"); r.StatusCode != 200 || r.Close {
		t.Fatalf("the added listener: %d, close %v", r.StatusCode, r.Close)
	}
	if err := g.reload(yaml(kept)); err != nil {
		t.Fatal(err)
	}
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := p.response("GET"); r.StatusCode != 200 || !r.Close {
		t.Errorf("a connection of the removed listener: %d, close %v; want 200 and the end", r.StatusCode, r.Close)
	}
	if c, err := net.Dial("tcp", added); err == nil {
		c.Close()
		t.Error("the removed listener still accepts")
	}
	if err := g.reload(yaml(kept, added)); err != nil {
		t.Fatalf("the removed listener cannot come back: %v", err)
	}
}

func TestAListenersLimitsAndTrustChangeUnderItsConnections(t *testing.T) {
	s := newService(t, answering(okResponse))
	yaml := func(listener string) string {
		return strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`, `"127.0.0.1:0"`+listener, 1)
	}
	g := serve(t, yaml(""))
	p := g.dial()
	get := "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"
	p.send(get)
	p.response("GET")
	if strings.Contains(s.saw(), "192.0.2.7") {
		t.Error("a peer that is not listed was believed")
	}
	if err := g.reload(yaml(", trusted_proxies: [127.0.0.1], limits: {max_requests: 3}")); err != nil {
		t.Fatal(err)
	}
	p.send(get)
	if r, _ := p.response("GET"); r.Close || !strings.Contains(s.saw(), "192.0.2.7") {
		t.Errorf("the new trust had no effect, or the connection ends early (%v)", r.Close)
	}
	p.send(get)
	if r, _ := p.response("GET"); !r.Close {
		t.Error("the new limit of requests had no effect")
	}
}

func TestAReloadWithAPortThatIsTakenIsRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	g := serve(t, "listeners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, respond: {body: ok}}]\n")
	err = g.reload("listeners: [{address: \"127.0.0.1:0\"}, {address: \"" + taken.Addr().String() +
		"\"}]\nroutes: [{match: /, respond: {body: new}}]\n")
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "taken") {
		t.Errorf("got %v", err)
	}
	if got := g.exchange("GET / HTTP/1.0\r\n\r\n"); !strings.HasSuffix(got, "ok") {
		t.Errorf("after the refusal: %q", got)
	}
}

func TestAReloadSaysWhatItCannotChange(t *testing.T) {
	yaml := "loops: %d\nlisteners: [{address: \"127.0.0.1:0\", backlog: %d}]\nroutes: []\n"
	g := serve(t, fmt.Sprintf(yaml, 1, 100))
	if err := g.reload(fmt.Sprintf(yaml, 2, 200)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"number of loops changes with the next start", "backlog changes with the next start"} {
		if !strings.Contains(g.logged.String(), want) {
			t.Errorf("not said: %s", want)
		}
	}
}

func TestAnotherGatewayOnTheSamePortIsFound(t *testing.T) {
	g := serve(t, "listeners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, respond: {body: ok}}]\n")
	path := filepath.Join(t.TempDir(), "second.yaml")
	writeFile(t, path, "listeners: [{address: \""+g.address(0)+"\"}]\nroutes: [{match: /, respond: {body: second}}]\n")
	_, err := start(Options{ConfigPath: path, Logger: g.log})
	if err == nil || !strings.Contains(err.Error(), "taken") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a second gateway on the same port: %v; want one line that says so", err)
	}
}

func TestAnAddressCanWidenWithoutLosingItsPort(t *testing.T) {
	_, port, _ := net.SplitHostPort(freeAddress(t))
	yaml := "listeners: [{address: \"%s:%s\"}]\nroutes: [{match: /, respond: {body: ok}}]\n"
	g := serve(t, fmt.Sprintf(yaml, "127.0.0.1", port))
	if err := g.reload(fmt.Sprintf(yaml, "0.0.0.0", port)); err != nil {
		t.Fatal(err)
	}
	if got := g.exchange("GET / HTTP/1.0\r\n\r\n"); !strings.HasSuffix(got, "ok") {
		t.Errorf("got %q", got)
	}
}

func TestCheckSaysEverythingThatIsWrongWithPositions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	writeFile(t, path, `listeners:
  - address: "127.0.0.1:0"
    limits: {request_line: 64KB, header_bytes: 256KB}
upstreams:
  s: {targets: ["127.0.0.1:1"]}
routes:
  - {match: /a, respond: {}}
  - {match: /a, upstream: s}
`)
	_, err := Check(path)
	errs, ok := err.(config.Errors)
	if !ok || len(errs) != 2 {
		t.Fatalf("got %v, want two errors with positions", err)
	}
	if e := errs[0]; e.Line != 2 || e.Column != 5 || !strings.Contains(e.Error(), "listeners[0]: limits: request_line and header_bytes") {
		t.Errorf("the listener's: %v", e)
	}
	if e := errs[1]; e.Line != 8 || e.Column != 5 || !strings.Contains(e.Error(), path+":7:5") {
		t.Errorf("the conflict's: %v; it must name both places", e)
	}
	good := filepath.Join(t.TempDir(), "good.yaml")
	writeFile(t, good, oneUpstream("127.0.0.1:1"))
	if cfg, err := Check(good); err != nil || len(cfg.Routes) != 1 {
		t.Errorf("a good configuration: %v", err)
	}
	if _, err := Check(filepath.Join(t.TempDir(), "absent.yaml")); err == nil {
		t.Error("a file that is not there is said to be right")
	}
}

// A load balancer that asks just then would take the gateway out.
func TestAGatewayIsReadyWhileAListenerGoesAway(t *testing.T) {
	config := func(more string) string {
		return "loops: 2\nlisteners: [{address: \"127.0.0.1:0\"}" + more + "]\nroutes: [{match: /, respond: {}}]\n"
	}
	other := fmt.Sprintf(", {address: %q}", freeAddress(t))
	g := serve(t, config(other))
	over, said := make(chan bool), make(chan error)
	go func() {
		var unready error
		for {
			select {
			case <-over:
				said <- unready
				return
			default:
				unready = errors.Join(unready, g.Ready())
			}
		}
	}()
	for range 20 {
		for _, more := range []string{"", other} {
			if err := g.reload(config(more)); err != nil {
				t.Error(err)
			}
		}
	}
	close(over)
	if err := <-said; err != nil {
		t.Errorf("during reloads: %v", err)
	}
}

// A name keeps its series for ever, and there are not so many.
func TestWhatARefusedConfigurationNamesHasNoSeries(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	g := serve(t, listenOnly)
	err = g.reload(fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}, {address: %q}]
upstreams: {stillborn: {targets: ["127.0.0.1:1"]}}
routes: [{match: /, upstream: stillborn, name: stillborn}]
`, taken.Addr()))
	if err == nil {
		t.Fatal("it listens on an address that another program has")
	}
	s := g.snapshot()
	for _, r := range s.Routes {
		if r.Name == "stillborn" {
			t.Error("its route has series")
		}
	}
	for _, u := range s.Upstreams {
		if u.Name == "stillborn" {
			t.Error("its upstream has series")
		}
	}
}
