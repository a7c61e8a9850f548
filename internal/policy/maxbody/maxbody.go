// Package maxbody refuses request bodies that are longer than a route takes. It runs before an
// upstream is chosen.
//
// A body whose length is announced is refused at once, before the client is told to send it. Other
// bodies are streamed, and their length shows only while they arrive. For them the policy leaves
// the limit in x.MaxBody, and the data plane counts.
//
// It must not know how bodies travel.
package maxbody

import (
	"fmt"
	"net/http"

	"plimsoll/internal/exchange"
)

// Options of the policy.
type Options struct {
	Max int64 // bytes of the longest body; at least 1
}

// Policy bounds request bodies.
type Policy struct {
	max int64
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New returns an error for a bound that would refuse every body.
func New(o Options) (*Policy, error) {
	if o.Max < 1 {
		return nil, fmt.Errorf("a body limit of %d bytes; give at least 1, or leave it out for "+
			"no limit", o.Max)
	}
	return &Policy{max: o.Max}, nil
}

// OnRequest sets x.MaxBody, and answers 413 if the announced length exceeds the bound.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	x.MaxBody = p.max
	if x.Request.Length > p.max {
		return x.Refuse(http.StatusRequestEntityTooLarge, exchange.BodyTooLarge)
	}
	return exchange.Continue
}
