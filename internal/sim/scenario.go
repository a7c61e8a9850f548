package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"plimsoll/internal/sim/kernel"
)

// Scenario is everything that determines a run. Draw makes one from a seed; the shrinker removes
// parts. Other choices, such as how a body is cut into pieces, are drawn by each actor from the
// seed and its own number, which it keeps when another actor is removed.
type Scenario struct {
	Seed     uint64
	Luck     uint64 // gives the kernel other draws, for the shrinker
	Kernel   kernel.Profile
	Quiet    bool // nobody misbehaves and nothing fails: then every request must succeed
	Loops    int
	Gateway  GatewayPlan
	Services []ServicePlan
	Clients  []ClientPlan
	Acts     []Act
	// HeldBodies is how many bytes of request bodies a loop may hold; 0 for the default limit.
	HeldBodies int        `json:",omitempty"`
	Cache      *CachePlan `json:",omitempty"` // for a route with a cache; nil for none
	// WebSockets is the setup of the route for them; nil for none.
	WebSockets *WebSocketPlan `json:",omitempty"`
}

// GatewayPlan has the parameters of a run's first configuration. Reloads draw others.
type GatewayPlan struct {
	MaxConnections, MaxPending, MaxIdle, MaxRequests int
	Attempts                                         int
	Pending, Connect, PerTry                         time.Duration
	Timeout, Stream, Tunnel                          time.Duration
	Head, Idle, Send                                 time.Duration
	MinBodyRate                                      int
	Drain                                            time.Duration
	PerAddress                                       int
	Active                                           bool // health checks
	Passive                                          int  // failures in a row that eject; 0 for none
	Named                                            bool // an upstream with targets from DNS
	Backlog                                          int
	TLS                                              bool // on the second listener
	UpstreamTLS                                      bool
	Via, Weights                                     bool
	MaxBody, MaxClients                              int // 0 for no bound
	HoldBody                                         int // 0 for the default
	SlowStart                                        time.Duration

	Slots    int           // a target's initial concurrency limit; 0 for none
	Places   int           `json:",omitempty"` // limit for all targets of an upstream; 0 for none
	Adaptive bool          // the limit is adaptive, not fixed
	Patience time.Duration // of the SLA classes, if there are slots
	Breaker  time.Duration // how long a breaker stays open; 0 for none
	Rate     int           // requests per second of an address on a route; 0 for no limit
	Shaped   bool          // requests over the rate wait and are not refused at once
	// Algorithm is how an address is counted, and Values how many fit; "" and 0 for the defaults.
	// If an algorithm is drawn, reloads change the rate.
	Algorithm string `json:",omitempty"`
	Values    int    `json:",omitempty"`

	InFlight, PerClient int     // simultaneous requests of a route, and of an address; 0 for no limit
	Claims              bool    // clients may claim classes and deadlines: see trusted
	Ladder              bool    `json:",omitempty"` // routes have static answers
	HTTP2               [2]bool `json:",omitzero"`  // which listeners offer it
	// Ping is how long an HTTP/2 client may be silent before it gets a PING; 0 for the default.
	Ping time.Duration `json:",omitempty"`
	// Protocols are the protocols of the upstreams a, b and m; empty for the default. If they
	// shift, a reload may change them.
	Protocols [3]string `json:",omitzero"`
	Shifting  bool      `json:",omitempty"`
	// Admission is the delay of a loop at which requests are refused; 0 for no limit.
	Admission time.Duration
}

// ServicePlan is one upstream target.
type ServicePlan struct {
	Address string
	Vices   float64 // share of requests that it answers wrongly
	Slow    time.Duration
	Window  int               // receive buffer of its sockets; 0 for a large one
	Early   float64           // share of requests that it answers before it has their bodies
	Behind  float64           // share of requests with a second answer after one that fills a read
	Sheds   float64           `json:",omitempty"` // share of requests that it refuses as too many
	Sip     int               // bytes that it reads at a time; 0 for all available
	Rest    time.Duration     // the longest time between reads
	HTTP2   *HTTP2ServicePlan `json:",omitempty"` // how it speaks HTTP/2; nil for HTTP/1 only
}

