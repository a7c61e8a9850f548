// Package tunnels limits how many WebSockets of a route are open at once. One more is refused with
// 503, before its upstream sees the request. A WebSocket counts from its place in the chain, when
// it is requested, until its exchange is over. One that the upstream refuses counts until then,
// too.
//
// The bound is exact over all loops: the count is one word, changed by compare-and-swap.
package tunnels

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/invariant"
)

// Full is the reason of refusals.
var Full = exchange.DeclareReason(exchange.ReasonInfo{
	Label: "websockets_full", Fault: exchange.ProtectionFault,
	Text: "as many WebSockets as this route takes are open", GRPC: grpc.Unavailable,
})

// MaxBound is the highest bound.
const MaxBound = 1_000_000

// Options of the policy.
type Options struct {
	Max int // WebSockets of the route, 1 to MaxBound
}

// Policy counts the WebSockets of a route.
type Policy struct {
	max   int64
	state *state
}

// state is what a reload carries over.
type state struct {
	open    atomic.Int64
	refused atomic.Uint64
}

var (
	_ exchange.RequestPolicy = (*Policy)(nil)
	_ exchange.DonePolicy    = (*Policy)(nil)
	_ exchange.Heir          = (*Policy)(nil)
	_ exchange.Metered       = (*Policy)(nil)
	_ exchange.Shown         = (*Policy)(nil)
)

// New checks the options.
func New(o Options) (*Policy, error) {
	if o.Max < 1 || o.Max > MaxBound {
		return nil, fmt.Errorf("max: %d; give 1 to %d, or 0 for no bound", o.Max, MaxBound)
	}
	return &Policy{max: int64(o.Max), state: new(state)}, nil
}

// OnRequest counts a request for a WebSocket, or refuses it.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	if !x.WebSocket {
		return exchange.Continue
	}
	for {
		n := p.state.open.Load()
		if n >= p.max {
			p.state.refused.Add(1)
			verdict := x.Refuse(http.StatusServiceUnavailable, Full)
			// Clients that all retried at the same time would be refused again.
			x.RetryAfter(1 + int(uint64(x.Start)*0x9e3779b97f4a7c15>>62))
			return verdict
		}
		if p.state.open.CompareAndSwap(n, n+1) {
			x.Tunnel = true
			return exchange.Continue
		}
	}
}

// OnDone ends the counting of the request.
func (p *Policy) OnDone(x *exchange.Exchange, _ exchange.End) {
	if !x.Tunnel {
		return
	}
	x.Tunnel = false
	if left := p.state.open.Add(-1); invariant.On && left < 0 {
		panic("tunnels: more WebSockets of a route were given back than counted")
	}
}

// Inherit continues the previous policy's count.
func (p *Policy) Inherit(old any) { p.state = old.(*Policy).state }

// Series are the metrics of this kind of policy.
var Series = []exchange.Series{
	{Name: "websocket_refused_total", Help: "WebSockets refused because the route has as many as it may."},
}

// Metrics emits the values of Series.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	emit(0, float64(p.state.refused.Load()))
}

// Status is what the admin API shows of the policy.
type Status struct {
	Open    int64  `json:"open"`
	Max     int64  `json:"max"`
	Refused uint64 `json:"refused"`
}

// Status implements exchange.Shown.
func (p *Policy) Status() any {
	return Status{Open: p.state.open.Load(), Max: p.max, Refused: p.state.refused.Load()}
}
