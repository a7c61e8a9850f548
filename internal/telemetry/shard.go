package telemetry

import (
	"plimsoll/internal/grpc"
	"plimsoll/internal/hist"
	"plimsoll/internal/http1"
	"plimsoll/internal/http2"
	"plimsoll/internal/http3"
)

// Bounds of the tables that a shard counts in. Registry's Options may name at most so many.
const (
	maxReasons     = 64
	maxEnds        = 8
	maxFailures    = 16
	maxBufferSizes = 16
)

// What a trusted peer may claim of a request.
const (
	ClassClaim = iota
	DeadlineClaim
	Claims // how many there are
)

// ConnRefusal is why a connection was closed right after it was accepted. The set is closed.
type ConnRefusal uint8

// The refusals of connections.
const (
	OutOfDescriptors ConnRefusal = iota // no descriptor left but the reserve
	ListenerFull                        // the listener's max_connections
	AddressFull                         // the client address's share
	connRefusals
)

var connRefusalText = [connRefusals]string{"out_of_descriptors", "listener_full", "address_full"}

// String is the refusal's label.
func (r ConnRefusal) String() string { return connRefusalText[r] }

// TLSVersion is what handshakes are counted by.
type TLSVersion uint8

// The versions of TLS that listeners speak.
const (
	TLS12 TLSVersion = iota
	TLS13
	tlsVersions
)

var tlsVersionText = [tlsVersions]string{"1.2", "1.3"}

// Codes counts by class of status: index 1 to 5 for 1xx to 5xx, 0 where no status was sent.
type Codes [6]uint64

var codeText = [len(Codes{})]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// ByClass are the counts that are not zero by their label: "2xx" and so on, "none" where no status
// was sent.
func (c *Codes) ByClass() map[string]uint64 {
	m := make(map[string]uint64)
	for i, n := range c {
		if n > 0 {
			m[codeText[i]] = n
		}
	}
	return m
}

// class is the index of a status in Codes.
func class(status int) int {
	c := status / 100
	if c < 1 || c >= len(Codes{}) {
		return 0
	}
	return c
}

// Counters are the plain numbers of one loop. The loop adds to them as to any field; all but those
// under "as of now" only grow.
type Counters struct {
	Requests uint64 // exchanges ended; Exchange counts it

	// client connections that were taken in, and those of them that have ended
	Accepted, Closed uint64
	// of those, ended because the client took what it was given too slowly
	SlowConnections    uint64
	RefusedConnections [connRefusals]uint64
	RefusedRequests    [http1.Errors]uint64  // by the codec's error
	RefusedHTTP2       [http2.Reasons]uint64 // frames, heads and connections of HTTP/2, by reason
	HTTP2Resets        uint64                // streams that clients reset
	SlowStreams        uint64                // streams whose windows clients opened too slowly
	RefusedHTTP3       [http3.Reasons]uint64 // frames, requests and connections of HTTP/3, by reason
	RefusedHeads3      [http2.Reasons]uint64 // requests of HTTP/3 that break a rule of messages
	HTTP3Resets        uint64                // streams that clients reset
	SlowStreams3       uint64                // streams whose response clients took too slowly
	HTTP2Shed          uint64                // streams reset because the loop held too much content
	UpstreamFaults2    [http2.Reasons]uint64 // what targets of HTTP/2 did wrong, by reason
	EarlyHints         uint64                // 103 responses that the gateway made itself
	NotAdmitted        [Classes]uint64       // requests that admission refuses, or would in shadow mode
	// finished ones, by version and whether the session was resumed (1) or not (0)
	Handshakes        [tlsVersions][2]uint64
	HandshakeFailures [maxFailures]uint64 // index of Options.HandshakeFailures

	// Bytes on sockets, without TLS's own. Exchange adds its exchange's to the client's two.
	ClientReceived, ClientSent     uint64
	UpstreamReceived, UpstreamSent uint64

	Ends    [maxEnds]uint64    // exchanges by how they ended; Exchange counts it
	Reasons [maxReasons]uint64 // exchanges by the gateway's reason; Exchange counts it

	MirrorsSent    uint64
	MirrorsDropped uint64 // too many were under way
	MirrorsTooLong uint64

	ClaimsIgnored [Claims]uint64 // of trusted peers, because they made no sense

	Turns  uint64 // of the loop
	BusyNS uint64 // the loop was not waiting
	CPUNS  uint64 // the loop's thread used of a CPU

	// As of now.
	Active     int64                 // exchanges under way
	BuffersOut [maxBufferSizes]int64 // buffers handed out, index of Options.BufferSizes
	HTTP2      HTTP2Now
}

// HTTP2Now are clients' connections of HTTP/2 as of now.
type HTTP2Now struct {
	Connections, Streams int64
	Heaviest             int64 // streams of the connection that has the most
}

// RouteStats is what is counted for one route.
type RouteStats struct {
	Codes   Codes
	Total   hist.Histogram // from the request's head to the end of the response
	Gateway hist.Histogram // of that, what the gateway itself added
	// By SLA class. A reload may give the route another one, and what was good under the objective
	// of the one before says nothing about the new one's.
	SLO [Classes]SLOCounts
	// Reasons: exchanges by the gateway's reason; index of Options.Reasons. What has none is not
	// counted, so that such an exchange touches no memory here.
	Reasons [maxReasons]uint64

	WebSocket WebSocketStats
	// gRPC calls by the status that they ended with, and their messages.
	GRPC                           [grpc.Codes]uint64
	MessagesReceived, MessagesSent uint64
}

