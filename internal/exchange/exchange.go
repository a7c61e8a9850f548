// Package exchange defines the exchange, which is one request and its response on their way through
// the gateway, and the interfaces of the policies that act on it. It knows nothing of protocol
// versions, sockets or upstream connections: those belong to the code that carries the exchange.
package exchange

import (
	"net/netip"
	"strconv"

	"plimsoll/internal/head"
)

// Exchange is one request and its response. It lives on one loop, and only that loop may access it.
// A policy that needs another goroutine takes a Hold. Exchanges are reused: no reference to an
// exchange, or to bytes in it, may be kept beyond Done.
type Exchange struct {
	Request  *head.Request
	Response *head.Response // filled from the response phase on; before it, empty
	Body     []byte         // of an answer made by the gateway itself
	// Source is the body of such an answer if it is not in Body; nil otherwise. A policy that holds
	// the exchange may set it early, so that it is closed if the exchange ends meanwhile.
	Source  Source
	Encoder Encoder // encodes the response's content; nil for none
	// Relayed says that the gateway's answer is a stored answer of an upstream. It is forwarded
	// like one that comes from an upstream.
	Relayed bool
	Step    Step // which step of the ladder the answer is

	Peer netip.AddrPort // the other end of the client's socket
	// the peer's address, unmapped, as text, if the connection has kept it; nil otherwise
	PeerText []byte
	Client   netip.Addr // the client's address: the peer's, or the one from a trusted peer
	// the peer is one of the listener's trusted proxies, and what it forwards about its client is
	// valid
	PeerTrusted bool
	TLS         *TLS   // nil for plain text
	Listener    string // the listener's address as configured

	Route    string // the route's name
	Class    uint8  // the SLA class, 0 for P0
	Params   Params // the values of the route's pattern; nil if none matched
	Forward  []byte // the path to forward; Request.Path unless a policy rewrites it
	Upstream int    // index of the upstream that a proxying route sends to; a policy may choose another
	Mirror   int    // index of the upstream that gets a copy, or NoUpstream
	// MirrorBody is the longest request body, in bytes, that is copied to Mirror; a longer body
	// ends the copy. It is used only if Mirror is set.
	MirrorBody int64
	// the longest request body in bytes, 0 for no bound; a longer body gets 413 as soon as its
	// length shows
	MaxBody int64

	// RateLimit and RateLimitPolicy are the values of the fields with these names in the response,
	// whether it is the gateway's or the upstream's: limits decide in the request phase. They are
	// empty if no limit sets them.
	RateLimit, RateLimitPolicy []byte

	// EarlyHints is the value of Link in the 103 response that the client gets before it waits for
	// an upstream; nil for none. The bytes must not change. Protocols in which a 103 is not safe
	// send none.
	EarlyHints []byte

	WebSocket bool // the request asks for a WebSocket, in the way of its protocol
	Tunnel    bool // policy/tunnels has counted the exchange

	InFlight uint64 // private to policy/inflight; 0 for nothing counted

	CacheNote uint32 // private to policy/cache; 0 for nothing noted
	CacheKey  []byte // the key that policy/cache will look up when the response comes; nil for none
	// Makeshift says that the response is not as good as it could be because the gateway is busy:
	// it is not compressed. A cache keeps it only for a short time.
	Makeshift bool

	ID           []byte // the request id; empty if no policy made one
	Target       string // the address of the last target used; empty before there is one
	UpstreamName string // the name of the upstream used; empty before there is one
	Start        int64  // when the head was complete, monotonic nanoseconds of the loop
	Reason       Reason // why the gateway answered instead of the upstream, or cut the exchange
	Attempts     uint8  // attempts made upstream

	arena   arena
	engine  Engine
	holdEnd holdEnd
	life    uint64 // counts the lives of this struct, to recognise a Hold of an earlier one
}

// NoUpstream is the index of no upstream.
const NoUpstream = -1

// Params returns the value that a name in the pattern matched, percent-encoded as in the canonical
// path, or nil if there is none.
type Params interface {
	Value(name string) []byte
}

// TLS describes a client's TLS connection. It is shared by the connection's exchanges and must not
// be changed.
type TLS struct {
	Version    string // "1.2" or "1.3"
	ServerName string // SNI, empty when none was sent
	Subject    string // of the client's verified certificate; empty without one
	Resumed    bool
}

// Engine carries exchanges. The data plane implements it.
type Engine interface {
	// Resume runs then on the exchange's loop, if the exchange is still in the given life, and goes
	// on with the chain as the verdict says. Any goroutine may call it.
	Resume(x *Exchange, life uint64, then func(*Exchange) PolicyVerdict)
	// Wake goes on with the exchange's source or sink, on its loop, if the exchange is still in the
	// given life. Any goroutine may call it.
	Wake(x *Exchange, life uint64)
	// Fetch is Exchange.Fetch. Loop only.
	Fetch(x *Exchange, req *head.Request, sink Sink) bool
	// Now is the time of the loop's turn, monotonic nanoseconds. Loop only.
	Now() int64
	// LoopID is the index of the loop.
	LoopID() int
	// Backlog is Exchange.Backlog. Loop only.
	Backlog() int64
}

// Now is the time of the loop's turn, monotonic nanoseconds.
func (x *Exchange) Now() int64 { return x.engine.Now() }

// Loop is the index of the loop that the exchange is on: a policy that keeps a part for each loop
// writes to this one.
func (x *Exchange) Loop() int { return x.engine.LoopID() }

// Backlog is how long, in nanoseconds, ready events wait for the loop, averaged over some tens of
// milliseconds. It shows how busy the loop is. The first call in a turn makes a system call.
func (x *Exchange) Backlog() int64 { return x.engine.Backlog() }

// Begin prepares the exchange for its next life. Only the engine calls it.
func (x *Exchange) Begin(engine Engine) {
	arena, life, request, response := x.arena, x.life, x.Request, x.Response
	*x = Exchange{Request: request, Response: response, arena: arena, engine: engine, life: life +
		1, Mirror: NoUpstream, Upstream: NoUpstream}
	x.arena.reset()
}

// Finish ends the life that Begin began, so that its holds are stale from now on. Only the engine
// calls it.
func (x *Exchange) Finish() { x.life++ }

// Life numbers the exchange's present life.
func (x *Exchange) Life() uint64 { return x.life }

// Alloc returns n bytes that live until the exchange is over. Loop only.
func (x *Exchange) Alloc(n int) []byte { return x.arena.alloc(n) }

// Allocated is the part of the memory given out by Alloc that comes from the exchange's own block.
func (x *Exchange) Allocated() []byte { return x.arena.block[:x.arena.used] }

// RetryAfter adds the Retry-After field: in how many seconds a refused request may be sent again.
// Call it after Answer or Refuse.
func (x *Exchange) RetryAfter(seconds int) {
	x.Response.Fields.Add(retryAfter, strconv.AppendInt(x.arena.alloc(20)[:0], int64(seconds), 10))
}

var retryAfter = []byte("Retry-After")

// Answer sets the gateway's own response: its status, the reason, and a body that must stay
// unchanged until the exchange is over. Callers add fields to Response.Fields afterwards.
func (x *Exchange) Answer(status int, reason Reason, body []byte) {
	x.CloseSource()
	x.CloseEncoder()
	x.Response.Fields.Reset()
	x.Response.Status, x.Response.Length = status, int64(len(body))
	x.Body, x.Reason, x.Relayed, x.Step = body, reason, false, StepLive
}
