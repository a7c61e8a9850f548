package gateway

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// late accepts nothing until the channel is closed, so that a TLS handshake with it takes as long.
type late struct {
	net.Listener
	until <-chan struct{}
}

func (l late) Accept() (net.Conn, error) {
	<-l.until
	return l.Listener.Accept()
}

// own is the longest time that the gateway says it added itself on the route to the service, and
// the longest whole time.
func (i *instance) own(n uint64) (own, total int64) {
	i.t.Helper()
	eventually(i.t, "the exchanges to be counted", func() bool {
		for _, r := range i.snapshot().Routes {
			if r.Name == "/" && r.Total.Count() == n {
				own, total = r.Gateway.Max(), r.Total.Max()
				return true
			}
		}
		return false
	})
	return own, total
}

// work keeps the gateway busy for a moment and returns how long that was, at least.
func (i *instance) work() time.Duration {
	began := time.Now()
	p := i.dial()
	for range 300 {
		p.request("GET", "/idle")
	}
	return time.Since(began)
}

// A gateway that seems slow because a service is slow to connect to, or has too few connections,
// sends people to look in the wrong place.
func TestWaitingForAConnectionIsNotTheGatewaysOwnTime(t *testing.T) {
	for _, reason := range []string{"pool", "handshake"} {
		t.Run(reason, func(t *testing.T) {
			until := make(chan struct{})
			var b *backend
			more := ", pool: {max_connections: 1}"
			if reason == "pool" {
				b = newBackend(t, "a")
				b.answer(hanging(until))
			} else {
				secure := secured(t)
				b = newBackendAt(t, "a", "tcp", "127.0.0.1:0", func(ln net.Listener) net.Listener { return late{secure(ln), until} })
				more += ", tls: {insecure_skip_verify: true}"
			}
			g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["%s"]%s}}
routes: [{match: /, upstream: s}, {match: /idle, respond: {}}]
`, b.address, more))
			first, second := g.dial(), g.dial()
			first.send(plainGet)
			eventually(t, "the only connection to be used or made", func() bool { return g.target("s", b.address).Connections == 1 })
			second.send(plainGet)
			eventually(t, "the second request to wait", func() bool { return g.waiting("s") == 1 })
			waited := g.work()
			close(until)
			first.response("GET")
			second.response("GET")
			if own, total := g.own(2); own > total-int64(waited) {
				t.Errorf("of %v the gateway counts %v as its own, and %v were spent waiting for "+
					"a connection", time.Duration(total), time.Duration(own), waited)
			}
		})
	}
}
