package gateway

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"plimsoll/internal/proxy"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
)

// ListenerStatus is an address that accepts clients.
type ListenerStatus struct {
	Address    string           `json:"address"`
	Bound      string           `json:"bound"` // the address with the port chosen for port 0
	TLS        bool             `json:"tls"`
	Accepting  bool             `json:"accepting"`
	Open       int64            `json:"open"`
	Handshakes *HandshakeStatus `json:"handshakes,omitempty"`
}

// HandshakeStatus is the number of a listener's TLS handshakes at this moment.
type HandshakeStatus struct {
	InFlight int `json:"in_flight"`
	Waiting  int `json:"waiting"`
}

// LoopConnections are the client connections of one loop.
type LoopConnections struct {
	Loop     int    `json:"loop"`
	Open     int64  `json:"open"`
	Accepted uint64 `json:"accepted"`
}

// ConnectionsStatus are the connections of clients.
type ConnectionsStatus struct {
	Open int64 `json:"open"`
	// Allowed is the most that the descriptor limit leaves for clients.
	Allowed   int64             `json:"allowed"`
	Accepted  uint64            `json:"accepted"`
	Refused   map[string]uint64 `json:"refused"` // by reason
	InFlight  int64             `json:"requests_in_flight"`
	Listeners []ListenerStatus  `json:"listeners"`
	Loops     []LoopConnections `json:"loops"`
	// Oldest are the connections that have been open the longest, oldest first.
	Oldest []ClientStatus `json:"oldest"`
}

// ClientStatus is one connection of a client.
type ClientStatus struct {
	Loop       int            `json:"loop"`
	Client     netip.AddrPort `json:"client"` // the peer, before any X-Forwarded-For
	Listener   string         `json:"listener"`
	TLS        string         `json:"tls,omitempty"`
	ServerName string         `json:"server_name,omitempty"`
	AgeSeconds float64        `json:"age_seconds"`
	State      string         `json:"state"`
	Requests   uint32         `json:"requests"`
	Streams    int            `json:"streams,omitempty"` // open ones, of HTTP/2
	Queued     int            `json:"bytes_queued"`
	Exchange   *ExchangeNow   `json:"exchange,omitempty"`
}

// ExchangeNow is the present exchange of a connection.
type ExchangeNow struct {
	Method     string  `json:"method"`
	Host       string  `json:"host"`
	Path       string  `json:"path"`
	Route      string  `json:"route"`
	Target     string  `json:"target,omitempty"`
	AgeSeconds float64 `json:"age_seconds"`
	BytesIn    int64   `json:"bytes_in"`
	BytesOut   int64   `json:"bytes_out"`
}

// listedClients is how many connections are described at most, for one loop and in total.
const listedClients = 100

// Connections describes the client connections.
func (g *Gateway) Connections() ConnectionsStatus {
	s := g.registry.Collect(g.ask)
	c := ConnectionsStatus{
		Open: g.shared.Clients.Load(), Allowed: g.shared.MaxClients.Load(), Accepted: s.Accepted,
		Refused:  map[string]uint64{},
		InFlight: s.Active, Listeners: []ListenerStatus{}, Oldest: []ClientStatus{},
	}
	for reason, n := range s.RefusedConnections {
		c.Refused[telemetry.ConnRefusal(reason).String()] = n
	}
	for _, l := range g.view().listeners {
		ls := ListenerStatus{Address: l.address, Bound: l.bound, TLS: l.limiter != nil,
			Accepting: l.accepting.Load(), Open: l.quota.Open()}
		if l.limiter != nil {
			limiter := l.limiter.Stats()
			ls.Handshakes = &HandshakeStatus{limiter.InFlight, limiter.Waiting}
		}
		c.Listeners = append(c.Listeners, ls)
	}
	now := reactor.Clock()
	for i, counters := range s.Loops {
		c.Loops = append(c.Loops, LoopConnections{i, int64(counters.Accepted - counters.Closed),
			counters.Accepted})
		var clients []proxy.ClientStatus
		if !g.Call(i, func() { clients = g.workers[i].OldestClients(listedClients) }) {
			continue
		}
		for _, client := range clients {
			c.Oldest = append(c.Oldest, clientStatus(i, client, now))
		}
	}
	slices.SortStableFunc(c.Oldest, func(a, b ClientStatus) int {
		return cmp.Compare(b.AgeSeconds, a.AgeSeconds)
	})
	c.Oldest = c.Oldest[:min(len(c.Oldest), listedClients)]
	return c
}

