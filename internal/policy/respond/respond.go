// Package respond answers by itself: a status, fields and a body from the configuration. It is an
// action, the last step in its route's chain, so that access lists, request ids and CORS apply to
// it too.
//
// It must not know files: content that came from one is a body like any other. The data plane makes
// sure that a HEAD or a 304 carries no body.
package respond

import "plimsoll/internal/exchange"

// Options are the answer.
type Options = exchange.StaticOptions

// Policy answers.
type Policy struct {
	answer *exchange.Static
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New checks the answer.
func New(o Options) (*Policy, error) {
	answer, err := exchange.NewStatic(o)
	if err != nil {
		return nil, err
	}
	return &Policy{answer}, nil
}

// OnRequest answers.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	p.answer.Answer(x, exchange.RouteAnswer)
	return exchange.Answered
}
