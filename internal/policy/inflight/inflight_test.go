package inflight_test

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/inflight"
)

// loop is one as far as a policy sees it.
type loop int

func (loop) Now() int64                                                  { return 1 }
func (l loop) LoopID() int                                               { return int(l) }
func (l loop) Backlog() int64                                            { return 0 }
func (loop) Wake(*exchange.Exchange, uint64)                             {}
func (loop) Fetch(*exchange.Exchange, *head.Request, exchange.Sink) bool { return false }

// Resume is never called: nothing is held here.
func (loop) Resume(*exchange.Exchange, uint64, func(*exchange.Exchange) exchange.PolicyVerdict) {}

func request(on loop, client, tenant string) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(on)
	x.Client = netip.MustParseAddr(client)
	if tenant != "" {
		x.Request.Fields.Add([]byte("X-Tenant"), []byte(tenant))
	}
	return x
}

func policy(t testing.TB, o inflight.Options) *inflight.Policy {
	t.Helper()
	o.Env.Loops = 2
	p, err := inflight.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func status(p *inflight.Policy) inflight.Status { return p.Status().(inflight.Status) }

// passes says whether the request is let pass, and checks how it is refused.
func passes(t *testing.T, p *inflight.Policy, x *exchange.Exchange, want int, reason exchange.Reason) {
	t.Helper()
	verdict, after := p.OnRequest(x), x.Response.Fields.Find([]byte("Retry-After"))
	if want == 0 {
		if verdict != exchange.Continue {
			t.Fatalf("it was refused with %d %v", x.Response.Status, x.Reason)
		}
		return
	}
	if verdict != exchange.Answered || x.Response.Status != want || x.Reason != reason {
		t.Fatalf("verdict %d, %d %v, want %d %v", verdict, x.Response.Status, x.Reason, want, reason)
	}
	if after == nil || len(after.Value) != 1 || after.Value[0] < '1' || after.Value[0] > '4' {
		t.Errorf("Retry-After is %v, want 1 to 4", after)
	}
}

func TestTheRoutesBound(t *testing.T) {
	p := policy(t, inflight.Options{Max: 2})
	a, b, c := request(0, "192.0.2.1", ""), request(1, "192.0.2.1", ""), request(0, "192.0.2.1", "")
	passes(t, p, a, 0, 0)
	passes(t, p, b, 0, 0)
	passes(t, p, c, 503, inflight.RouteFull)
	p.OnDone(c, exchange.Shed) // it has nothing to give back
	passes(t, p, request(1, "192.0.2.1", ""), 503, inflight.RouteFull)
	p.OnDone(a, exchange.ClientGone)
	passes(t, p, request(1, "192.0.2.1", ""), 0, 0)
	if s := status(p); s.UnderWay != 2 || s.RouteFull != 2 || s.ClientFull != 0 {
		t.Errorf("the status is %+v", s)
	}
}

func TestTheBoundOfAValue(t *testing.T) {
	p := policy(t, inflight.Options{Max: 3, Key: "client_address", PerValue: 1})
	first := request(0, "2001:db8::1", "")
	passes(t, p, first, 0, 0)
	passes(t, p, request(1, "2001:db8::2", ""), 429, inflight.ClientFull) // of the same /64
	passes(t, p, request(1, "2001:db8:0:1::1", ""), 0, 0)
	passes(t, p, request(0, "192.0.2.1", ""), 0, 0)
	passes(t, p, request(0, "192.0.2.2", ""), 503, inflight.RouteFull)
	p.OnDone(first, exchange.Completed)
	passes(t, p, request(0, "192.0.2.2", ""), 0, 0) // who was refused by the route left nothing behind
	if s := status(p); s.UnderWay != 3 || s.Values != 3 || s.RouteFull != 1 || s.ClientFull != 1 {
		t.Errorf("the status is %+v", s)
	}
}

func TestRequestsWithoutTheKey(t *testing.T) {
	o := inflight.Options{Key: "header:X-Tenant", PerValue: 1}
	together := policy(t, o)
	passes(t, together, request(0, "192.0.2.1", ""), 0, 0)
	passes(t, together, request(0, "192.0.2.1", ""), 429, inflight.ClientFull)
	passes(t, together, request(0, "192.0.2.1", "a"), 0, 0)
	o.SkipMissing = true
	pass := policy(t, o)
	for range 3 {
		passes(t, pass, request(0, "192.0.2.1", ""), 0, 0)
	}
	if s := status(pass); s.UnderWay != 3 || s.Values != 0 {
		t.Errorf("the status is %+v", s)
	}
}

// A later policy may take the field away that the key is in.
func TestWhatWasCountedIsGivenBackWhateverBecomesOfTheKey(t *testing.T) {
	p := policy(t, inflight.Options{Key: "header:X-Tenant", PerValue: 1})
	x := request(0, "192.0.2.1", strings.Repeat("a", 10_000)+"\xff")
	passes(t, p, x, 0, 0)
	x.Request.Fields.Reset()
	p.OnDone(x, exchange.Completed)
	p.OnDone(x, exchange.Completed)
	if s := status(p); s.UnderWay != 0 || s.Values != 0 {
		t.Errorf("the status is %+v", s)
	}
}

func TestAReloadCountsOnWhatIsUnderWay(t *testing.T) {
	before := inflight.Options{Max: 2, Key: "client_address", PerValue: 2}
	for name, c := range map[string]struct {
		after  inflight.Options
		values int // that it knows of
	}{
		"other numbers": {inflight.Options{Max: 1, Key: "client_address", PerValue: 1}, 1},
		"another key":   {inflight.Options{Max: 1, Key: "header:X-Tenant", PerValue: 1}, 0},
		"no key":        {inflight.Options{Max: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			old, p := policy(t, before), policy(t, c.after)
			x := request(0, "192.0.2.1", "a")
			passes(t, old, x, 0, 0)
			p.Inherit(old)
			if s := status(p); s.UnderWay != 1 || s.Values != c.values {
				t.Errorf("after the reload the status is %+v", s)
			}
			passes(t, p, request(0, "192.0.2.2", "b"), 503, inflight.RouteFull)
			old.OnDone(x, exchange.Completed)
			y := request(1, "192.0.2.1", "a")
			passes(t, p, y, 0, 0)
			p.OnDone(y, exchange.Completed)
			if s := status(p); s.UnderWay != 0 || s.Values != 0 {
				t.Errorf("at the end the status is %+v", s)
			}
		})
	}
}

func TestTheRoutesBoundIsExactOverLoops(t *testing.T) {
	const most = 2
	p := policy(t, inflight.Options{Max: most})
	var underWay atomic.Int64
	var all sync.WaitGroup
	for on := range loop(2) {
		for range 2 {
			all.Go(func() {
				x := request(on, "192.0.2.1", "")
				for range 20_000 {
					x.Begin(on)
					if p.OnRequest(x) != exchange.Continue {
						x.Response.Fields.Reset()
						continue
					}
					if n := underWay.Add(1); n > most {
						t.Errorf("%d requests are under way, %d are the most", n, most)
					}
					underWay.Add(-1)
					p.OnDone(x, exchange.Completed)
				}
			})
		}
	}
	all.Wait()
	if s := status(p); s.UnderWay != 0 {
		t.Errorf("at the end %d requests are under way", s.UnderWay)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for hint, o := range map[string]inflight.Options{
		"bounds nothing":          {},
		"give 1 to 1000000":       {Max: -1},
		"1000001":                 {Max: 1_000_001},
		"give 1 to 65535":         {Key: "client_address", PerValue: 65_536},
		"need each other":         {Max: 1, Key: "client_address"},
		"need each other; ":       {PerValue: 1},
		"is over max":             {Max: 1, Key: "client_address", PerValue: 2},
		"is not a key":            {Key: "port:1", PerValue: 1},
		"give 1 to 16777216":      {Key: "client_address", PerValue: 1, Values: -1},
		"values: 16777217; give ": {Key: "client_address", PerValue: 1, Values: 1<<24 + 1},
	} {
		if _, err := inflight.New(o); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%+v: %v, want an error with %q", o, err, hint)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	p := policy(t, inflight.Options{Max: 1, Key: "client_address", PerValue: 1})
	x, y := request(0, "192.0.2.1", ""), request(1, "192.0.2.1", "")
	a, b := x.Client, y.Client
	run := func() {
		x.Begin(loop(0))
		y.Begin(loop(1))
		x.Client, y.Client = a, b
		p.OnRequest(x)
		p.OnRequest(y) // refused
		p.OnDone(y, exchange.GatewayAnswer)
		p.OnDone(x, exchange.Completed)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPolicy(b *testing.B) {
	for name, o := range map[string]inflight.Options{
		"route":  {Max: 100},
		"client": {Max: 100, Key: "client_address", PerValue: 10},
	} {
		b.Run(name, func(b *testing.B) {
			p, x := policy(b, o), request(0, "192.0.2.1", "")
			a := x.Client
			b.ReportAllocs()
			for b.Loop() {
				x.Begin(loop(0))
				x.Client = a
				p.OnRequest(x)
				p.OnDone(x, exchange.Completed)
			}
		})
	}
}
