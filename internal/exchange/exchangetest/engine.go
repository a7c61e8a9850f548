// Package exchangetest provides what tests of policies need in place of a data plane. Only tests
// may import it.
package exchangetest

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Engine is an exchange.Engine that does nothing: the time and the loop ID are 0, and Resume, Wake
// and Fetch are ignored. Tests embed it and override what they need.
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