func clientStatus(loop int, c proxy.ClientStatus, now int64) ClientStatus {
	s := ClientStatus{
		Loop: loop, Client: c.Peer, Listener: c.Listener, TLS: c.TLS, ServerName: c.Name,
		AgeSeconds: secondsSince(c.Since, now),
		State:      c.State, Requests: c.Requests, Streams: c.Streams, Queued: c.Queued,
	}
	if c.Began > 0 {
		s.Exchange = &ExchangeNow{Method: c.Method, Host: c.Host, Path: c.Path, Route: c.Route,
			Target:     c.Target,
			AgeSeconds: secondsSince(c.Began, now), BytesIn: c.BytesIn, BytesOut: c.BytesOut}
	}
	return s
}

func secondsSince(then, now int64) float64 { return round(max(0, float64(now-then)/1e9)) }

// LoopStatus describes an event loop over the time of observation.
type LoopStatus struct {
	Loop        int              `json:"loop"`
	Busy        float64          `json:"busy"` // share of the time when it was not waiting, 0 to 1
	CPU         float64          `json:"cpu"`  // share of a CPU that its thread used, 0 to 1
	Requests    float64          `json:"requests_per_second"`
	CPUPer      float64          `json:"cpu_us_per_request"` // 0 when there was no request
	Turns       float64          `json:"turns_per_second"`
	Connections int64            `json:"connections"`
	InFlight    int64            `json:"requests_in_flight"`
	HTTP2       HTTP2Status      `json:"http2"`
	Buffers     map[string]int64 `json:"buffers_out"` // by size in bytes
}

// HTTP2Status describes the clients' HTTP/2 connections on a loop.
type HTTP2Status struct {
	Connections int64 `json:"connections"`
	Streams     int64 `json:"streams"`
	Heaviest    int64 `json:"heaviest_streams"` // streams of the connection with the most
}

// LoopsStatus describes the event loops over a time of observation.
type LoopsStatus struct {
	OverSeconds float64      `json:"over_seconds"`
	Loops       []LoopStatus `json:"loops"`
}

// Loops observes the event loops for the given time and describes what they did meanwhile. It gives
// up when ctx ends.
func (g *Gateway) Loops(ctx context.Context, over time.Duration) (LoopsStatus, error) {
	before, began := g.registry.Collect(g.ask), reactor.Clock()
	timer := time.NewTimer(over)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return LoopsStatus{}, ctx.Err()
	}
	after, ended := g.registry.Collect(g.ask), reactor.Clock()
	s := LoopsStatus{OverSeconds: float64(ended-began) / 1e9, Loops: []LoopStatus{}}
	for i := range after.Loops {
		s.Loops = append(s.Loops, loopStatus(i, &before.Loops[i], &after.Loops[i], ended-began))
	}
	return s, nil
}

func loopStatus(i int, before, after *telemetry.Counters, wall int64) LoopStatus {
	seconds := float64(max(wall, 1)) / 1e9
	share := func(ns uint64) float64 { return round(min(1, float64(ns)/1e9/seconds)) }
	s := LoopStatus{
		Loop: i, Busy: share(after.BusyNS - before.BusyNS), CPU: share(after.CPUNS - before.CPUNS),
		Turns:       round(float64(after.Turns-before.Turns) / seconds),
		Connections: int64(after.Accepted - after.Closed), InFlight: after.Active,
		HTTP2: HTTP2Status(after.HTTP2), Buffers: map[string]int64{},
	}
	if n := after.Requests - before.Requests; n > 0 {
		s.Requests = round(float64(n) / seconds)
		s.CPUPer = round(float64(after.CPUNS-before.CPUNS) / 1e3 / float64(n))
	}
	for class, size := range bufferLabels() {
		s.Buffers[size] = after.BuffersOut[class]
	}
	return s
}
