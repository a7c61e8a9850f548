// Package exchangetest has what tests of policies need of a data plane that is not there. It must
// not be imported by anything but tests.
package exchangetest

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Engine is an exchange.Engine on which nothing happens: the time is 0, the loop is the first, and
// what is posted to it or fetched over it is dropped. Tests embed it and define what they look at.
type Engine struct{}

// Resume implements exchange.Engine.
func (Engine) Resume(*exchange.Exchange, uint64, func(*exchange.Exchange) exchange.PolicyVerdict) {}

// Wake implements exchange.Engine.
func (Engine) Wake(*exchange.Exchange, uint64) {}

// Fetch implements exchange.Engine.
func (Engine) Fetch(*exchange.Exchange, *head.Request, exchange.Sink) bool { return false }

// Now implements exchange.Engine.
func (Engine) Now() int64 { return 0 }

// LoopID implements exchange.Engine.
func (Engine) LoopID() int { return 0 }

// Backlog implements exchange.Engine.
func (Engine) Backlog() int64 { return 0 }
