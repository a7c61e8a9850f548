package sim

import "time"

// simplifications simplify the world.
var simplifications = []func(*Scenario){
	func(s *Scenario) { s.Loops = 1 },
	func(s *Scenario) { s.Kernel.Fragment = 0 },
	func(s *Scenario) { s.Kernel.ShortWrite = 0 },
	func(s *Scenario) { s.Kernel.Subset = 0 },
	func(s *Scenario) { s.Kernel.WallSteps = 0 },
	func(s *Scenario) { s.Kernel.Meanwhile = 0 },
	func(s *Scenario) { s.Kernel.Sudden = 0 },
	func(s *Scenario) { s.Kernel.Stall, s.Kernel.StallFor = 0, 0 },
	func(s *Scenario) { s.Kernel.DialFails = 0 },
	func(s *Scenario) { s.Kernel.DialRefused = 0 },
	func(s *Scenario) { s.Kernel.DialLost = 0 },
	func(s *Scenario) { s.Kernel.Descriptors = plenty },
	func(s *Scenario) { s.Gateway.Named = false },
	func(s *Scenario) { s.Gateway.Active = false },
	func(s *Scenario) { s.Gateway.Attempts = 0 },
	func(s *Scenario) { s.Gateway.PerTry = 0 },
	func(s *Scenario) { s.Gateway.Passive = 0 },
	func(s *Scenario) { s.Gateway.TLS = false },
	func(s *Scenario) { s.Gateway.UpstreamTLS = false },
	func(s *Scenario) { s.Gateway.Via = false },
	func(s *Scenario) { s.Gateway.Weights = false },
	func(s *Scenario) { s.Gateway.MaxBody = 0 },
	func(s *Scenario) { s.Gateway.MaxClients = 0 },
	func(s *Scenario) { s.Gateway.HoldBody = 0 },
	func(s *Scenario) { s.HeldBodies = 0 },
	func(s *Scenario) { s.Gateway.SlowStart = 0 },
	func(s *Scenario) { s.Gateway.Slots = 0 },
	func(s *Scenario) { s.Gateway.Places = 0 },
	func(s *Scenario) { s.Gateway.Admission = 0 },
	func(s *Scenario) { s.Gateway.Adaptive = false },
	func(s *Scenario) { s.Gateway.Breaker = 0 },
	func(s *Scenario) { s.Gateway.Rate, s.Gateway.Algorithm, s.Gateway.Values = 0, "", 0 },
	func(s *Scenario) { s.Gateway.InFlight, s.Gateway.PerClient = 0, 0 },
	func(s *Scenario) { s.Gateway.Claims = false },
	func(s *Scenario) { s.Gateway.Ladder = false },
	func(s *Scenario) { s.Gateway.HTTP2 = [2]bool{} },
	func(s *Scenario) { s.Gateway.Protocols, s.Gateway.Shifting = [3]string{}, false },
	func(s *Scenario) { s.Gateway.Shifting = false },
	func(s *Scenario) { s.Gateway.MinBodyRate = 0 },
	func(s *Scenario) { s.Gateway.PerAddress = 0 },
	simplerSockets(func(p *WebSocketPlan) { p.Ping = 0 }),
	simplerSockets(func(p *WebSocketPlan) { p.Lifetime = 0 }),
	simplerSockets(func(p *WebSocketPlan) { p.MaxMessage = 0 }),
	simplerSockets(func(p *WebSocketPlan) { p.Max = 0 }),
	simplerCache(func(c *CachePlan) { c.Vices = 0 }),
	simplerCache(func(c *CachePlan) { c.Slow = 0 }),
	simplerCache(func(c *CachePlan) { c.MaxObject = 0 }),
	simplerCache(func(c *CachePlan) { c.Early = false }),
	simplerCache(func(c *CachePlan) { c.IgnoreClients = false }),
	simplerCache(func(c *CachePlan) { c.Longest = min(c.Longest, 1000) }),
}

// simplerCache simplifies the cache and its service.
func simplerCache(change func(*CachePlan)) func(*Scenario) {
	return func(s *Scenario) {
		if s.Cache != nil {
			c := *s.Cache
			change(&c)
			s.Cache = &c
		}
	}
}

// simplerSockets simplifies the route for WebSockets.
func simplerSockets(change func(*WebSocketPlan)) func(*Scenario) {
	return func(s *Scenario) {
		if s.WebSockets != nil {
			p := *s.WebSockets
			change(&p)
			s.WebSockets = &p
		}
	}
}