// ClientPlan is one client's connection.
type ClientPlan struct {
	Number   int // number among all clients
	At       time.Duration
	Listener int
	From     int // the last part of its address
	Requests []RequestPlan
	Pipeline bool          // it sends requests without waiting for answers
	Pieces   int           // longest piece in bytes; 0 for everything at once
	Pause    time.Duration // the longest time between pieces
	ReadRate int           // bytes that it reads at a time; 0 for all available
	ReadWait time.Duration // the longest time between reads
	Leave    int           // number of bytes sent after which it leaves; -1 for never
	Manner   Manner        // how it leaves
	LeaveAt  int           // number of bytes received after which it leaves; -1 for never
	Window   int           // receive buffer of its socket
	Plain    bool          // it speaks plain text, even if the listener expects TLS
	Stays    bool          // it stays after its last answer until it is closed
	HTTP2    *HTTP2Plan    `json:",omitempty"` // how it speaks HTTP/2; nil for HTTP/1
}

// Manner is how a client leaves.
type Manner uint8

// The manners.
const (
	Closes   Manner = iota // in order
	Resets                 // with an error
	HalfEnds               // it ends its own direction and continues to read
	Stops                  // it does nothing more, and stays
)

// RequestPlan is one request.
type RequestPlan struct {
	Number  int // number among its client's requests
	Method  string
	Path    string // one of the routes in config.go
	Body    int    // bytes; -1 for none
	Chunked bool
	Expect  bool
	Upgrade bool
	Old     bool // HTTP/1.0
	Spoiled int  // number of a spoiler that malforms the request; 0 for none
	Close   bool
	// See oddities.
	Trailers, Query, Absolute, Torn bool
	Waits                           bool   // with Expect: for a 100, before it sends its body
	Class, Left                     string // its claims, if clients make any; "" for none
	// In HTTP/2: when its stream is reset (see resets), and whether its body stops midway.
	Reset string `json:",omitempty"`
	Halts bool   `json:",omitempty"`
	// Cached is set for requests to the route with a cache.
	Cached *CachedPlan `json:",omitempty"`
	// WebSocket is set for requests to the route for WebSockets.
	WebSocket *SocketPlan `json:",omitempty"`
}

// Act is an action of the operator.
type Act struct {
	At   time.Duration
	What string // see operator.go
	N    int    // selects its object
}

// Draw draws the scenario of a seed. Quiet, ordinary and violent ones all occur.
func Draw(seed uint64) Scenario {
	s := Scenario{Seed: seed}
	r := s.stream(ofScenarios, 0)
	s.Loops = 1 + r.IntN(3)
	mood := r.Float64() // how bad the scenario is; 0 for a good one
	if mood < 0.15 {
		s.Quiet, mood = true, 0
	}
	s.Kernel = drawKernel(r, mood)
	s.Gateway = drawGateway(r, s.Quiet)
	for i := range 2 + r.IntN(3) {
		p := ServicePlan{
			Address: fmt.Sprintf("10.0.1.%d:80", i+1),
			Vices:   mood * r.Float64(),
			Slow:    between(r, 0, 20*time.Millisecond),
		}
		if r.IntN(2) == 0 {
			p.Window = 1<<10 + r.IntN(1<<16)
		}
		if r.IntN(3) == 0 {
			p.Address = fmt.Sprintf("unix:/run/s%d.sock", i+1)
		}
		s.Services = append(s.Services, p)
	}
	clients := 2 + r.IntN(20)
	if r.IntN(40) == 0 {
		clients = 50 + r.IntN(250)
	}
	span := between(r, 0, 4*time.Second)
	for range clients {
		s.Clients = append(s.Clients, drawClient(r, mood, span))
	}
	for range r.IntN(6) * (1 + r.IntN(3)) {
		at := between(r, 0, span+time.Second)
		s.Acts = append(s.Acts, Act{at, drawAct(r, s.Quiet), r.IntN(1000)})
	}
	if r.IntN(2) == 0 { // otherwise it ends when everything is quiet
		s.Acts = append(s.Acts, Act{At: between(r, span/2, span+2*time.Second), What: "end"})
	}
	for n := r.IntN(3); n > 0 && !s.Quiet; n-- {
		themes[r.IntN(len(themes))](r, &s)
	}
	s.addOddities(s.stream(ofOddities, 0))
	s.addHTTP2(s.stream(ofHTTP2, 0), mood)
	s.addHTTP2Services(s.stream(ofHTTP2Services, 0), mood)
	s.addCache(s.stream(ofCaches, 0), mood)
	s.addWebSockets(s.stream(ofWebSockets, 0), mood)
	// In quiet scenarios, too little room would cost requests: a body that is not held cannot be
	// resent.
	if r := s.stream(ofMemory, 0); r.IntN(4) == 0 && !s.Quiet {
		s.HeldBodies = 1 + r.IntN(100_000)
	}
	s.number()
	return s
}

