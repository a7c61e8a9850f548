package gateway

import (
	"io"
	"testing"
)

func TestAListenerThatIsRemovedEndsItsConnectionsWithWhatIsUnderWay(t *testing.T) {
	let := make(chan struct{})
	asked := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		close(asked)
		<-let
		io.WriteString(c, okResponse)
		c.head()
	})
	config := func(second string) string {
		return `
listeners: [{address: "127.0.0.1:0"}` + second + `]
upstreams: {s: {targets: ["` + s.address() + `"]}}
routes: [{match: /, upstream: s}]
`
	}
	g := serve(t, config(`, {address: "127.0.0.2:0"}`))
	p := dialRaw(t, g.address(1))
	p.send(plainGet)
	<-asked
	if err := g.reload(config("")); err != nil {
		t.Fatal(err)
	}
	close(let)
	r, body := p.response("GET")
	if r.StatusCode != 200 || body != "ok" || !r.Close {
		t.Errorf("got %d %q, close %v, want the answer and the connection's end", r.StatusCode, body, r.Close)
	}
	if rest := p.rest(); rest != "" {
		t.Errorf("the connection went on with %q", rest)
	}
}
