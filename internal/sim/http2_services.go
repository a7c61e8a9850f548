package sim

import (
	"math/rand/v2"
	"time"
)

// HTTP2ServicePlan is how a service speaks HTTP/2.
type HTTP2ServicePlan struct {
	Streams int           // MAX_CONCURRENT_STREAMS; -1 for no bound
	Window  int           // INITIAL_WINDOW_SIZE
	Step    int           // most bytes by which it opens windows at first; 0 for all read
	Wait    time.Duration // the longest time until it opens them
	Frame   int           // longest part of a body in one frame, in bytes
	Table   int           // HEADER_TABLE_SIZE
	Padded  bool
	Fuss    float64       // share of its frames that are followed by one that changes nothing
	Resize  float64       // share of requests at which it changes its windows and limits
	None    bool          // its limits may be 0 for a while
	Late    time.Duration // longest delay of its SETTINGS
	Mute    bool          // it never sends SETTINGS
	Eager   bool          // it sends SETTINGS first, and then speaks only HTTP/2
	GoAway  int           // the number of requests after which it leaves; 0 for never
	Rough   bool          // it leaves without a warning and disowns some requests
	Pieces  int           // longest piece that it sends at once, in bytes; 0 for no limit
	Upsets  float64       // share of requests at which it breaks the connection
}

// protocols are the protocols of the upstreams in the n-th configuration.
func (s *Scenario) protocols(n int) [3]string {
	list := s.Gateway.Protocols
	if n > 0 && s.Gateway.Shifting {
		r := s.stream(ofHTTP2Services, uint64(n))
		if r.IntN(3) == 0 {
			list[r.IntN(3)] = s.drawProtocol(r)
		}
	}
	return list
}

// drawProtocol draws the protocol of an upstream.
func (s *Scenario) drawProtocol(r *rand.Rand) string {
	if s.Gateway.UpstreamTLS {
		return []string{"auto", "h2", "h2", "", "http1"}[r.IntN(5)]
	}
	return []string{"h2c", "h2c", "h2c", "http1", ""}[r.IntN(5)]
}

// addHTTP2Services makes services speak HTTP/2, and upstreams use it.
func (s *Scenario) addHTTP2Services(r *rand.Rand, mood float64) {
	if r.IntN(2) == 0 {
		return
	}
	g := &s.Gateway
	g.UpstreamTLS = g.UpstreamTLS || r.IntN(8) == 0
	g.Shifting = r.IntN(3) == 0
	for i := range g.Protocols {
		g.Protocols[i] = s.drawProtocol(r)
	}
	eager := !g.UpstreamTLS && !g.Shifting && g.Protocols == [3]string{"h2c", "h2c", "h2c"}
	for i := range s.Services {
		if p := &s.Services[i]; s.Quiet || r.IntN(15) > 0 {
			p.HTTP2 = drawHTTP2Service(r, s.Quiet, mood)
			p.HTTP2.Eager = eager && r.IntN(2) == 0
		}
	}
	if s.Quiet && r.IntN(2) == 0 {
		s.leaveSuddenly(r)
	}
	if r.IntN(4) == 0 { // few connections with many requests
		g.MaxConnections = 1 + r.IntN(2)
		g.MaxPending = max(g.MaxPending, 50)
		for i := range s.Services {
			if p := s.Services[i].HTTP2; p != nil && r.IntN(2) == 0 {
				p.Streams, p.Resize = 1+r.IntN(4), 0.3*r.Float64()
			}
		}
	}
	if !s.Quiet && r.IntN(5) == 0 {
		s.contend(r)
	}
}

// contend makes requests of all classes wait for few slots. Each loop has connections to different
// targets: they carry many requests and do not move between loops.
func (s *Scenario) contend(r *rand.Rand) {
	g := &s.Gateway
	const long = 3 * time.Second
	s.Loops, g.UpstreamTLS, g.Protocols = 2+r.IntN(2), true, [3]string{"auto", "auto", "auto"}
	g.MaxConnections, g.MaxPending, g.MaxRequests = 1+r.IntN(2), 50, 0
	g.Slots, g.Adaptive, g.PerTry = 1+r.IntN(4), false, 0
	g.Patience, g.Pending, g.Timeout = long, long, 2*long
	for i := range s.Services {
		p := &s.Services[i]
		p.Vices, p.Slow = p.Vices/3, between(r, 5*time.Millisecond, 300*time.Millisecond)
		if p.HTTP2 != nil {
			p.HTTP2.Eager = false
		}
	}
	for range 30 + r.IntN(20) {
		c := drawClient(r, 0, time.Second)
		c.Requests, c.Pieces, c.ReadRate = nil, 0, 0
		for range 6 {
			path := []string{"/a/", "/read/"}[r.IntN(2)] // the first class and the last
			c.Requests = append(c.Requests, RequestPlan{Method: "GET", Path: path, Body: -1})
		}
		s.Clients = append(s.Clients, c)
	}
}

// leaveSuddenly makes services leave without a warning in a quiet scenario. That fails no request
// that can be sent again. Here all can: their bodies are short and held.
func (s *Scenario) leaveSuddenly(r *rand.Rand) {
	s.Gateway.HoldBody = 0
	for i := range s.Services {
		p := s.Services[i].HTTP2
		p.Rough, p.GoAway = true, 2+r.IntN(8)
	}
	s.requests(r, 1, func(q *RequestPlan) {
		q.Body, q.Expect, q.Waits = min(q.Body, 5000), false, false
	})
}

func drawHTTP2Service(r *rand.Rand, quiet bool, mood float64) *HTTP2ServicePlan {
	p := &HTTP2ServicePlan{
		Streams: -1, Window: usualWindow, Table: usualTable, Frame: usualFrame,
		Padded: r.IntN(3) == 0, Fuss: some(r, 0.3, 0.5), Resize: some(r, 0.3, 0.3),
	}
	if r.IntN(2) == 0 {
		p.Streams = 1 + r.IntN(1+r.IntN(150))
	}
	if r.IntN(3) == 0 {
		p.Window = []int{0, r.IntN(100), r.IntN(1 << 14), r.IntN(1 << 20)}[r.IntN(4)]
		p.Step, p.Wait = 1+r.IntN(1+r.IntN(20_000)), between(r, 0, 50*time.Millisecond)
	}
	if r.IntN(3) == 0 {
		p.Frame = 20 + r.IntN(usualFrame)
	}
	if r.IntN(4) == 0 {
		p.Table = r.IntN(1 << 15)
	}
	if r.IntN(4) == 0 {
		p.Pieces = 1 + r.IntN(3000)
	}
	if r.IntN(5) == 0 {
		p.GoAway = 1 + r.IntN(1+r.IntN(40))
	}
	if r.IntN(4) == 0 {
		p.Late = between(r, 0, 20*time.Millisecond)
	}
	if quiet {
		return p
	}
	p.None, p.Rough = r.IntN(4) == 0, r.Float64() < 2*mood
	p.Upsets = some(r, mood/2, 0.1)
	switch r.IntN(40) {
	case 0:
		p.Mute = true
	case 1:
		p.Streams = 0
	case 2, 3, 4:
		p.Late = between(r, 0, 2*time.Second)
	case 5, 6:
		p.Wait = between(r, 0, 4*time.Second)
	}
	return p
}
