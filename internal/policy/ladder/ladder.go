// Package ladder gives clients something less than the live answer if there is none. The ladder has
// these steps: the live answer, a fresh one from the cache, a stale one, a static one, and the
// refusal. The cache provides the two answers that it has stored (exchange.StandIn, policy/cache).
// The static answer is given here, and answers of all steps are marked and counted here. The
// configuration decides which classes may have which step. What counts is the request's own class,
// which may differ from its route's.
//
// It acts when the gateway answers instead of the upstream, because the upstream failed or because
// the request was shed to protect something (Exchange.MayDegrade), and nothing of a response was
// sent. Refusals that the client caused are not replaced. Neither is what the upstream itself
// answered, errors included.
//
// Only GET and HEAD requests get it: any other answer to another method would claim that something
// was done that was not. The answer is marked with X-Degraded, and no cache may keep a static one
// unless the configuration says so. The exchange of a static answer keeps its reason, so that logs
// and counters still say what went wrong.
//
// It replaces the whole answer, so it must stand in front of every policy that adds fields to
// responses. It must not know why upstreams fail, nor what is stored.
package ladder

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	"plimsoll/internal/exchange"
)

// Field is the name of the field that marks an answer: its value is the step that made it.
const Field = "X-Degraded"

var (
	fieldName = []byte(Field)
	marks     = func() (all [exchange.Steps][]byte) {
		for step := range all {
			all[step] = []byte(exchange.Step(step).String())
		}
		return all
	}()
)

// Series are the policy's metrics.
var Series = []exchange.Series{{
	Name: "degraded_total", Labels: []string{"step"},
	Help: "Answers given in place of a failure or a refusal, by step.",
}}

// Options say what the route sends in place of the live answer.
type Options struct {
	// Answer is the static answer; nil for none. Its Headers are not modified, and must not contain
	// Field. In its body, and in the values of its headers, "${...}" is a variable; see
	// exchange.Template.
	Answer    *exchange.StaticOptions
	PathNames []string // names in the route's pattern, for the variables
	Plain     bool     // the body has no variables, even if it contains "${"
	Stored    bool     // the route has a cache
	Loops     int      // how many there are
	Barred    uint16   // the classes that may not get the static answer: bit 0 for P0
}

// Policy answers if the upstream has not.
type Policy struct {
	answer *exchange.Static // nil for none
	page   *page            // the parts of it that are filled in for each exchange; nil for none
	stored bool
	barred uint16
	parts  []part // one for each loop, shared with the policies before and after a reload
}

// part is the state of one loop, on separate cache lines.
type part struct {
	given [exchange.Steps]atomic.Uint64 // only its loop adds to it
	spare *body                         // free list
	kept  int
	_     [80]byte
}

var (
	_ exchange.ResponsePolicy = (*Policy)(nil)
	_ exchange.Heir           = (*Policy)(nil)
	_ exchange.Metered        = (*Policy)(nil)
)

// New checks the answer.
func New(o Options) (*Policy, error) {
	p := &Policy{stored: o.Stored, barred: o.Barred, parts: make([]part, o.Loops)}
	if o.Answer == nil {
		return p, nil
	}
	if has(o.Answer.Headers, Field) {
		return nil, fmt.Errorf("%s is what the gateway marks the answer with; leave it out", Field)
	}
	answer := *o.Answer
	answer.Headers = maps.Clone(answer.Headers)
	if answer.Headers == nil {
		answer.Headers = map[string]string{}
	}
	if !has(answer.Headers, "Cache-Control") {
		answer.Headers["Cache-Control"] = "no-store"
	}
	var err error
	if p.page, err = newPage(&answer, o.PathNames, o.Plain); err != nil {
		return nil, err
	}
	p.answer, err = exchange.NewStatic(answer)
	return p, err
}

func has(headers map[string]string, name string) bool {
	for n := range headers {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// OnResponse passes the upstream's answers, replaces the gateway's own answer if it may, and marks
// answers that stand in for the live one.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if x.Reason == exchange.NoReason {
		return exchange.Continue
	}
	if x.Step == exchange.StepLive {
		p.degrade(x)
	}
	if x.Step != exchange.StepLive {
		x.Response.Fields.Set(fieldName, marks[x.Step])
		n := &p.parts[x.Loop()].given[x.Step]
		n.Store(n.Load() + 1)
	}
	return exchange.Continue
}

// degrade replaces the gateway's own answer, including Retry-After, if the client is not at fault,
// the request has changed nothing, and its class allows it.
func (p *Policy) degrade(x *exchange.Exchange) {
	if p.answer == nil || p.barred>>x.Class&1 != 0 || !x.MayDegrade() {
		return
	}
	if p.page != nil {
		p.page.answer(x, p.answer, &p.parts[x.Loop()])
	} else {
		p.answer.Answer(x, x.Reason)
	}
	x.Step = exchange.StepStatic
}

// Inherit implements exchange.Heir.
func (p *Policy) Inherit(old any) {
	if q := old.(*Policy); len(q.parts) == len(p.parts) {
		p.parts = q.parts
	}
}

// Metrics implements exchange.Metered.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	for step := exchange.StepCache; step < exchange.Steps; step++ {
		var sum uint64
		for i := range p.parts {
			sum += p.parts[i].given[step].Load()
		}
		has := p.stored
		if step == exchange.StepStatic {
			has = p.answer != nil
		}
		if has || sum > 0 { // the route had this step before a reload
			emit(0, float64(sum), step.String())
		}
	}
}