// Classes is how many SLA classes there are: P0 to P9.
const Classes = 10

// SLOCounts are exchanges that count for an objective, and how many of them met it. Both only grow.
type SLOCounts struct{ Requests, Good uint64 }

// ObjectiveVerdict says whether an exchange met its route's objective.
type ObjectiveVerdict uint8

// The verdicts. The zero value is that of exchanges that say nothing about the service.
const (
	NotJudged ObjectiveVerdict = iota
	Good
	Bad
)

// version grows whenever anything in s changes.
func (s *RouteStats) version() uint64 { return s.Total.Count() + s.WebSocket.version() }

// UpstreamStats is what is counted for one upstream. The loop adds to the plain fields itself.
type UpstreamStats struct {
	Codes    Codes
	Duration hist.Histogram // waiting for the upstream, in exchanges that used it

	Opened          uint64 // connections to it
	Reused          uint64 // requests sent on a connection that had carried one before
	ConnectFailures uint64
	Retries         uint64 // tries after the first
	RetriesRefused  uint64 // tries that the retry budget did not allow
	// connections taken from clients that kept them waiting while others waited
	Reclaimed uint64
}

// version grows whenever anything in s changes.
func (s *UpstreamStats) version() uint64 {
	return s.Duration.Count() + s.Opened + s.Reused + s.ConnectFailures + s.Retries +
		s.RetriesRefused + s.Reclaimed
}

// Shard is one loop's counters. Only that loop may touch it, so that counting is plain addition: no
// atomics, no locks, and no cache line that two CPUs contend for. A reader asks the loop for a
// copy: Registry.Collect.
type Shard struct {
	Counters

	// Refresh, when set, runs on the loop at the beginning of each collection. It brings up to date
	// what is known elsewhere: Turns, BusyNS, CPUNS, Active, BuffersOut, HTTP2.
	Refresh func(*Shard)

	routes    []*RouteStats // nil until the route's first exchange
	upstreams []*UpstreamStats

	_ [64]byte // no cache line is shared with what another loop writes
}

// ExchangeStats is what Shard.Exchange needs to know about an exchange that is over. Durations are
// nanoseconds.
type ExchangeStats struct {
	Route    int   // from Registry.Route, or NoRoute
	Upstream int   // from Registry.Upstream, or NoUpstream
	Status   int   // as sent to the client, 0 for none
	Reason   uint8 // index of Options.Reasons
	End      uint8 // index of Options.Ends
	Retries  uint8 // tries after the first
	Class    uint8 // the SLA class, 0 for P0
	Verdict  ObjectiveVerdict

	Total        int64 // from the request's head to the end of the response
	UpstreamTime int64 // of that spent waiting for the upstream; ignored for NoUpstream
	Gateway      int64 // of that which the gateway itself added

	BytesIn, BytesOut int64 // read from and written to the client

	Call *CallStats // of a gRPC call; nil for other exchanges
}

// CallStats is what Shard.Exchange needs to know about a gRPC call besides.
type CallStats struct {
	Code           grpc.Code // that the call ended with
	Received, Sent int64     // messages from the client, and to it
}

// Exchange counts an exchange that is over. It allocates only at a route's or an upstream's first
// one.
func (s *Shard) Exchange(e *ExchangeStats) {
	s.Requests++
	s.ClientReceived += uint64(e.BytesIn)
	s.ClientSent += uint64(e.BytesOut)
	s.Reasons[e.Reason%maxReasons]++
	s.Ends[e.End%maxEnds]++

	code := class(e.Status)
	route := at(s.routes, e.Route)
	route.Codes[code]++
	route.Total.Record(e.Total)
	route.Gateway.Record(e.Gateway)
	if e.Reason != 0 {
		route.Reasons[e.Reason%maxReasons]++
	}
	if e.Verdict != NotJudged {
		slo := &route.SLO[e.Class%Classes]
		slo.Requests++
		if e.Verdict == Good {
			slo.Good++
		}
	}
	if c := e.Call; c != nil {
		route.GRPC[c.Code%grpc.Codes]++
		route.MessagesReceived += uint64(c.Received)
		route.MessagesSent += uint64(c.Sent)
	}
	if e.Upstream < 0 {
		return
	}
	upstream := at(s.upstreams, e.Upstream)
	upstream.Codes[code]++
	upstream.Duration.Record(e.UpstreamTime)
	upstream.Retries += uint64(e.Retries)
}

// Route is the counters of a route on this loop, for adding to its WebSocket; Upstream says more.
func (s *Shard) Route(index int) *RouteStats { return at(s.routes, index) }

// Upstream is the counters of an upstream on this loop, for adding to the plain fields. It stays
// valid; one that was asked for before Grow made room for the index is that of other.
func (s *Shard) Upstream(index int) *UpstreamStats { return at(s.upstreams, index) }

// Grow makes room for indices below routes and upstreams; Registry.Sizes gives both. A loop calls
// it when it takes over a new config, before the first exchange under that config; an index without
// room counts as other.
func (s *Shard) Grow(routes, upstreams int) {
	s.routes = grown(s.routes, routes)
	s.upstreams = grown(s.upstreams, upstreams)
}

func grown[T any](list []*T, size int) []*T {
	if size <= len(list) {
		return list
	}
	return append(list, make([]*T, size-len(list))...)
}

// at is the counters at an index, made at their first use. Most series of a large config are never
// used by most loops.
func at[T any](list []*T, index int) *T {
	if uint(index) >= uint(len(list)) {
		index = other
	}
	if list[index] == nil {
		list[index] = new(T)
	}
	return list[index]
}
