// Package cache answers requests from stored responses. Package cache/rules decides what may be
// stored and served (RFC 9111), and package cache/store holds what is stored, for all loops and
// routes. This package carries exchanges through both:
//
//	cache.go    a request comes: what is stored for it, and what is to be done
//	serve.go    a stored response answers
//	standin.go  a stored response answers in the place of a failure or a refusal
//	wait.go     a request waits for a fetch, and reads its body as it comes
//	fetch.go    a fetch: what the upstream answers is stored, or given to one client alone
//	lone.go     a response on its way to that client
//	failure.go  what those who wait are told of a fetch that failed
//	second.go   a fetch's business with the second tier, which is the room tier
//	outdate.go  what unsafe methods and HEAD outdate; what a response that passed says of the cache
//	metrics.go  counters
//
// A miss begins a fetch (exchange.Fetch), an exchange without a client, and the request waits for
// it like all others for the same key. So there is one fetch for a key, however many requests wait,
// and it belongs to none of them: it continues when the client goes whose request began it, and is
// as fast as its fastest reader.
//
// A response that may not be stored goes to the client for which it was fetched, and those that
// waited go on their own. For some seconds, requests for its key then do not wait for each other.
//
// The policy must not know sockets or protocols, and nothing of how responses are stored.
package cache

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/head"
	"plimsoll/internal/reactor"
)

// The reasons of answers.
var (
	// Stored: the answer is a stored one, or one that was fetched to be stored.
	Stored = exchange.DeclareReason(exchange.ReasonInfo{Label: "cached", GRPC: grpc.OK})
	// OnlyIfCached: the client accepts only a stored response, and there is none.
	OnlyIfCached = exchange.DeclareReason(exchange.ReasonInfo{
		Label: "only_if_cached", Fault: exchange.ClientFault,
		Text: "you asked for a stored answer, and there is none", GRPC: grpc.Unavailable,
	})
	// FetchLimited: the service answered another client's request for the same resource with 429.
	FetchLimited = exchange.DeclareReason(exchange.ReasonInfo{
		Label: "fetch_limited", Fault: exchange.UpstreamFault,
		Text: "the service takes no more requests now, as it said to another one for the same",
		GRPC: grpc.Unavailable,
	})
	// FetchFailed: another client's request for the same resource failed.
	FetchFailed = exchange.DeclareReason(exchange.ReasonInfo{
		Label: "fetch_failed", Fault: exchange.UpstreamFault,
		Text: "the service failed another request for the same, for which this one waited",
		GRPC: grpc.Unavailable,
	})
)

// The bounds of options.
const (
	DefaultWait = int64(10e9)
	maxName     = 64
)

// Options of the policy of one route.
type Options struct {
	Memory *Memory // shared by routes
	Rules  rules.Options
	// Name is the cache's name in Cache-Status, a token; "" for no such field.
	Name string
	// Wait is for how many nanoseconds a request waits for a fetch that another has begun; 0 for
	// DefaultWait.
	Wait int64
	// Jitter is the share of a lifetime, 0 to 0.5, by which it may be shortened, so that responses
	// that arrived together do not become stale together.
	Jitter float64
	// Early is how eagerly hot responses are fetched again before they are stale: 1 is usual, 0
	// means never.
	Early float64
	// UpstreamName returns the name of an upstream by its index.
	UpstreamName func(index int) string
	// Outdating determines what unsafe requests invalidate.
	Outdating *Outdating
	// Barred is the classes that may not have a stored answer in place of a failure or a refusal.
	Barred exchange.Barred
	Env    exchange.Env
}

// Policy is the cache of one route.
type Policy struct {
	o     Options
	state *state
}

// state is what a Policy passes on at reloads.
type state struct {
	parts  []part
	lately *lately
}

// part is the state of one loop.
type part struct {
	key, variant []byte        // buffers for making keys; valid within a call
	block        []byte        // likewise, blocks of fields
	joined       []byte        // likewise, small pieces of a body
	now          rules.Instant // of this turn
	hits         *hit          // free list
	spare        int
	counters
	_ [64]byte
}

