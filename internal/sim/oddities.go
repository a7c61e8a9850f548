package sim

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// oddities are rare features of scenarios. Each is drawn on its own. Where one is drawn, it is
// frequent enough to coincide with others.
var oddities = []struct {
	share float64 // share of the scenarios that have it
	rude  bool    // not in quiet scenarios
	apply func(r *rand.Rand, s *Scenario)
}{
	{0.3, false, func(r *rand.Rand, s *Scenario) { // trailers
		s.requests(r, 0.3, func(q *RequestPlan) { q.Trailers = !q.Old })
	}},
	{0.3, false, func(r *rand.Rand, s *Scenario) { // queries and absolute targets
		s.requests(r, 0.3, func(q *RequestPlan) { q.Query = true })
		s.requests(r, 0.1, func(q *RequestPlan) { q.Absolute = q.Spoiled == 0 })
	}},
	{0.2, false, func(_ *rand.Rand, s *Scenario) { s.Gateway.Via = true }},
	{0.2, true, func(r *rand.Rand, s *Scenario) { // bodies that differ from their declaration
		s.requests(r, 0.2, func(q *RequestPlan) {
			if q.Chunked && q.Spoiled == 0 {
				q.Torn = true
			}
		})
	}},
	{0.2, true, func(r *rand.Rand, s *Scenario) { s.Gateway.MaxBody = 1 + r.IntN(100_000) }},
	{0.15, true, func(r *rand.Rand, s *Scenario) { // limits on the connections of a listener
		s.Gateway.MaxClients = 1 + r.IntN(1+r.IntN(len(s.Clients)))
		if r.IntN(2) == 0 {
			s.Gateway.MaxClients, s.Gateway.PerAddress = 0, 1+r.IntN(3)
		}
		s.clients(r, 0.5, func(c *ClientPlan) { c.Stays = true })
	}},
	{0.2, true, func(r *rand.Rand, s *Scenario) { // slow uploads
		s.clients(r, 0.3, func(c *ClientPlan) {
			c.Pieces, c.Pause = 1+r.IntN(60), between(r, 100*time.Millisecond, 3*time.Second)
			for i := range c.Requests {
				c.Requests[i].Body = min(c.Requests[i].Body, 3000)
			}
		})
	}},
	{0.4, true, func(r *rand.Rand, s *Scenario) { // plain text and silence on a TLS port
		if s.Gateway.TLS {
			s.clients(r, 0.3, func(c *ClientPlan) { c.Plain = true })
		}
	}},
	{0.15, false, func(r *rand.Rand, s *Scenario) { // connections that are idle until the end
		s.clients(r, 0.3, func(c *ClientPlan) { c.Stays = true })
	}},
	{0.15, false, func(r *rand.Rand, s *Scenario) { // bodies that are not held
		s.Gateway.HoldBody = 1 + r.IntN(2)*r.IntN(65_536)
	}},
	{0.15, false, func(r *rand.Rand, s *Scenario) { // clients that wait for a 100
		s.Gateway.HoldBody = 1 + r.IntN(2)*r.IntN(4096)
		s.clients(r, 0.5, func(c *ClientPlan) {
			for i := range c.Requests {
				q := &c.Requests[i]
				q.Expect = q.Body > 0 && !q.Old
				q.Waits = q.Expect && !c.Pipeline
			}
		})
	}},
	{0.07, false, func(r *rand.Rand, s *Scenario) { // services that read long bodies slowly
		for i := range s.Services {
			p := &s.Services[i]
			p.Sip, p.Rest = 1<<14+r.IntN(1<<16), between(r, 0, 30*time.Millisecond)
		}
		for range 1 + r.IntN(4) {
			c := drawClient(r, 0, time.Second)
			long := 300_000 + r.IntN(1_200_000)
			c.Requests = []RequestPlan{
				{Method: "PUT", Path: "/a/", Body: long, Chunked: r.IntN(2) == 0},
			}
			c.Pieces = 0
			s.Clients = append(s.Clients, c)
		}
	}},
	{0.07, true, func(r *rand.Rand, s *Scenario) { // answers to bodies that are still on their way
		s.Kernel.SendBuffer, s.Gateway.Attempts = 4<<10, 1+r.IntN(3)
		for i := range s.Services {
			p := &s.Services[i]
			p.Early, p.Window, p.Vices = 0.5, 1<<10+r.IntN(4<<10), 0.3
		}
		s.requests(r, 0.5, func(q *RequestPlan) {
			if q.Body > 0 {
				q.Path, q.Body = "/a/", 10_000+r.IntN(54_000)
			}
		})
	}},
	{0.07, true, func(r *rand.Rand, s *Scenario) { // connections move between loops and then end
		s.Loops, s.Gateway.MaxIdle = 2+r.IntN(2), r.IntN(4)
		for i := range s.Services {
			s.Services[i].Slow = between(r, 0, 3*time.Millisecond)
		}
		for range 5 + r.IntN(15) {
			c := drawClient(r, 0, 500*time.Millisecond)
			for range 6 {
				c.Requests = append(c.Requests, drawRequest(r, 0))
			}
			c.Pieces, c.Pipeline = 1000, false
			s.Clients = append(s.Clients, c)
		}
		for range 20 {
			at := between(r, 0, 2*time.Second)
			s.Acts = append(s.Acts, Act{at, "service-restart", r.IntN(1000)})
		}
	}},
	{0.07, true, func(r *rand.Rand, s *Scenario) { s.Kernel.Descriptors = 40 + r.IntN(80) }},
	{0.15, false, func(r *rand.Rand, s *Scenario) { s.Gateway.Weights = true }},
	{0.15, false, func(r *rand.Rand, s *Scenario) {
		s.Gateway.SlowStart = between(r, 0, 3*time.Second)
	}},
	{0.07, true, func(r *rand.Rand, s *Scenario) { // one address fills the pool
		s.Gateway.MaxConnections, s.Gateway.MaxPending = 2+r.IntN(5), 50
		s.Gateway.Pending, s.Gateway.PerAddress = between(r, time.Second, 6*time.Second), 0
		const long = 6 * time.Second
		s.Gateway.Timeout, s.Gateway.Stream, s.Gateway.Send = long, long, long
		for range 5 + r.IntN(20) {
			c := drawClient(r, 0, time.Second)
			c.From, c.Listener = 9, 0
			c.ReadRate, c.Window = 2000+r.IntN(4000), 2048
			c.ReadWait = between(r, 100*time.Millisecond, time.Second)
			if r.IntN(2) == 0 {
				body := 70_000 + r.IntN(100_000)
				c.Requests = []RequestPlan{{Method: "POST", Path: "/a/", Body: body}}
				c.Pieces, c.Pause = 4000, 300*time.Millisecond
			}
			s.Clients = append(s.Clients, c)
		}
	}},
	{0.07, false, func(r *rand.Rand, s *Scenario) { // all clients come while a process takes over
		at := between(r, 100*time.Millisecond, 2*time.Second)
		s.Acts = append(s.Acts, Act{at, "upgrade", r.IntN(1000)})
		s.clients(r, 0.7, func(c *ClientPlan) { c.At = at + between(r, 0, 30*time.Millisecond) })
	}},
	{0.1, false, func(r *rand.Rand, s *Scenario) { // addresses already in use
		for range 1 + r.IntN(3) {
			s.Acts = append(s.Acts, Act{between(r, 0, 3*time.Second), "taken-reload", r.IntN(1000)})
		}
	}},
	// More data follows an answer that fills a read. The connection's next request is too long for
	// the loop's batch; within a batch, the gateway would notice the data by itself.
	{0.07, true, func(r *rand.Rand, s *Scenario) {
		s.Kernel.RecvBuffer, s.Gateway.UpstreamTLS = 4<<20, false
		for i := range s.Services {
			s.Services[i].Behind = 0.3
		}
		for range 3 + r.IntN(8) {
			c := drawClient(r, 0, time.Second)
			for range 4 {
				q := RequestPlan{Method: "PUT", Path: "/a/", Body: 5000 + r.IntN(50_000)}
				if r.IntN(2) == 0 { // a copy's answer is as long
					q.Path = "/copy/"
				}
				c.Requests = append(c.Requests, q)
			}
			c.Pieces, c.Pipeline = 0, false
			s.Clients = append(s.Clients, c)
		}
	}},
	// A crowd of clients connects when the gateway ends and has no time left: loops still accept
	// while clients are cut off, and handshakes begin after that. The clients send a few bytes and
	// then fall silent for longer than an ending gateway waits for handshakes.
	{0.02, true, func(r *rand.Rand, s *Scenario) {
		at := between(r, 50*time.Millisecond, time.Second)
		s.Acts = []Act{{At: at, What: "end"}}
		s.Loops, s.Gateway.TLS, s.Gateway.Backlog = 2+r.IntN(2), true, 4096
		s.Gateway.Drain, s.Gateway.PerAddress = between(r, 0, 100*time.Microsecond), 0
		s.Gateway.MaxClients, s.Kernel.Descriptors = 0, plenty
		s.Kernel.Latency, s.Kernel.Delay = 50*time.Microsecond, 200*time.Microsecond
		s.Kernel.Stall, s.Kernel.StallFor = 0.1, 2*time.Millisecond
		s.Gateway.Head = 2 * time.Second
		for range 600 + r.IntN(900) {
			c := drawClient(r, 0, 0)
			c.At, c.Listener = at+between(r, 0, 500*time.Microsecond), 1
			c.Requests, c.Pieces, c.Pause, c.Plain = c.Requests[:1], 1+r.IntN(5), time.Minute, true
			s.Clients = append(s.Clients, c)
		}
	}},
	{0.25, false, func(r *rand.Rand, s *Scenario) { // limits on the concurrency of targets
		s.Gateway.Slots, s.Gateway.Adaptive = 1+r.IntN(6), r.IntN(2) == 0
		s.Gateway.Patience = 20 * time.Second
		if !s.Quiet {
			s.Gateway.Patience = between(r, 10*time.Millisecond, 2*time.Second)
		}
	}},
	{0.2, true, func(r *rand.Rand, s *Scenario) { // breakers
		s.Gateway.Breaker = between(r, 10*time.Millisecond, 2*time.Second)
	}},
	{0.2, true, func(r *rand.Rand, s *Scenario) { // admission control, with late loops
		s.Kernel.Stall, s.Kernel.StallFor = 0.2, 20*time.Millisecond
		s.Gateway.Admission = between(r, time.Millisecond, 8*time.Millisecond)
	}},
	{0.2, true, func(r *rand.Rand, s *Scenario) { // rate limits
		s.Gateway.Rate, s.Gateway.Shaped = 1+r.IntN(50), r.IntN(2) == 0
	}},
	{0.2, true, func(r *rand.Rand, s *Scenario) { // limits on requests in progress
		s.Gateway.InFlight = 1 + r.IntN(12)
		s.Gateway.PerClient = 1 + r.IntN(s.Gateway.InFlight)
	}},
	{0.2, false, func(r *rand.Rand, s *Scenario) { // claims of classes and deadlines
		s.Gateway.Claims = true
		classes, lefts := []string{"P0", "P1", "P2", "", "P77"}, []string{"", "0", "soon"}
		s.requests(r, 0.7, func(q *RequestPlan) {
			q.Class, q.Left = classes[r.IntN(len(classes))], lefts[r.IntN(len(lefts))]
			if r.IntN(3) > 0 {
				q.Left = strconv.Itoa(1 + r.IntN(2000))
			}
			if s.Quiet {
				q.Left = "86400000" // some bodies take an hour
			}
		})
	}},
	{0.3, true, func(_ *rand.Rand, s *Scenario) { s.Gateway.Ladder = true }},
	{0.15, true, func(r *rand.Rand, s *Scenario) { // clients that fall silent during a long wait
		g := &s.Gateway
		g.Ping, g.Timeout = time.Second, between(r, 14*time.Second, 16*time.Second)
		g.Head, g.Send, g.Idle = min(g.Head, time.Second), min(g.Send, time.Second), min(g.Idle, time.Second)
		s.clients(r, 0.3, func(c *ClientPlan) { c.Manner = Stops })
	}},
	{0.15, true, func(r *rand.Rand, s *Scenario) { // rate limits of all kinds, changed by reloads
		algorithms := []string{"token_bucket", "gcra", "fixed_window", "sliding_window", "sliding_log"}
		s.Gateway.Rate, s.Gateway.Shaped = 1+r.IntN(8), r.IntN(4) == 0
		s.Gateway.Algorithm, s.Gateway.Values = algorithms[r.IntN(len(algorithms))], 1+r.IntN(40)
	}},
	{0.25, false, func(r *rand.Rand, s *Scenario) { // a limit on all targets of an upstream
		s.Gateway.Places = 1 + r.IntN(8)
		s.Gateway.Patience = 20 * time.Second
		if !s.Quiet {
			s.Gateway.Patience = between(r, 10*time.Millisecond, 2*time.Second)
		}
	}},
	{0.07, true, func(r *rand.Rand, s *Scenario) { // a route at its limit during reloads
		g := &s.Gateway
		g.InFlight = 2 + r.IntN(3)
		g.PerClient = 1 + r.IntN(g.InFlight)
		const long = 6 * time.Second
		g.MaxConnections, g.Timeout, g.Stream, g.PerTry = 50, long, long, 0
		for i := range s.Services {
			s.Services[i].Slow = between(r, 300*time.Millisecond, time.Second)
		}
		for range 10 + r.IntN(20) {
			c := drawClient(r, 0, time.Second)
			q := RequestPlan{Method: "GET", Path: "/a/", Body: -1}
			c.Requests, c.Pieces, c.ReadRate = []RequestPlan{q, q}, 0, 0
			s.Clients = append(s.Clients, c)
		}
		for range 3 {
			s.Acts = append(s.Acts, Act{between(r, 0, 2*time.Second), "reload", r.IntN(1000)})
		}
	}},
	{0.04, true, func(r *rand.Rand, s *Scenario) { // services take longer than requests may wait
		s.Gateway.Timeout = 2*time.Second + time.Duration(r.Int64N(int64(2*time.Second)))
		s.Gateway.PerTry = 0
		for i := range s.Services {
			s.Services[i].Slow = 20 * time.Second
		}
	}},
	{0.05, true, func(r *rand.Rand, s *Scenario) { // services are overloaded and say so
		s.Gateway.Attempts, s.Gateway.MaxConnections = 1+r.IntN(3), 100
		for i := range s.Services {
			s.Services[i].Sheds = 0.3 + 0.6*r.Float64()
		}
		for range 20 + r.IntN(20) {
			c := drawClient(r, 0, 300*time.Millisecond)
			q := RequestPlan{Method: "GET", Path: "/a/", Body: -1}
			c.Requests, c.Pieces, c.ReadRate = []RequestPlan{q, q, q}, 0, 0
			s.Clients = append(s.Clients, c)
		}
	}},
	{0.04, true, func(r *rand.Rand, s *Scenario) { // static answers, and claims of classes
		s.Gateway.Ladder, s.Gateway.Claims = true, true
		s.Gateway.Timeout, s.Gateway.PerTry = time.Second, 0
		for i := range s.Services {
			s.Services[i].Slow = 20 * time.Second
		}
		for range 5 + r.IntN(10) {
			c := drawClient(r, 0, time.Second)
			q := RequestPlan{Method: "GET", Path: "/b/", Body: -1}
			q.Class = "P" + strconv.Itoa(r.IntN(3))
			c.From, c.Requests, c.Pieces, c.ReadRate = trusted, []RequestPlan{q}, 0, 0
			s.Clients = append(s.Clients, c)
		}
	}},
}

// addOddities draws the oddities of a scenario.
func (s *Scenario) addOddities(r *rand.Rand) {
	for _, o := range oddities {
		if odd := r.Float64() < o.share; odd && !(o.rude && s.Quiet) {
			o.apply(r, s)
		}
	}
}

// clients changes a share of the clients.
func (s *Scenario) clients(r *rand.Rand, share float64, change func(*ClientPlan)) {
	for i := range s.Clients {
		if r.Float64() < share {
			change(&s.Clients[i])
		}
	}
}

// requests changes a share of the requests.
func (s *Scenario) requests(r *rand.Rand, share float64, change func(*RequestPlan)) {
	s.clients(r, 1, func(c *ClientPlan) {
		for i := range c.Requests {
			if r.Float64() < share {
				change(&c.Requests[i])
			}
		}
	})
}
