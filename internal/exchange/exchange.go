// Package exchange holds one request and its response on their way through the gateway, and the
// contract of the policies that look at them. It knows nothing of protocol versions, sockets or
// upstream connections: those belong to whoever carries the exchange.
package exchange

import (
	"net/netip"

	"plimsoll/internal/head"
)

// Exchange is one request and its response. It lives on one loop, and nothing but that loop may
// touch it; a policy that needs another goroutine takes a Hold. Exchanges are reused: no reference
// to one, or to bytes in it, outlives Done.
type Exchange struct {
	Request  *head.Request
	Response *head.Response // filled from the response phase on; before it, empty
	Body     []byte         // of an answer made by the gateway itself

	Peer        netip.AddrPort // the other end of the client's socket
	PeerText    []byte         // the peer's address, unmapped, as text, kept by the connection; nil where nobody did
	Client      netip.Addr     // whose request it is: the peer, or the address that a trusted peer forwarded
	PeerTrusted bool           // the peer is one of the listener's trusted proxies, and what it says of its client makes sense
	TLS         *TLS           // nil for plain text
	Listener    string         // the listener's address as configured

	Route    string // the route's name
	Class    uint8  // the SLA class, 0 for P0
	Params   Params // the values of the route's pattern; nil where none matched
	Forward  []byte // the path that is forwarded; Request.Path unless a policy rewrites it
	Upstream int    // index of the upstream that a proxying route sends to; a policy may choose another
	Mirror   int    // index of the upstream that gets a copy, or NoUpstream
	// MirrorBody is the longest request body in bytes that is copied to Mirror; a longer one ends
	// the copy. It counts where Mirror is set.
	MirrorBody int64
	MaxBody    int64 // the longest request body in bytes, 0 for no bound: longer ones end in 413, whenever that shows

	ID           []byte // the request id, empty where no policy made one
	Target       string // the address of the target that was used last, empty before
	UpstreamName string // the name of the upstream that was used, empty before
	Start        int64  // when the head was complete, monotonic nanoseconds of the loop
	Reason       Reason // why the gateway answered in the upstream's stead, or cut the exchange
	Attempts     uint8  // tries made upstream

	arena  arena
	engine Engine
	life   uint64 // counts the lives of this struct, so that a Hold of an earlier one is seen to be stale
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

// PolicyVerdict is what a policy decides in the request or the response phase.
type PolicyVerdict uint8

const (
	Continue PolicyVerdict = iota // go on to the next policy, and after the last to the action
	Answered                      // the policy has called Answer: skip the rest, send that
	Held                          // the policy has taken a Hold and will resume it
)

// End says how an exchange ended.
type End uint8

const (
	Completed      End = iota // the response went out whole
	ClientGone                // the client went away first; nobody's failure
	GatewayAnswer             // the gateway answered by itself (a policy, no route, a refusal)
	UpstreamFailed            // the upstream failed: the client got 502, 503 or 504, or a cut-off response
)

// A policy acts in one or more of three phases: request, response and done. For each it implements
// one of these. It is made once for a route and used by all loops at the same time: what it keeps
// must be immutable or atomic. Its methods run on a loop and must not block, nor take a lock that
// may be waited for.

// RequestPolicy acts when a request's head is in.
type RequestPolicy interface {
	OnRequest(x *Exchange) PolicyVerdict
}

// ResponsePolicy acts when a response's head is in, be it the upstream's or the gateway's own
// answer. It may change the head or, while nothing of it is sent, Answer with another. Policies act
// on responses in the chain's order.
type ResponsePolicy interface {
	OnResponse(x *Exchange) PolicyVerdict
}

// DonePolicy acts when the exchange is over: exactly once for each exchange whose OnRequest it saw
// or would have seen next. Of Response only the status still counts then: the memory of an
// upstream's fields has been used for other things.
type DonePolicy interface {
	OnDone(x *Exchange, end End)
}

// RequestRemover is a RequestPolicy that takes fields of fixed names out of every request, or puts
// others in their place. The engine takes them out of the request's trailers as well, which
// policies do not see.
type RequestRemover interface {
	RequestRemoved() []string
}

// ResponseRemover does the same for responses: the engine takes the names out of trailers and
// interim responses.
type ResponseRemover interface {
	ResponseRemoved() []string
}

// Chain is a route's policies, compiled when the config is loaded: only those that the route names,
// in the documented order.
type Chain struct {
	Request  []RequestPolicy
	Response []ResponsePolicy
	Done     []DonePolicy

	RequestRemoved  Names // from trailers too
	ResponseRemoved Names // from trailers and interim responses too
}

// Names are names of header fields, in any case.
type Names [][]byte

// Has says whether name is one of them.
func (n Names) Has(name []byte) bool {
	for _, one := range n {
		if head.EqualFold(one, name) {
			return true
		}
	}
	return false
}

// Remove takes the fields of these names out of l.
func (n Names) Remove(l *head.List) {
	for _, name := range n {
		l.Remove(name)
	}
}

func (n Names) with(more []string) Names {
	for _, name := range more {
		n = append(n, []byte(name))
	}
	return n
}

// Append adds a policy to each phase it acts in. It panics when it acts in none, which no config
// can cause.
func (c *Chain) Append(policy any) {
	acts := false
	if p, ok := policy.(RequestPolicy); ok {
		c.Request, acts = append(c.Request, p), true
	}
	if p, ok := policy.(ResponsePolicy); ok {
		c.Response, acts = append(c.Response, p), true
	}
	if p, ok := policy.(DonePolicy); ok {
		c.Done, acts = append(c.Done, p), true
	}
	if p, ok := policy.(RequestRemover); ok {
		c.RequestRemoved = c.RequestRemoved.with(p.RequestRemoved())
	}
	if p, ok := policy.(ResponseRemover); ok {
		c.ResponseRemoved = c.ResponseRemoved.with(p.ResponseRemoved())
	}
	if !acts {
		panic("exchange: a policy that acts in no phase")
	}
}

// Engine carries exchanges. The data plane implements it.
type Engine interface {
	// Resume runs then on the exchange's loop, if the exchange is still in the given life, and goes
	// on with the chain as the verdict says. Any goroutine may call it.
	Resume(x *Exchange, life uint64, then func(*Exchange) PolicyVerdict)
}

// Begin makes the exchange ready for its next life. Only the engine calls it.
func (x *Exchange) Begin(engine Engine) {
	arena, life, request, response := x.arena, x.life, x.Request, x.Response
	*x = Exchange{Request: request, Response: response, arena: arena, engine: engine, life: life + 1, Mirror: NoUpstream, Upstream: NoUpstream}
	x.arena.reset()
}

// Finish ends the life that Begin began, so that holds of it are stale from now on. Only the engine
// calls it.
func (x *Exchange) Finish() { x.life++ }

// Life numbers the exchange's present life.
func (x *Exchange) Life() uint64 { return x.life }

// Hold lets a policy that answered Held resume the exchange later, once. It may be kept and used on
// any goroutine, also after the exchange has ended, when Resume does nothing.
type Hold struct {
	x      *Exchange
	engine Engine // its own copy: the exchange belongs to its loop, and may be at its next life
	life   uint64
}

// Hold must be followed by the verdict Held.
func (x *Exchange) Hold() Hold { return Hold{x, x.engine, x.life} }

// Resume runs then on the exchange's loop and goes on as its verdict says. The one who holds bounds
// the wait: an exchange that is never resumed is ended only by the route's timeout or by its
// client.
func (h Hold) Resume(then func(*Exchange) PolicyVerdict) { h.engine.Resume(h.x, h.life, then) }

// Alloc is n bytes that live until the exchange is over. Loop only.
func (x *Exchange) Alloc(n int) []byte { return x.arena.alloc(n) }

// Answer sets the response that the gateway itself gives: a status, why, and a body that must stay
// unchanged until the exchange is over. Fields are added to Response.Fields afterwards.
func (x *Exchange) Answer(status int, reason Reason, body []byte) {
	x.Response.Fields.Reset()
	x.Response.Status, x.Response.Length = status, int64(len(body))
	x.Body, x.Reason = body, reason
}
