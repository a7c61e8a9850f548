package diagnose

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/measure"
)

const (
	// mostlyRefused is the minimum share of requests refused beyond the line if a limit of the
	// service's own refuses them.
	mostlyRefused = .05
	// fewInside is the largest mean number of requests inside if the limit is on the rate. A limit
	// on concurrent requests has at least one place.
	fewInside = .6
)

// refusals are the ways in which requests are refused: answered with an error, refused before they
// begin, or left without an answer as their connection is closed.
var refusals = []measure.Kind{measure.BadStatus, measure.Refused, measure.ConnectionLost}

// refused returns the share of requests that are refused.
func (m *Moment) refused() float64 { return m.Failed(refusals...) }

// refusal says what happens to them.
func (m *Moment) refusal() string {
	answered, unbegun := m.Failed(measure.BadStatus), m.Failed(measure.Refused)
	lost := m.Failed(measure.ConnectionLost)
	switch {
	case lost > answered+unbegun:
		return percent(lost) + " lose their connection and get no answer"
	case unbegun == 0:
		return percent(answered) + " are answered with an error"
	case answered == 0:
		return percent(unbegun) + " are refused before they begin, as streams of a connection"
	}
	return fmt.Sprintf("%s are answered with an error, and %s refused before they begin, as "+
		"streams of a connection", percent(answered), percent(unbegun))
}

// refuses is the finding that the service refuses requests above some number at once, although the
// processors have room: a limit on the rate, a bulkhead, or a full queue. It returns nil if this is
// not so.
func (e *Evidence) refuses(p *places) *Finding {
	// Requests that are let in are as quick as ever, so other processes that keep the machine busy
	// are not the reason.
	half, own := e.Half.Service(), e.reserve(targetProcessor)
	if half == 0 || own == nil || own.Share() >= own.waited() || e.losesWorkers() {
		return nil
	}
	if e.Over.refused() < mostlyRefused || e.AtLine.refused() > e.Over.refused()/2 ||
		e.Over.Goodput() > 1.25*e.AtLine.Goodput() {
		return e.refusesSome(p)
	}
	took := "are answered as quickly as ever"
	if e.Over.Service() >= takesLonger*half {
		if !e.room() || !e.asksNobody(p) {
			return nil
		}
		took = "wait for their turn first (" + span(e.Over.Service()) + " in all, " +
			span(half) + " at half of the line)"
	}
	p.refused = true
	what := "a limit on the rate or on how many may be inside, or a queue that is full"
	if p.reached*p.alone < fewInside {
		what = "a limit on the rate, as there is less than one inside on average"
	}
	others := ""
	if names := e.asked(); len(names) > 0 {
		others = "; or what it asks refuses (" + strings.Join(names, ", ") + ")"
	}
	f := &Finding{
		Claim: fmt.Sprintf("The service refuses what is more than %s: beyond the line %s, and "+
			"those that are let in %s, while it has processors to "+
			"spare: %s%s", rate(p.reached), e.Over.refusal(), took, what, others),
		Rank:       Binding,
		Confidence: .75,
		Evidence:   append(e.refusalFacts(), e.concurrencyFacts(p)...),
		Gain:       e.gain(cure{}),
		whatever:   true,
	}
	f.Advice = e.refusalAdvice()
	f.Advice = append(f.Advice, e.runtime().widens...)
	f.Evidence = append(f.Evidence, e.askedFacts()...)
	return f
}

// refusesSome is the finding that the service refuses a few of the requests, more than the objectives
// allow, when many of them happen to come at once: a limit on how many may be inside, which is far above
// their mean number. The others are as quick as ever. It returns nil if this is not so.
func (e *Evidence) refusesSome(p *places) *Finding {
	allowed := e.allowedErrors()
	gently, _ := e.refusedAt(gentle)
	share, n := e.refusedAt(beyondLine)
	least := farMoreRefused * allowed
	if n >= manyRefused {
		least = moreRefused * allowed
	}
	if !e.room() || e.Over.refused() == 0 || gently > share/4 || allowed == 0 ||
		e.Over.Service() >= takesLonger*e.Half.Service() || share < least || n < fewestRefused {
		return nil
	}
	p.refused = true
	f := &Finding{
		Claim: fmt.Sprintf("The service refuses requests when many come at once: beyond the line %s, and "+
			"the others as quickly as ever, with %s inside on average, while it has processors to "+
			"spare: a limit on how many may be inside, or a short queue", e.Over.refusal(),
			number(e.Over.Inside())),
		Rank:       Binding,
		Confidence: .65,
		Evidence:   append(e.refusalFacts(), e.concurrencyFacts(p)...),
		Advice:     append(e.refusalAdvice(), e.runtime().widens...),
		Gain:       e.gain(cure{}),
		whatever:   true,
	}
	f.Evidence = append(f.Evidence, e.askedFacts()...)
	return f
}

