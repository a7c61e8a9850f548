// Package ladder gives clients something less than the live answer where that cannot be had. The
// ladder has these steps: the live answer, a fresh one from a cache, a stale one, a static one, and
// the refusal. There is no cache, so the one step built here is the static answer; which classes
// may take it, the configuration decides: by a request's own class, which may be another than its
// route's.
//
// It acts when the gateway answers in the upstream's stead because the upstream failed or because
// the request was shed to protect something (exchange.UpstreamFault, exchange.ProtectionFault), and
// nothing of a response was sent. Refusals that are the client's own doing stay what they are, and
// so does what the upstream itself answered, errors too.
//
// Only GET and HEAD get it: an answer to anything else would say that something was done that was
// not. The answer is marked with X-Degraded, and no cache may keep it unless the configuration says
// so. The exchange keeps its reason, so that logs and counters still say what went wrong.
//
// It replaces the answer whole, so it must stand in front of every policy that adds fields to
// responses. It must not know why upstreams fail.
package ladder

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"

	"plimsoll/internal/exchange"
)

// Field is the name of the field that marks an answer: its value is the step that made it.
const Field = "X-Degraded"

// static is the label of the step.
const static = "static"

// Series are the policy's metrics.
var Series = []exchange.Series{{
	Name: "degraded_total", Labels: []string{"step"},
	Help: "Answers given in place of a failure or a refusal, by step.",
}}

// Options are the static answer.
type Options struct {
	Answer exchange.StaticOptions // its Headers are not changed, and may not name Field
	Loops  int                    // how many there are
	Barred uint16                 // the classes that do not get it: bit 0 for P0
}

// Policy answers where the upstream did not.
type Policy struct {
	answer *exchange.Static
	barred uint16
	given  []counter // a part for each loop, shared with the policies before and after a reload
}

// counter is one loop's part, on cache lines of its own.
type counter struct {
	n atomic.Uint64 // only its loop adds
	_ [120]byte
}

var (
	_ exchange.ResponsePolicy = (*Policy)(nil)
	_ exchange.Heir           = (*Policy)(nil)
	_ exchange.Metered        = (*Policy)(nil)
)

// New checks the answer.
func New(o Options) (*Policy, error) {
	if has(o.Answer.Headers, Field) {
		return nil, fmt.Errorf("%s is what the gateway marks the answer with; leave it out", Field)
	}
	headers := map[string]string{Field: static}
	if !has(o.Answer.Headers, "Cache-Control") {
		headers["Cache-Control"] = "no-store"
	}
	maps.Copy(headers, o.Answer.Headers)
	o.Answer.Headers = headers
	answer, err := exchange.NewStatic(o.Answer)
	if err != nil {
		return nil, err
	}
	return &Policy{answer: answer, barred: o.Barred, given: make([]counter, o.Loops)}, nil
}

func has(headers map[string]string, name string) bool {
	for n := range headers {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// OnResponse lets what the upstream answered pass.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if x.Reason != exchange.NoReason {
		p.degrade(x)
	}
	return exchange.Continue
}

// degrade replaces the gateway's own answer, Retry-After and all, where it is not the client's doing,
// the request has changed nothing and its class allows it.
func (p *Policy) degrade(x *exchange.Exchange) {
	fault := x.Reason.Fault()
	if fault != exchange.UpstreamFault && fault != exchange.ProtectionFault {
		return
	}
	method := string(x.Request.Method)
	if method != http.MethodGet && method != http.MethodHead || p.barred>>x.Class&1 != 0 {
		return
	}
	p.answer.Answer(x, x.Reason)
	p.given[x.Loop()].n.Add(1)
}

// Inherit implements exchange.Heir.
func (p *Policy) Inherit(old any) { p.given = old.(*Policy).given }

// Metrics implements exchange.Metered.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	var sum uint64
	for i := range p.given {
		sum += p.given[i].n.Load()
	}
	emit(0, float64(sum), static)
}
