package exchange

import "log/slog"

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
	Shed                      // refused to protect the upstream or the gateway: a limit, a breaker, admission
)

// A policy acts in one or more of three phases: request, response and done. For each it implements
// one of the interfaces below. It is made once for a route and used by all loops at the same time:
// what it keeps must be immutable or atomic, or be in parts of which each loop writes its own (see
// Exchange.Loop). Its methods run on a loop and must not block, nor take a lock that may be waited
// for.
//
// The life of a policy with state: it is made when a config is loaded (New); when everything else
// of that config is known to be right it takes over the state of the policy that it replaces
// (Heir); when the last exchange that could meet it is over it is closed (Closer). Between
// Inherit and Close both the old and the new one serve exchanges.

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
// or, for a policy without one, that came past its place in the chain. Of Response only the status
// still counts then: the memory of an upstream's fields has been used for other things.
type DonePolicy interface {
	OnDone(x *Exchange, end End)
}

// FetchingPolicy is a RequestPolicy that calls Exchange.Fetch. A chain has one at the most.
type FetchingPolicy interface {
	RequestPolicy
	Fetches()
}

// StandIn is a FetchingPolicy that may have an answer in the place of a refusal (Exchange.MayDegrade).
// It is asked where no policy behind it has seen the request, and all in front of it have let that
// pass, but for the one that refuses, if that is a SheddingPolicy: so nobody gets by it what access
// control would have refused.
type StandIn interface {
	FetchingPolicy
	// StandIn answers (Exchange.AnswerFrom) and says so, or leaves the exchange as it is.
	StandIn(x *Exchange) bool
}

// SheddingPolicy is a RequestPolicy that only bounds how much there is of something: it does not
// judge who may have what.
type SheddingPolicy interface {
	RequestPolicy
	Sheds()
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

// Env is what a policy with state is made in.
type Env struct {
	Loops  int           // how many there are; Exchange.Loop is less
	Random func() uint64 // even 64-bit numbers, for all loops at once; nil for each policy's own
	Now    func() int64  // the loops' clock, monotonic nanoseconds, for goroutines; on a loop, Exchange.Now
	Log    *slog.Logger
}

// Heir is a policy that takes over the state of the one that a new config replaces: of the same
// kind and the same route. It decides what still means the same. It is called before any exchange
// meets the new policy, while the old one still serves those that began before, so what goes on
// counting is shared and not copied.
type Heir interface {
	Inherit(old any)
}

// Closer is a policy that has something to give up. It is called once, on a goroutine, when no
// exchange can meet the policy any more, or when its config was refused. State that an Heir has
// taken over is not its own any more.
type Closer interface {
	Close()
}

// Series describes a metric that policies of one kind have. The route is its first label, which
// the policy does not name.
type Series struct {
	Name   string   // without "plimsoll_"; "_total" at its end makes it a counter
	Help   string   // one sentence
	Labels []string // beyond the route
	// Bounds are the upper bounds of a histogram's buckets, ascending; nil for every other metric.
	Bounds []float64
}

// Metered is a policy that has metrics. Metrics runs on any goroutine, and emits values for indexes
// of its kind's Series.
type Metered interface {
	Metrics(emit func(series int, value float64, labels ...string))
}

// Measured is a policy some of whose Series are histograms. For such an index it emits how many
// values each bucket has, those above the last bound at the end, and what all of them add up to.
// Any goroutine.
type Measured interface {
	Histograms(emit func(series int, counts []uint64, sum float64, labels ...string))
}

// Shown is a policy that has something to say in the admin API's status: a value that encodes as
// JSON with keys in snake_case. Any goroutine.
type Shown interface {
	Status() any
}
