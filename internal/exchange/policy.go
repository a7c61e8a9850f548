package exchange

import "log/slog"

// PolicyVerdict is what a policy decides in the request or the response phase.
type PolicyVerdict uint8

const (
	Continue PolicyVerdict = iota // go on to the next policy, and after the last to the action
	Answered                      // the policy has called Answer: skip the rest and send the answer
	Held                          // the policy has taken a Hold and will resume it
)

// End says how an exchange ended.
type End uint8

const (
	Completed      End = iota // the response went out whole
	ClientGone                // the client went away first, which is not a failure
	GatewayAnswer             // the gateway answered by itself (a policy, no route, a refusal)
	UpstreamFailed            // the upstream failed: the client got 502, 503 or 504, or a cut-off response
	Shed                      // refused to protect the upstream or the gateway: a limit, a breaker, admission
)

// A policy acts in one or more of three phases: request, response and done. For each it implements
// one of the interfaces below. It is made once for a route and used by all loops at the same time:
// its state must be immutable or atomic, or divided into parts of which each loop writes only its
// own (see Exchange.Loop). Its methods run on a loop. They must not block, and must not take a lock
// that they may have to wait for.
//
// The life of a policy with state: it is made when a config is loaded (New). Once the rest of that
// config is known to be valid, it takes over the state of the policy that it replaces (Heir). When
// the last exchange that could use it is over, it is closed (Closer). Between Inherit and Close of
// the old policy, both the old and the new one serve exchanges.

// RequestPolicy acts when a request's head is in.
type RequestPolicy interface {
	OnRequest(x *Exchange) PolicyVerdict
}

// ResponsePolicy acts when a response's head is in, whether the answer is the upstream's or the
// gateway's own. It may change the head or, while no part of it has been sent, Answer with another.
// Policies act on responses in the chain's order.
type ResponsePolicy interface {
	OnResponse(x *Exchange) PolicyVerdict
}

// DonePolicy acts when the exchange is over: exactly once for each exchange for which its OnRequest
// was called or, if it has no OnRequest, that has passed its place in the chain. Of Response only
// the status is still valid then, because the memory of an upstream's fields has been reused.
type DonePolicy interface {
	OnDone(x *Exchange, end End)
}

// FetchingPolicy is a RequestPolicy that calls Exchange.Fetch. A chain has at most one.
type FetchingPolicy interface {
	RequestPolicy
	Fetches()
}

// StandIn is a FetchingPolicy that may replace a refusal by an answer (Exchange.MayDegrade). It is
// asked only if no policy after it has seen the request, and all before it have let the request
// pass, except the one that refuses, if that is a SheddingPolicy. So no client gets an answer from
// it that access control would have refused.
type StandIn interface {
	FetchingPolicy
	// StandIn answers (Exchange.AnswerFrom) and returns true, or leaves the exchange unchanged.
	StandIn(x *Exchange) bool
}

// SheddingPolicy is a RequestPolicy that only limits amounts of something. It does not decide which
// clients may have access to what.
type SheddingPolicy interface {
	RequestPolicy
	Sheds()
}

// RequestRemover is a RequestPolicy that removes or replaces the fields with certain fixed names in
// every request. The engine also removes these names from the request's trailers, which policies do
// not see.
type RequestRemover interface {
	RequestRemoved() []string
}

// ResponseRemover does the same for responses: the engine removes the names from trailers and
// interim responses.
type ResponseRemover interface {
	ResponseRemoved() []string
}

// Env is the environment for which a policy with state is made.
type Env struct {
	Loops  int           // the number of loops; Exchange.Loop is less
	Random func() uint64 // uniform numbers, safe for all loops at once; nil: each policy its own
	Now    func() int64  // the loops' clock, monotonic ns, for goroutines; on a loop: Exchange.Now
	Log    *slog.Logger
}

// Heir is a policy that takes over the state of the policy of the same kind and route that a new
// config replaces. It decides which state is still valid. Inherit is called before any exchange
// uses the new policy, while the old one still serves exchanges that began earlier. So state that
// goes on changing must be shared, not copied.
type Heir interface {
	Inherit(old any)
}

// Closer is a policy that has something to release. Close is called once, on a goroutine, when no
// exchange can use the policy any more, or when its config was refused. It must not release state
// that an Heir has taken over.
type Closer interface {
	Close()
}

// Series describes a metric of all policies of one kind. Its first label is the route, which the
// policy does not name.
type Series struct {
	Name   string   // without "plimsoll_"; the suffix "_total" makes it a counter
	Help   string   // one sentence
	Labels []string // beyond the route
	// Bounds are the upper bounds of a histogram's buckets, ascending; nil for every other metric.
	Bounds []float64
}

// Metered is a policy that has metrics. Metrics may be called on any goroutine. It emits values by
// index into the Series of the policy's kind.
type Metered interface {
	Metrics(emit func(series int, value float64, labels ...string))
}

// Measured is a policy some of whose Series are histograms. For such an index, Histograms emits the
// number of values in each bucket, with those above the last bound at the end, and the sum of all
// values. It may be called on any goroutine.
type Measured interface {
	Histograms(emit func(series int, counts []uint64, sum float64, labels ...string))
}

// Shown is a policy with an entry in the admin API's status: a value that encodes as JSON with keys
// in snake_case. Status may be called on any goroutine.
type Shown interface {
	Status() any
}