// number gives clients and requests their permanent numbers.
func (s *Scenario) number() {
	for i := range s.Clients {
		c := &s.Clients[i]
		c.Number = i
		for j := range c.Requests {
			c.Requests[j].Number = j
		}
	}
}

// purpose is what random numbers are drawn for. Each purpose has its own generators.
type purpose uint64

const (
	ofScenarios purpose = 1 + iota
	ofOddities
	ofConfigurations
	ofProcesses
	ofClients
	ofPaces
	ofAnswers
	ofHTTP2
	ofHTTP2Services
	ofCaches
	ofCached
	ofMemory
	ofWebSockets
	ofTalkers
)

// stream is the number-th generator for a purpose. The kernel has other generators with the same
// seed.
func (s *Scenario) stream(of purpose, number uint64) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, uint64(of)<<56|number))
}

// themes are scenarios in which everything goes wrong in the same way, so that rare coincidences
// become frequent.
var themes = []func(r *rand.Rand, s *Scenario){
	func(r *rand.Rand, s *Scenario) { // everyone waits for a connection
		s.Gateway.MaxConnections, s.Gateway.MaxPending = 1+r.IntN(2), 5+r.IntN(50)
		s.Gateway.Pending = between(r, 500*time.Millisecond, 5*time.Second)
		s.Gateway.Timeout = between(r, 2*time.Second, 6*time.Second)
		for i := range s.Services {
			s.Services[i].Vices, s.Services[i].Slow = 0.3*r.Float64(), between(r, 0, 3*time.Second)
		}
		for range r.IntN(30) {
			s.Clients = append(s.Clients, drawClient(r, 0, time.Second))
		}
		s.Acts = append(s.Acts, Act{between(r, 0, 2*time.Second), "reload", r.IntN(1000)})
	},
	func(r *rand.Rand, s *Scenario) { // loops do not get the processor
		s.Kernel.Stall, s.Kernel.StallFor = 0.05*r.Float64(), between(r, 0, 3*time.Second)
	},
	func(r *rand.Rand, s *Scenario) { // nothing can be reached
		k := &s.Kernel
		k.DialFails, k.DialRefused, k.DialLost = r.Float64(), r.Float64(), r.Float64()
	},
	func(r *rand.Rand, s *Scenario) { // one reload after another
		for range 5 + r.IntN(12) {
			s.Acts = append(s.Acts, Act{between(r, 0, 4*time.Second), "reload", r.IntN(1000)})
		}
	},
	func(r *rand.Rand, s *Scenario) { // services come and go
		for range 10 + r.IntN(20) {
			what := []string{
				"service-down", "service-up", "service-full", "service-up", "drain-target",
				"restore-target",
			}[r.IntN(6)]
			s.Acts = append(s.Acts, Act{between(r, 0, 4*time.Second), what, r.IntN(1000)})
		}
	},
	// Everyone waits, under configurations that are already replaced, for sleeping loops.
	func(r *rand.Rand, s *Scenario) {
		s.Loops = 2 + r.IntN(2)
		s.Gateway.MaxConnections, s.Gateway.MaxPending = 1, 10+r.IntN(50)
		s.Gateway.Pending = between(r, 100*time.Millisecond, 2*time.Second)
		s.Gateway.Timeout = between(r, 2*time.Second, 6*time.Second)
		s.Gateway.PerTry, s.Gateway.Attempts = 0, 0
		for i := range s.Services {
			p := &s.Services[i]
			p.Vices, p.Slow = 0.1*r.Float64(), between(r, time.Second, 8*time.Second)
		}
		for range 2 + r.IntN(4) {
			s.Acts = append(s.Acts, Act{between(r, 0, 3*time.Second), "reload", r.IntN(1000)})
		}
		s.Kernel.Stall = 0.1 * r.Float64()
		s.Kernel.StallFor = between(r, 100*time.Millisecond, 2*time.Second)
	},
	func(r *rand.Rand, s *Scenario) { // everyone comes at once
		for i := range s.Clients {
			s.Clients[i].At, s.Clients[i].Pause = 0, 0
		}
	},
}