const (
	// farMoreRefused is how many times the share of errors that the objectives allow must be refused
	// beyond the line, and fewestRefused the minimum number, if a limit refuses some requests.
	farMoreRefused, fewestRefused = 3, 5
	// moreRefused replaces farMoreRefused if manyRefused are, which is not by chance. A survey that
	// stays near the line sees little more than the objectives allow.
	moreRefused, manyRefused = 1.5, 20
)

// refusedAt returns which share of the requests is refused in all steps at a load, and how many these
// are.
func (e *Evidence) refusedAt(load int) (share, n float64) {
	all := 0.0
	for i := range e.Run.Steps {
		if s := &e.Run.Steps[i]; e.loadOf(s) == load {
			ended := float64(s.Totals.Ended.Total())
			all, n = all+ended, n+ended*(&Moment{Step: s}).refused()
		}
	}
	return n / max(all, 1), n
}

// losesWorkers reports whether connections may be lost because processes of the service end: some are
// lost at half of the line too, or their number changes.
func (e *Evidence) losesWorkers() bool {
	return e.Over.Failed(measure.ConnectionLost) > e.Over.refused()/2 &&
		(e.Half.Failed(measure.ConnectionLost) > 0 ||
			e.Over.Max(measure.TargetProcesses) != e.Half.Max(measure.TargetProcesses))
}

// allowedErrors returns the share of requests that the objectives allow to fail; 0 if that is not known.
func (e *Evidence) allowedErrors() float64 {
	if e.Run.Result == nil {
		return 0
	}
	for i := range e.Run.Result.Judgements {
		for _, o := range e.Run.Result.Judgements[i].Objectives {
			if strings.HasPrefix(o.Objective, "errors") {
				return o.Allowed
			}
		}
	}
	return 0
}

// asksNobody reports whether requests that take long do not wait for what the service asks: it has
// connections to nobody, or an answer is awaited on few of them. A queue before a limit on the rate
// (limit_req with a burst) is of the service's own then.
func (e *Evidence) asksNobody(p *places) bool {
	open := e.fromTheLineOn(measure.TargetOutgoingEstablished)
	return open.count > 0 && (open.most == 0 || e.asksLittle(p.n))
}

// refusalFacts returns the shares of the requests that are refused, for each way that was seen.
func (e *Evidence) refusalFacts() (facts []Fact) {
	for _, way := range []struct {
		kind measure.Kind
		what string
	}{
		{measure.BadStatus, "are answered with an error"},
		{measure.Refused, "are refused before they begin, as streams of a connection"},
		{measure.ConnectionLost, "lose their connection and get no answer"},
	} {
		if e.Over.Failed(way.kind) > 0 {
			facts = append(facts, Fact{
				What: "share of the requests that " + way.what + ", at the line and beyond",
				Value: percent(e.AtLine.Failed(way.kind)) + ", " +
					percent(e.Over.Failed(way.kind)),
			})
		}
	}
	return facts
}

// refusalAdvice returns where to look for what refuses, for each way that was seen.
func (e *Evidence) refusalAdvice() (all []Action) {
	if e.Over.Failed(measure.Refused) > 0 {
		all = append(all, Action{Text: "streams are refused by the limit of each HTTP/2 or HTTP/3 " +
			"connection (SETTINGS_MAX_CONCURRENT_STREAMS; MaxConcurrentStreams, " +
			"http2_max_concurrent_streams), or as a connection is being closed (GOAWAY)"})
	}
	if e.Over.Failed(measure.ConnectionLost) > 0 {
		all = append(all, Action{Text: "see what closes connections in the place of an answer: " +
			"return 444 or limit_req_status 444 in nginx, reject or silent-drop in HAProxy, " +
			"server.maxConnections or socket.destroy() in Node.js, http.ErrAbortHandler in Go"})
	}
	if e.Over.Failed(measure.BadStatus) > 0 {
		all = append(all, Action{
			Text: "see what the errors say, and look for what gives them: a rate limiter " +
				"(rate.Limiter and Allow, tollbooth; express-rate-limit; slowapi, Flask-Limiter; " +
				"Rack::Attack; Bucket4j, Resilience4j's RateLimiter and Bulkhead, Guava's " +
				"RateLimiter; nginx's limit_req and limit_conn, HAProxy's stick tables), a " +
				"semaphore that is only tried, an executor with a bounded queue, a circuit breaker, a pool " +
				"that gives up at once",
			Command: e.filled("curl -si TARGET   # during an overload"),
		})
	}
	return all
}
