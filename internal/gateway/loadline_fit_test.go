//go:build !race

package gateway

import "testing"

// A fit takes seconds under the race detector, to which the other tests of the estimate show all that
// is done at the same time.
func TestTheLoadLineIsSaneOrSaysWhatIsMissing(t *testing.T) {
	b := newBackend(t, "b")
	g := serveUntimed(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+b.address+`"]}, idle: {targets: ["127.0.0.1:1"]}}
routes: [{name: all, match: /, upstream: s, sla: P2}, {match: /idle, upstream: idle}]
`)
	g.observe(g.snapshot())
	for range 3 {
		g.crowd(4, 100, "/")
		g.observe(g.snapshot())
	}
	g.lookout.estimator.Fit(1)
	s := g.LoadLine()
	if len(s.Instance) != 3 || len(s.Upstreams) != 2 {
		t.Fatalf("%+v", s)
	}
	for _, e := range append(s.Instance, s.Upstreams...) {
		c, h := e.Capacity, e.Headroom
		if (c == nil) != (h == nil) || c == nil && e.Why == "" || c != nil && e.How == "" {
			t.Errorf("%s: neither known nor why not: %+v", e.Name, e)
		}
		if c != nil && !(c.Low > 0 && c.Low <= c.Estimate && c.Estimate <= c.High) ||
			h != nil && !(h.Low >= 0 && h.Low <= h.Estimate && h.High <= 1) {
			t.Errorf("%s: %+v %+v", e.Name, c, h)
		}
	}
	if s.Instance[0].Capacity != nil && (len(s.Routes) == 0 || s.Routes[0].Name != "all" || s.Routes[0].Share != 1) {
		t.Errorf("all requests are of one route, and what routes cost is said to be %+v", s.Routes)
	}
	if idle := s.Upstreams[0]; idle.Name != "idle" || idle.Capacity != nil || idle.Rate != 0 {
		t.Errorf("of an upstream that nothing was sent to: %+v", idle)
	}
	if s.Rate <= 0 || s.Upstreams[1].Rate <= 0 || s.Instance[1].Capacity == nil {
		t.Errorf("400 requests in the last window: %+v", s)
	}
}