// between draws a duration; short ones are more frequent.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + kernel.Draw(r, most-least)
}

// some is a random number up to p in a share of the draws, and 0 in the others.
func some(r *rand.Rand, share, p float64) float64 {
	if r.Float64() < share {
		return p * r.Float64()
	}
	return 0
}

// plenty is more descriptors than any scenario needs.
const plenty = 4096

func drawKernel(r *rand.Rand, mood float64) kernel.Profile {
	p := kernel.Profile{
		Latency:  between(r, 20*time.Microsecond, 5*time.Millisecond),
		Delay:    between(r, time.Microsecond, 200*time.Microsecond),
		Fragment: some(r, 0.7, 0.8), ShortWrite: some(r, 0.5, 0.5),
		Subset: some(r, 0.7, 0.7), WallSteps: some(r, 0.2, 0.05),
		SendBuffer: 4<<10 + r.IntN(1<<18), RecvBuffer: 4<<10 + r.IntN(1<<18), Descriptors: plenty,
	}
	if r.IntN(4) == 0 {
		p.SendBuffer, p.RecvBuffer = 4<<20, 4<<20
	}
	p.Meanwhile = some(r, 0.5, 0.5)
	if mood == 0 {
		return p
	}
	p.Sudden = some(r, 0.2, 0.02)
	if r.Float64() < mood {
		p.Stall, p.StallFor = some(r, 0.5, 0.02), between(r, 0, 3*time.Second)
		p.DialFails = some(r, 0.3, 0.5)
		p.DialRefused = some(r, 0.3, 0.3)
		p.DialLost = some(r, 0.3, 0.3)
	}
	if r.Float64() < mood/4 {
		p.Descriptors = 100 + r.IntN(60)
	}
	return p
}