var _ interface {
	exchange.StandIn
	exchange.ResponsePolicy
	exchange.Heir
	exchange.Closer
	exchange.Metered
	exchange.Measured
} = (*Policy)(nil)

// New checks the options.
func New(o Options) (*Policy, error) {
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	switch {
	case o.Wait < 0:
		return nil, fmt.Errorf("a wait of %d ns is less than nothing", o.Wait)
	case o.Jitter < 0 || o.Jitter > 0.5:
		return nil, fmt.Errorf("a jitter of %g is not a share of a lifetime from 0 to 0.5", o.Jitter)
	case len(o.Name) > maxName:
		return nil, fmt.Errorf("a name of %d bytes is too long for Cache-Status: at most %d",
			len(o.Name), maxName)
	}
	if o.Env.Random == nil {
		o.Env.Random = rand.Uint64
	}
	o.Memory.hold()
	return &Policy{o, &state{parts: make([]part, max(1, o.Env.Loops)), lately: newLately()}}, nil
}

// Fetches implements exchange.FetchingPolicy.
func (p *Policy) Fetches() {}

// Close releases the memory.
func (p *Policy) Close() {
	if err := p.o.Memory.Release(); err != nil && p.o.Env.Log != nil {
		p.o.Env.Log.Error("the memory of a cache could not be given back; it is lost until the process ends",
			"error", err)
	}
}

// Inherit takes over the counters.
func (p *Policy) Inherit(old any) {
	if q, ok := old.(*Policy); ok && len(q.state.parts) == len(p.state.parts) {
		p.state = q.state
	}
}

func (p *Policy) part(x *exchange.Exchange) *part { return &p.state.parts[x.Loop()] }

// instant is now on both clocks. The wall clock is read once per turn, like the monotonic one.
func (w *part) instant(x *exchange.Exchange) rules.Instant {
	if now := x.Now(); now != w.now.Mono {
		w.now = rules.Instant{Mono: now, Wall: reactor.Wall().UnixNano()}
	}
	return w.now
}

// random is uniform in [0,1).
func (p *Policy) random() float64 { return float64(p.o.Env.Random()>>11) / (1 << 53) }

// Notes of an exchange: how this policy has treated it, and why. See Exchange.CacheNote.
const (
	noteServed = 1 << 8  // answered here
	notePassed = 1 << 9  // passed on to the upstream
	noteWaited = 1 << 10 // waited for a fetch, without success
	noteWhy    = 1<<8 - 1
)

// OnRequest answers a request, makes it wait for a fetch, or lets it pass.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	return p.look(x, p.part(x), 2)
}

// asked is a request during its look-up, with its key and what is stored under it.
type asked struct {
	rules.Request
	key    []byte // in the part's memory
	uri    []byte // the part of the primary key that is the URI's, likewise
	found  *store.Entry
	varies bool // something is stored, but for other values of its varying fields
}

// look decides what happens to a request. again is how many more times it may look if a fetch ends
// at the same moment.
func (p *Policy) look(x *exchange.Exchange, w *part, again int) exchange.PolicyVerdict {
	var a asked
	a.Read(x.Request)
	if !a.Cacheable() || wantsEvents(x) {
		why := rules.Method
		if a.Cacheable() {
			why = rules.Content
		}
		return p.pass(x, w, why)
	}
	p.find(x, w, &a, (*store.Store).Lookup)
	c := rules.Circumstances{Now: w.instant(x), Varies: a.varies}
	if a.found != nil {
		c.Purged = a.found.Soft()
	}
	d := p.decide(&a, &c)
	switch d.Action {
	case rules.Serve, rules.ServeAndRefresh:
		return p.hit(x, w, &a, &d, &c)
	case rules.Refuse:
		a.release()
		w.count(&w.refused)
		return x.Refuse(504, OnlyIfCached)
	case rules.Pass:
		p.noteHead(x, &a)
		a.release()
		return p.pass(x, w, d.Why)
	}
	// A response that is only for its own client leaves what is stored for others in place. So a
	// stored response does not show that the next fetch is worth waiting for.
	alone := a.found == nil || p.o.Rules.Personal(&a.Request)
	if alone && p.state.lately.refused(p.fillKey(&a), c.Now.Mono) {
		a.release()
		return p.pass(x, w, d.Why)
	}
	return p.await(x, w, &a, &d, again)
}

