package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const adminOnly = `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /, respond: {}}]
admin: {address: "127.0.0.1:0"}
`

// admitted is a gateway whose admin address answers every request but those for /hold, which wait
// until the test lets them go.
type admitted struct {
	*instance
	address string
	held    chan string   // the path of each request that waits
	let     chan struct{} // one for each that may go on
}

func serveAdmin(t *testing.T, headTime time.Duration) *admitted {
	t.Helper()
	a := &admitted{held: make(chan string, 100), let: make(chan struct{}, 100)}
	o := Options{adminHeadTime: headTime, Admin: func(g *Gateway, d *AdminAddress) http.Handler {
		a.address = d.Bound()
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/hold"):
				a.held <- r.URL.Path
				<-a.let
			case r.URL.Path == "/metrics":
				g.Metrics().ServeHTTP(w, r)
				return
			}
			io.WriteString(w, "ok")
		})
	}}
	a.instance = serveWith(t, adminOnly, o)
	return a
}

// from dials the admin address from a loopback address. The connection is closed with the test.
func (a *admitted) from(client string) *peer {
	a.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}, Timeout: patience}
	c, err := d.Dial("tcp", a.address)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &peer{Conn: c, t: a.t, r: bufio.NewReader(c)}
}

// probe sends a request as a health probe does, on a connection of its own.
func (a *admitted) probe(client, path string) {
	a.t.Helper()
	p := a.from(client)
	defer p.Close()
	p.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
		a.t.Errorf("%s from %s got %d %q", path, client, r.StatusCode, body)
	}
}

// closed is how many connections were closed for a reason, by the metrics.
func (a *admitted) closed(reason string) int {
	a.t.Helper()
	p := a.from("127.0.0.1")
	defer p.Close()
	p.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	_, text := p.response("GET")
	m := regexp.MustCompile(`plimsoll_admin_connections_closed_total\{reason="` + reason + `"\} (\d+)`).FindStringSubmatch(text)
	if m == nil {
		a.t.Fatalf("no count of connections that were closed because of %s in\n%s", reason, text)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// gone says whether the other side has closed a connection on which it sends nothing.
func (p *peer) gone() bool {
	p.SetReadDeadline(time.Now().Add(patience))
	_, err := p.r.ReadByte()
	return err == io.EOF || errors.Is(err, syscall.ECONNRESET)
}

// Heads may take an hour here: a probe gets through because somebody silent goes, not because time
// does.
func TestHazardSilentAdminConnectionsDoNotShutProbesOut(t *testing.T) {
	for _, c := range []struct {
		name  string
		count int
		first string // what each sends
	}{
		{"64 silent", 64, ""}, {"1000 silent", 1000, ""}, {"64 with a byte", 64, "G"},
		{"64 with a head that does not end", 64, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "},
		{"64 idle", 64, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
		{"64 whose body does not come", 64, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := serveAdmin(t, time.Hour)
			for range c.count {
				a.from("127.0.0.1").send(c.first)
			}
			for range 20 {
				a.probe("127.0.0.1", "/healthz")
				a.probe("127.0.0.1", "/readyz")
			}
		})
	}
}

func TestTheOldestSilentAdminConnectionOfTheClientGoesFirst(t *testing.T) {
	a := serveAdmin(t, time.Hour)
	var all []*peer
	for range adminPerAddress {
		all = append(all, a.from("127.0.0.1"))
	}
	a.from("127.0.0.1")
	if !all[0].gone() {
		t.Error("the oldest connection is still open")
	}
	all[1].send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if r, _ := all[1].response("GET"); r.StatusCode != 200 {
		t.Errorf("the second oldest got %d", r.StatusCode)
	}
	a.from("127.0.0.1")
	if !all[2].gone() {
		t.Error("one that is idle after a response went before one that is silent")
	}
	a.from("127.0.0.1").send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if n := a.closed("silent"); n < 3 {
		t.Errorf("%d were counted as closed because they were silent, want at least 3", n)
	}
}

func TestTheAdminAddressHoldsABoundedNumberOfConnectionsOverAllClients(t *testing.T) {
	a := serveAdmin(t, time.Hour)
	var all []*peer
	for n := range adminConnections {
		all = append(all, a.from(fmt.Sprintf("127.0.1.%d", n/8)))
	}
	a.probe("127.0.2.1", "/healthz")
	for n := range 8 {
		a.probe(fmt.Sprintf("127.0.1.%d", n), "/healthz")
	}
	if !all[0].gone() {
		t.Error("the oldest connection is still open")
	}
	if n := a.closed("silent"); n < 1 {
		t.Errorf("%d were counted as closed because they were silent", n)
	}
}

func TestAdminRequestsUnderWayAreNeverCutForNewConnections(t *testing.T) {
	a := serveAdmin(t, time.Hour)
	var held []*peer
	for range adminPerAddress {
		p := a.from("127.0.0.1")
		p.send("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-a.held
		held = append(held, p)
	}
	if !a.from("127.0.0.1").gone() {
		t.Error("a connection above the bound of its address was taken, though none could go")
	}
	a.probe("127.0.0.2", "/healthz")
	for range held { // all before the first is read: which of them goes on first is open
		a.let <- struct{}{}
	}
	for _, p := range held {
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Errorf("a request under way got %d %q", r.StatusCode, body)
		}
	}
	if n := a.closed("address_full"); n != 1 {
		t.Errorf("%d were counted as refused because of the address's bound, want 1", n)
	}
}

func TestASlowHeadOnTheAdminAddressIsEnded(t *testing.T) {
	a := serveAdmin(t, 50*time.Millisecond)
	trickle, silent := a.from("127.0.0.1"), a.from("127.0.0.1")
	cut := make(chan bool)
	go func() {
		defer close(cut)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		_, err := io.WriteString(trickle, "GET / HTTP/1.1\r\nX: ")
		for err == nil {
			<-tick.C
			_, err = io.WriteString(trickle, "x")
		}
	}()
	if !silent.gone() {
		t.Error("a connection that says nothing is still open")
	}
	select {
	case <-cut:
	case <-time.After(patience):
		t.Error("a connection that sends a byte now and then is still open")
	}
	if n := a.closed("head_timeout"); n != 2 {
		t.Errorf("%d were counted as closed because their head was late, want 2", n)
	}
}

// Twenty operators' tools at once are more than the bound of one address; none of them must notice.
func TestABurstOfAdminRequestsOfOneAddressIsServed(t *testing.T) {
	a := serveAdmin(t, time.Hour)
	done := make(chan error, 20)
	for range 20 {
		go func() {
			client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			r, err := client.Get("http://" + a.address + "/healthz")
			if err == nil {
				r.Body.Close()
			}
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