func drawGateway(r *rand.Rand, quiet bool) GatewayPlan {
	ms := func(least, most int) time.Duration {
		return between(r, time.Duration(least)*time.Millisecond, time.Duration(most)*time.Millisecond)
	}
	g := GatewayPlan{
		MaxConnections: 1 + r.IntN(6), MaxPending: r.IntN(8), MaxIdle: r.IntN(6),
		MaxRequests: r.IntN(3) * r.IntN(10),
		Attempts:    r.IntN(4), Pending: ms(20, 1500), Connect: ms(20, 1000), PerTry: ms(0, 600),
		Timeout: ms(200, 3000), Stream: ms(100, 2000), Tunnel: ms(200, 3000),
		Head: ms(100, 2000), Idle: ms(200, 3000), Send: ms(200, 3000), MinBodyRate: r.IntN(2) * 240,
		Drain: ms(0, 2000), PerAddress: r.IntN(3) * 4, Active: r.IntN(2) == 0, Passive: r.IntN(5),
		Named: r.IntN(2) == 0, Backlog: 1 + r.IntN(64),
	}
	g.TLS, g.UpstreamTLS = r.IntN(5) == 0, r.IntN(8) == 0
	if r.IntN(3) == 0 {
		g.MaxConnections = 100
	}
	if quiet {
		g.MaxConnections, g.MaxPending, g.PerAddress = 2+r.IntN(100), 10000, 0
		g.MinBodyRate, g.Backlog = 0, 4096
		g.Pending, g.Connect, g.PerTry = 20*time.Second, 10*time.Second, 0
		g.Timeout, g.Stream = 30*time.Second, 20*time.Second
		g.Head, g.Idle, g.Send = 10*time.Second, 10*time.Second, 10*time.Second
		g.Drain = 10 * time.Minute
	}
	return g
}

func drawClient(r *rand.Rand, mood float64, span time.Duration) ClientPlan {
	c := ClientPlan{
		At: between(r, 0, span), Listener: r.IntN(2), From: 1 + r.IntN(4), Pipeline: r.IntN(4) == 0,
		Leave: -1, LeaveAt: -1,
		Window: 1<<10 + r.IntN(1<<18),
	}
	if r.IntN(2) == 0 {
		c.Pieces, c.Pause = 1+r.IntN(3000), between(r, 0, 30*time.Millisecond)
	}
	if r.IntN(4) == 0 {
		c.ReadRate, c.ReadWait = 1+r.IntN(20000), between(r, 0, 50*time.Millisecond)
	}
	for range 1 + r.IntN(1+r.IntN(12)) {
		c.Requests = append(c.Requests, drawRequest(r, mood))
	}
	// A client that asks for the end of a connection sends nothing after that (RFC 9112, section
	// 9.6).
	if c.Pipeline {
		for i := range c.Requests {
			c.Requests[i].Close, c.Requests[i].Old = false, false
		}
	}
	if r.IntN(30) == 0 { // a long series of requests that cost nothing
		c.Pipeline, c.Pieces = true, 0
		for range 300 {
			c.Requests = append(c.Requests, RequestPlan{Method: "GET", Path: "/own/", Body: -1})
		}
	}
	if r.Float64() < mood {
		switch r.IntN(5) {
		case 0, 1:
			c.Leave = r.IntN(1 + r.IntN(4000))
		case 2:
			c.LeaveAt = r.IntN(1 + r.IntN(200000))
		case 3:
			// Without min_body_rate, slower clients would read for longer than a run may take.
			c.ReadRate, c.ReadWait = 20+r.IntN(1000), between(r, 0, 2*time.Second)
			c.LeaveAt = r.IntN(10_000)
		}
		c.Manner = Manner(r.IntN(4))
	}
	return c
}

func drawRequest(r *rand.Rand, mood float64) RequestPlan {
	q := RequestPlan{Method: "GET", Body: -1, Path: paths[r.IntN(len(paths))]}
	switch r.IntN(10) {
	case 0:
		q.Method = "HEAD"
	case 1, 2:
		q.Method = "POST"
	case 3:
		q.Method = "PUT"
	case 4:
		q.Method = "DELETE"
	}
	if q.Method == "POST" || q.Method == "PUT" {
		q.Body = r.IntN(1 + r.IntN(1+r.IntN(300_000)))
		q.Chunked, q.Expect = r.IntN(2) == 0, r.IntN(6) == 0
	}
	if q.Method == "GET" && r.IntN(25) == 0 {
		q.Upgrade, q.Path = true, "/a/"
	}
	q.Old, q.Close = r.IntN(20) == 0 && !q.Chunked && !q.Upgrade && !q.Expect, r.IntN(15) == 0
	if r.Float64() < mood/10 {
		q.Spoiled = 1 + r.IntN(len(spoilers))
	}
	return q
}
