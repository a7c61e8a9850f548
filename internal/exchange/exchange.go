// Package exchange holds one request and its response on their way through the gateway, and the
// contract of the policies that look at them. It knows nothing of protocol versions, sockets or
// upstream connections: those belong to the code that carries the exchange.
package exchange

import (
	"net/netip"
	"strconv"

	"plimsoll/internal/head"
)

// Exchange is one request and its response. It lives on one loop, and nothing but that loop may
// touch it; a policy that needs another goroutine takes a Hold. Exchanges are reused: no reference
// to one, or to bytes in it, outlives Done.
type Exchange struct {
	Request  *head.Request
	Response *head.Response // filled from the response phase on; before it, empty
	Body     []byte         // of an answer made by the gateway itself
	// Source is the body of such an answer where it is not in memory; nil else. A policy that holds
	// the exchange may set it before, so that it is closed when the exchange ends meanwhile.
	Source  Source
	Encoder Encoder // of the response's content; nil for none
	// Relayed says that the gateway's answer is an upstream's, stored: it is passed on as one.
	Relayed bool
	Step    Step // which step of the ladder the answer is

	Peer netip.AddrPort // the other end of the client's socket
	// the peer's address, unmapped, as text, kept by the connection; nil where nobody did
	PeerText []byte
	Client   netip.Addr // whose request it is: the peer, or the address that a trusted peer forwarded
	// the peer is one of the listener's trusted proxies, and what it says of its client makes sense
	PeerTrusted bool
	TLS         *TLS   // nil for plain text
	Listener    string // the listener's address as configured

	Route    string // the route's name
	Class    uint8  // the SLA class, 0 for P0
	Params   Params // the values of the route's pattern; nil where none matched
	Forward  []byte // the path that is forwarded; Request.Path unless a policy rewrites it
	Upstream int    // index of the upstream that a proxying route sends to; a policy may choose another
	Mirror   int    // index of the upstream that gets a copy, or NoUpstream
	// MirrorBody is the longest request body in bytes that is copied to Mirror; a longer one ends
	// the copy. It counts where Mirror is set.
	MirrorBody int64
	// the longest request body in bytes, 0 for no bound: longer ones end in 413, whenever that
	// shows
	MaxBody int64

	// RateLimit and RateLimitPolicy are what the fields of these names will say in the response, no matter
	// who makes that: limits decide in the request phase. Empty where no limit says anything.
	RateLimit, RateLimitPolicy []byte

	// EarlyHints is what Link says in the 103 that the client gets before it has to wait for an upstream;
	// nil for none. It must not change any more. Protocols that have no safe 103 send none.
	EarlyHints []byte

	WebSocket bool // the request asks for an upgrade to WebSocket, in the way of its protocol
	Tunnel    bool // policy/tunnels has counted the exchange

	InFlight uint64 // what policy/inflight counts of the exchange, in its own terms; 0 for nothing

	CacheNote uint32 // what policy/cache notes of the exchange, in its own terms; 0 for nothing
	CacheKey  []byte // what policy/cache will look up when the response comes; nil for nothing
	// Makeshift says that the response could have been better and was made in haste, as a compressed one
	// is that a busy gateway leaves as it is. A cache keeps it for a short time only.
	Makeshift bool

	ID           []byte // the request id, empty where no policy made one
	Target       string // the address of the target that was used last, empty before
	UpstreamName string // the name of the upstream that was used, empty before
	Start        int64  // when the head was complete, monotonic nanoseconds of the loop
	Reason       Reason // why the gateway answered in the upstream's stead, or cut the exchange
	Attempts     uint8  // tries made upstream

	arena   arena
	engine  Engine
	holdEnd holdEnd
	life    uint64 // counts the lives of this struct, so that a Hold of an earlier one is seen to be stale
}

// NoUpstream is the index of no upstream.
const NoUpstream = -1

// Params finds the value that a pattern's name matched, percent-encoded as it stands in the
// canonical path, or nil.
type Params interface {
	Value(name string) []byte
}

// TLS is what is known of a client's TLS connection. It is shared by the connection's exchanges and
// not changed.
type TLS struct {
	Version    string // "1.2" or "1.3"
	ServerName string // SNI, empty when none was sent
	Subject    string // of the client's verified certificate, empty without one
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

// Backlog is how long, in nanoseconds, what is ready waits until the loop looks at it, over some tens
// of milliseconds: how busy the loop is. The first call of a turn costs a system call.
func (x *Exchange) Backlog() int64 { return x.engine.Backlog() }

// Begin makes the exchange ready for its next life. Only the engine calls it.
func (x *Exchange) Begin(engine Engine) {
	arena, life, request, response := x.arena, x.life, x.Request, x.Response
	*x = Exchange{Request: request, Response: response, arena: arena, engine: engine, life: life +
		1, Mirror: NoUpstream, Upstream: NoUpstream}
	x.arena.reset()
}

// Finish ends the life that Begin began, so that holds of it are stale from now on. Only the engine
// calls it.
func (x *Exchange) Finish() { x.life++ }

// Life numbers the exchange's present life.
func (x *Exchange) Life() uint64 { return x.life }

// Alloc is n bytes that live until the exchange is over. Loop only.
func (x *Exchange) Alloc(n int) []byte { return x.arena.alloc(n) }

// Allocated is the memory that Alloc has given, as far as it comes from the exchange's own block.
func (x *Exchange) Allocated() []byte { return x.arena.block[:x.arena.used] }

// RetryAfter adds the field that says in how many seconds a refused request may come again. It is
// called after Answer or Refuse.
func (x *Exchange) RetryAfter(seconds int) {
	x.Response.Fields.Add(retryAfter, strconv.AppendInt(x.arena.alloc(20)[:0], int64(seconds), 10))
}

var retryAfter = []byte("Retry-After")

// Answer sets the response that the gateway itself gives: a status, why, and a body that must stay
// unchanged until the exchange is over. Fields are added to Response.Fields afterwards.
func (x *Exchange) Answer(status int, reason Reason, body []byte) {
	x.CloseSource()
	x.CloseEncoder()
	x.Response.Fields.Reset()
	x.Response.Status, x.Response.Length = status, int64(len(body))
	x.Body, x.Reason, x.Relayed, x.Step = body, reason, false, StepLive
}