// wantsEvents reports whether the client wants a stream of events, which is only for that client
// and has no end.
func wantsEvents(x *exchange.Exchange) bool {
	f := x.Request.Fields.Find(acceptName)
	return f != nil && len(f.Value) >= len(eventStream) && head.EqualFold(f.Value[:len(eventStream)],
		eventStream)
}

var (
	acceptName  = []byte("Accept")
	eventStream = []byte("text/event-stream")
)

// decide asks the rules.
func (p *Policy) decide(a *asked, c *rules.Circumstances) rules.Decision {
	if a.found == nil {
		return p.o.Rules.Decide(&a.Request, nil, nil, c)
	}
	return p.o.Rules.Decide(&a.Request, &a.found.Meta, a.found.Block(), c)
}

// find makes the key and looks it up, with Lookup or, if the response will not be used, with Peek.
func (p *Policy) find(
	x *exchange.Exchange, w *part, a *asked, look func(*store.Store, []byte) *store.Entry,
) {
	var uri int
	w.key, uri = p.appendKey(w.key[:0], x)
	a.key, a.uri = w.key, w.key[:uri]
	a.found = look(p.o.Memory.Store, a.key)
	if a.found == nil || a.found.Vary() == nil {
		return
	}
	w.variant = p.o.Rules.Key.AppendVariant(append(w.variant[:0], a.key...), a.found.Vary(), x.Request)
	a.found.Release()
	a.key = w.variant
	a.found = look(p.o.Memory.Store, a.key)
	a.varies = a.found == nil
}

// fillKey is the key of the fetch that a request waits for. Requests with credentials do not wait
// with those without: what an origin answers to one client's cookie, and whether it answers at all,
// must not delay or fail other clients, nor keep their responses from being stored. The bytes
// belong to the part.
func (p *Policy) fillKey(a *asked) []byte {
	if !p.o.Rules.Personal(&a.Request) {
		return a.key
	}
	return append(a.key, personalMark)
}

// personalMark ends the keys of fetches with credentials. No other key ends with it.
const personalMark = 2

// appendKey appends the primary key of a request, and returns the length of the URI's part. That
// part has the canonical path, because purges and unsafe requests refer to it, however it was
// written. The route and the upstream belong to the key, because another route may send the same
// URI elsewhere or with another path. The forwarded path belongs to it too if it is as the client
// sent it.
func (p *Policy) appendKey(dst []byte, x *exchange.Exchange) (key []byte, uri int) {
	k := &p.o.Rules.Key
	came := x.Request.Scheme
	x.Request.Scheme = scheme(x)
	dst = k.AppendURI(dst, "", x.Request, x.Request.Path)
	x.Request.Scheme = came
	uri = len(dst)
	if !bytes.Equal(x.Forward, x.Request.Path) {
		dst = append(append(dst, x.Forward...), 0)
	}
	dst = append(append(dst, x.Route...), 0)
	dst = append(append(dst, p.o.UpstreamName(x.Upstream)...), 0)
	return k.AppendFields(dst, x.Request), uri
}

// scheme is the client's scheme. If a trusted peer gives one in X-Forwarded-Proto, services rely on
// that. For example, they redirect from http to https, so an answer for one scheme must not be used
// for the other.
func scheme(x *exchange.Exchange) []byte {
	if x.PeerTrusted {
		if f := x.Request.Fields.Get(head.XForwardedProto); f != nil && (string(f.Value) == "http" ||
			string(f.Value) == "https") {
			return f.Value
		}
	}
	return x.Request.Scheme
}

// release releases the stored response that was found.
func (a *asked) release() {
	if a.found != nil {
		a.found.Release()
		a.found = nil
	}
}

// pass lets a request go on unchanged.
func (p *Policy) pass(x *exchange.Exchange, w *part, why rules.Reason) exchange.PolicyVerdict {
	w.count(&w.passed[why])
	x.CacheNote = notePassed | uint32(why)
	return exchange.Continue
}