// nicer improve one service's behaviour.
var nicer = []func(*ServicePlan){
	func(p *ServicePlan) { p.Vices = 0 },
	func(p *ServicePlan) { p.Slow = 0 },
	func(p *ServicePlan) { p.Window = 0 },
	func(p *ServicePlan) { p.Early = 0 },
	func(p *ServicePlan) { p.Behind = 0 },
	func(p *ServicePlan) { p.Sip, p.Rest = 0, 0 },
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Upsets = 0 }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Fuss = 0 }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Resize, p.None = 0, false }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.GoAway, p.Rough = 0, false }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Rough = false }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Window, p.Step, p.Wait = usualWindow, 0, 0 }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Padded, p.Table = false, usualTable }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Frame, p.Pieces = usualFrame, 0 }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Streams = -1 }),
	nicerHTTP2(func(p *HTTP2ServicePlan) { p.Late, p.Mute, p.Eager = 0, false, false }),
}

// nicerHTTP2 improves a service's HTTP/2 behaviour, if it speaks HTTP/2.
func nicerHTTP2(change func(*HTTP2ServicePlan)) func(*ServicePlan) {
	return func(s *ServicePlan) {
		if s.HTTP2 != nil {
			p := *s.HTTP2
			change(&p)
			s.HTTP2 = &p
		}
	}
}

// plainer simplify one client's behaviour.
var plainer = []func(*ClientPlan){
	func(c *ClientPlan) { c.Pieces, c.Pause = 0, 0 },
	func(c *ClientPlan) { c.ReadRate, c.ReadWait = 0, 0 },
	func(c *ClientPlan) { c.Leave = -1 },
	func(c *ClientPlan) { c.LeaveAt = -1 },
	func(c *ClientPlan) { c.Pipeline = false },
	func(c *ClientPlan) { c.Plain = false },
	func(c *ClientPlan) { c.Stays = false },
	func(c *ClientPlan) { c.At = c.At.Round(100 * time.Millisecond) },
	func(c *ClientPlan) { c.HTTP2 = nil },
	simplerHTTP2(func(p *HTTP2Plan) { p.Act, p.ActAt = "", 0 }),
	simplerHTTP2(func(p *HTTP2Plan) { p.Fuss = 0 }),
	simplerHTTP2(func(p *HTTP2Plan) { p.Resize = 0 }),
	simplerHTTP2(func(p *HTTP2Plan) { p.GoAway = 0 }),
	simplerHTTP2(func(p *HTTP2Plan) { p.Window, p.Step, p.Wait = usualWindow, 0, 0 }),
	simplerHTTP2(func(p *HTTP2Plan) { p.Padded, p.Table = false, usualTable }),
	simplerHTTP2(func(p *HTTP2Plan) { p.Frame = 16_000 }),
	simplerHTTP2(func(p *HTTP2Plan) { p.Streams = 1 }),
}

// simplerHTTP2 simplifies a client's HTTP/2 behaviour, if it speaks HTTP/2.
func simplerHTTP2(change func(*HTTP2Plan)) func(*ClientPlan) {
	return func(c *ClientPlan) {
		if c.HTTP2 != nil {
			p := *c.HTTP2
			change(&p)
			c.HTTP2 = &p
		}
	}
}

// easier simplify one request.
var easier = []func(*RequestPlan){
	func(q *RequestPlan) { q.Spoiled = 0 },
	func(q *RequestPlan) { q.Torn = false },
	func(q *RequestPlan) { q.Class, q.Left = "", "" },
	func(q *RequestPlan) { q.Trailers = false },
	func(q *RequestPlan) { q.Query, q.Absolute = false, false },
	func(q *RequestPlan) { q.Expect, q.Waits = false, false },
	func(q *RequestPlan) { q.Close, q.Old = false, false },
	func(q *RequestPlan) { q.Upgrade = false },
	func(q *RequestPlan) { q.Reset, q.Halts = "", false },
	func(q *RequestPlan) { q.Chunked = false },
	easierSocket(func(p *SocketPlan) { p.Early = false }),
	easierSocket(func(p *SocketPlan) { p.Client.Messages, p.Client.Finale = 0, "closes" }),
	easierSocket(func(p *SocketPlan) { p.Service.Messages, p.Service.Finale = 0, "closes" }),
	easierSocket(func(p *SocketPlan) { p.Client.Longest, p.Client.Pause, p.Client.Mute = 10, 0, false }),
	easierSocket(func(p *SocketPlan) { p.Service.Longest, p.Service.Pause, p.Service.Mute = 10, 0, false }),
	func(q *RequestPlan) { q.Body = min(q.Body, 10) },
	func(q *RequestPlan) {
		if q.Cached != nil {
			q.Cached = &CachedPlan{Key: q.Cached.Key}
		}
	},
}

// easierSocket simplifies the messages on a request's WebSocket.
func easierSocket(change func(*SocketPlan)) func(*RequestPlan) {
	return func(q *RequestPlan) {
		if q.WebSocket != nil {
			p := *q.WebSocket
			change(&p)
			q.WebSocket = &p
		}
	}
}
