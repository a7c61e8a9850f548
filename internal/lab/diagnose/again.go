package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// repeated is an address with which the service exchanges many small messages for one request.
type repeated struct {
	to    string
	calls float64 // per request
}

const (
	// manyCalls is the minimum number of exchanges with one address per request that is reported. A
	// few queries, or a transaction around them, are normal work.
	manyCalls = 10
	// sameCalls is the factor by which the exchanges of one additional request may differ from all
	// exchanges per request near the line. Traffic that is unrelated to requests must be the
	// smaller part.
	sameCalls = 2
	// apartLoads is the minimum ratio of the request rates of two loads. If they are closer, their
	// difference does not show what an additional request brings.
	apartLoads = 1.2
	// callCosts is the highest processor time in seconds that one query costs a service which does
	// little else: 40 µs in Go, 0.1 to 0.4 ms in Node.js, Python and Ruby.
	callCosts = 500e-6
	// callSpared is the processor time in seconds that each avoided query is assumed to save in Go or
	// Java, slowCallSpared in Node.js, Python or Ruby.
	callSpared, slowCallSpared = 60e-6, 120e-6
	// answerCosts and answerSpared are the same for a service that is asked over HTTP by Node.js, Python
	// or Ruby, whose clients take .3 to .7 ms for each.
	answerCosts, answerSpared = 800e-6, 300e-6
)

// asksAgain returns the address that is asked most often per request. It returns nil if no address
// is asked often, or if only one load was seen: then it is unknown which exchanges belong to
// requests. Opening a connection takes some exchanges too, so asksAgain also returns nil if the
// service does not keep its connections: that is then the cause.
func (e *Evidence) asksAgain() (most *repeated) {
	over := e.AtLine.Max(measure.TargetOutgoingTimeWait) +
		e.AtLine.Max(measure.TargetOutgoingTimeWaitThere)
	if over >= fewClosed && e.AtLine.opened() > .2*e.AtLine.Goodput() {
		return nil
	}
	for _, at := range e.sampledOf(measure.OutgoingExchanges) {
		more, fewer := e.exchanged(at, nearLine), e.exchanged(at, gentle)
		if open := e.fromTheLineOn(measure.OutgoingTo + at).most; open > 0 && e.carriesMany(at, open) {
			// What requests ask at the same time shares segments on one connection.
			more, fewer = e.exchangedWhere(at, e.gentleUpper), e.exchangedWhere(at, e.gentleLower)
		}
		calls, known := more.beside(fewer)
		if !known || calls < manyCalls || !near(calls, more.each(), sameCalls) {
			continue
		}
		if most == nil || calls > most.calls {
			most = &repeated{at, calls}
		}
	}
	return most
}

// exchanged is the traffic between the service and one address at one load: the number of
// exchanges, the requests that ended meanwhile, and the seconds that both were observed.
type exchanged struct{ times, requests, seconds float64 }

// each returns the number of exchanges per request; 0 if none were seen.
func (x exchanged) each() float64 { return x.times / max(x.requests, 1) }

// beside returns the number of exchanges that each additional request brings, from the difference
// between this load and a gentler one. Traffic that goes on without requests cancels out. known is
// false if one of the loads was not seen, or if their rates are too close.
func (x exchanged) beside(gentler exchanged) (each float64, known bool) {
	if x.seconds <= 0 || gentler.seconds <= 0 ||
		x.requests/x.seconds < apartLoads*gentler.requests/gentler.seconds {
		return 0, false
	}
	more := x.requests/x.seconds - gentler.requests/gentler.seconds
	return (x.times/x.seconds - gentler.times/gentler.seconds) / more, true
}

// gentleUpper and gentleLower divide the gentle rates in two.
func (e *Evidence) gentleUpper(s *measure.Step) bool {
	return e.loadOf(s) == gentle && s.Plan.Rate > e.middle()
}

func (e *Evidence) gentleLower(s *measure.Step) bool {
	return e.loadOf(s) == gentle && s.Plan.Rate <= e.middle()
}

// middle returns the rate that is in the middle between the lowest gentle rate and the highest.
func (e *Evidence) middle() float64 {
	low, high := math.Inf(1), 0.0
	for i := range e.Run.Steps {
		if s := &e.Run.Steps[i]; e.loadOf(s) == gentle {
			low, high = min(low, s.Plan.Rate), max(high, s.Plan.Rate)
		}
	}
	return (low + high) / 2
}

// exchanged adds up the traffic with an address at a load.
func (e *Evidence) exchanged(at string, load int) exchanged {
	return e.exchangedWhere(at, func(s *measure.Step) bool {
		of := e.loadOf(s)
		return (of == load || of == warmUp && load == gentle) &&
			(s.Plan.Phase != measure.PhaseOverload || load == beyondLine)
	})
}

// exchangedWhere adds up the traffic with an address in some of the steps. The probe counts it about
// once a second, so short steps that follow each other are counted together.
func (e *Evidence) exchangedWhere(at string, wanted func(s *measure.Step) bool) (x exchanged) {
	ended, last, answered, seen := 0.0, -1.0, 0.0, 0.0
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		counts := wanted(s)
		if !counts {
			last = -1
		}
		for j := range s.Samples {
			now, told := s.Samples[j].Values[measure.OutgoingExchanges+at]
			if !counts || !told {
				continue
			}
			by := ended + s.Between(0, s.Samples[j].At, (*measure.Tally).Total)
			when := float64(s.Began.UnixNano()+s.Samples[j].At) / 1e9
			if last >= 0 && now >= last {
				x.times, x.requests = x.times+now-last, x.requests+by-answered
				x.seconds += when - seen
			}
			last, answered, seen = now, by, when
		}
		ended += float64(s.Totals.Ended.Total())
	}
	return x
}

// words returns text such as "22.0 small segments with data go to postgres at 127.0.0.1:5432, and
// as many come back".
func (r *repeated) words(e *Evidence) string {
	return fmt.Sprintf("%s small segments with data go to %s, and as many come back",
		number(r.calls), e.named(r.to))
}

// onlyTalks reports whether most of the service's work for a request is asking one address again
// and again.
func (e *Evidence) onlyTalks() bool {
	r := e.asksAgain()
	if r == nil {
		return false
	}
	costs, _ := e.costOfAsking(r.to)
	return e.gentleCost() <= costs*r.calls
}

// costOfAsking returns the processor time in seconds that one question to an address costs the service
// at most, and how much of it is assumed to be spared by each that is avoided.
func (e *Evidence) costOfAsking(to string) (most, spared float64) {
	switch e.Run.Manifest.Machine.TargetRuntime {
	case measure.RuntimeNode, measure.RuntimeCPython, measure.RuntimeRuby:
	default:
		return callCosts, callSpared
	}
	if slices.ContainsFunc(e.dependencies(), func(d dependency) bool {
		return d.address == to && d.store() == nil
	}) {
		return answerCosts, answerSpared
	}
	return callCosts, slowCallSpared
}

// asksOnce returns the cure that leaves one question where there were many, which spares the service
// and the store.
func (e *Evidence) asksOnce(r *repeated) (c cure) {
	for _, d := range e.dependencies() {
		if d.address == r.to && d.store() != nil && !d.hop {
			c = e.spares(d)
			break
		}
	}
	_, each := e.costOfAsking(r.to)
	own := e.AtLine.PerRequest(measure.TargetCPU)
	c.saves = min(c.saves+each*(r.calls-1)/max(own, 1e-9), .8)
	return c
}

// talkative is the finding that each request asks the same address again and again.
func (e *Evidence) talkative(r *repeated) *Finding {
	cost := e.gentleCost()
	c := e.asksOnce(r)
	return &Finding{
		Claim: fmt.Sprintf("For each request %s: one takes %s when it is alone, and computes for "+
			"%s of that", r.words(e), span(e.alone()), span(cost)),
		Rank:       Cost,
		Confidence: .7,
		Evidence: append([]Fact{{
			What: "small segments with data that went to and fro for each request, at a gentle " +
				"load and near the line, and what the requests brought that were more",
			Value: number(e.exchanged(r.to, gentle).each()) + ", " +
				number(e.exchanged(r.to, nearLine).each()) + ", " + number(r.calls) + " each",
		}}, e.dependencyFacts()...),
		Advice: append([]Action{e.askOnce()}, e.dependencyAdvice()...),
		saves:  &c,
		cause:  true,
	}
}

// askOnce is the advice to ask less often.
func (e *Evidence) askOnce() Action {
	return Action{
		Text: "ask once for all that a request needs (a join, WHERE id IN (…) or ANY, MGET, a " +
			"pipeline, a batch), in the place of once for each thing in a list (N+1); what does " +
			"not depend on each other may be asked at the same time; keep what rarely changes",
		Command: e.filled("strace -f -c -e trace=network -p PID   # and a log of the queries"),
	}
}

// neverAsked reports whether the survey ended before it offered any rate. The run then only has
// requests that were sent one after the other.
func (e *Evidence) neverAsked() bool {
	return e.AtLine != nil && e.Line == 0 && e.AtLine.Step.Plan.Rate == 0
}

// failsAlone returns the verdict on requests sent one after the other if even they miss the
// objectives, so that the survey offered no rate. It returns nil otherwise.
func (e *Evidence) failsAlone() *record.Judgement {
	if !e.neverAsked() || e.Run.Result == nil {
		return nil
	}
	for i := range e.Run.Result.Judgements {
		j := &e.Run.Result.Judgements[i]
		if j.Step == e.AtLine.Step.Plan.Number && j.Verdict == record.Fail {
			return j
		}
	}
	return nil
}

// neverQuick reports whether even requests sent one after the other are slower than the objectives
// allow. More of them are too slow than failed requests explain.
func (e *Evidence) neverQuick() bool {
	j := e.failsAlone()
	return j != nil && slices.ContainsFunc(j.Objectives, func(o record.ObjectiveShare) bool {
		as, err := slo.Parse(o.Objective)
		return err == nil && as.Longest() > 0 && o.Share.Estimate-e.AtLine.Failed() > o.Allowed
	})
}

const (
	// delayedAck and delayedAckMost bound, in seconds, how long the kernel delays an
	// acknowledgement that it cannot send with data. A sender that writes a message in two parts
	// waits that long before the second part.
	delayedAck, delayedAckMost = 38e-3, 48e-3
)

// acknowledged returns the advice for queries that take as long as the kernel delays an
// acknowledgement, each of them or all together. A single query that stalls among quick ones shows
// only in the total.
func acknowledged(each, whole float64) []Action {
	stalls := func(took float64) bool { return took >= delayedAck && took <= delayedAckMost }
	which := "for each"
	switch {
	case stalls(each):
	case stalls(whole):
		which = "for all of them, of which one may take nearly all,"
	default:
		return nil
	}
	return []Action{{Text: "about 40 ms " + which + " is how long the kernel puts an " +
		"acknowledgement off: who writes a message in two parts waits for it (Nagle's " +
		"algorithm): write each message at once, and set TCP_NODELAY on both sides"}}
}

// slowAlone is the finding that requests take too long even one after the other, and compute for
// little of that time; nil otherwise.
func (e *Evidence) slowAlone() *Finding {
	alone := e.alone()
	if !e.neverQuick() || alone == 0 || e.AtLine.Failed() > fewFailed ||
		e.computing() >= mostlyComputing {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("Even a request that is alone takes %s, and computes for %s of that",
			span(alone), span(e.gentleCost())),
		Rank:       Binding,
		Confidence: .7,
		Evidence: []Fact{{
			What:  "time of a request that is alone, and its processor time",
			Value: span(alone) + ", " + span(e.gentleCost()),
		}},
		Gain:     Gain{Factor: 1, Low: 1, High: most, Why: "there is no line yet"},
		whatever: true,
	}
	to, calls := e.mostAsked()
	names := e.asked()
	switch s := e.stoodAlone(); {
	case to != "":
		each := (alone - e.gentleCost()) / max(calls, 1)
		f.Claim += fmt.Sprintf(": meanwhile %s, within %s each or less",
			(&repeated{to, calls}).words(e), span(each))
		if calls >= manyCalls {
			f.Advice = append(f.Advice, e.askOnce())
		}
		f.Advice = append(f.Advice, acknowledged(each, each*max(calls, 1))...)
	case s != nil:
		f.Claim += fmt.Sprintf(": threads %q %s, in %s", s.thread, s.means().stands(), s.in())
		f.Advice = append(f.Advice, e.lookAt(s.means())...)
	case len(names) > 0:
		f.Claim += ": it waits for what it asks (" + strings.Join(names, ", ") + "), or sleeps"
	default:
		f.Claim += ": it asks nobody, so it sleeps, or waits for a timer, for a look that is " +
			"only taken now and then, or for another thread"
	}
	f.Advice = append(f.Advice, e.dependencyAdvice()...)
	f.Evidence = append(f.Evidence, e.askedFacts()...)
	return f
}

// mostAsked returns the address with the most exchanges per request, if there are at least 0.5.
// There is only one load, so traffic that goes on without requests is included, and the caller must
// not claim that requests ask the address.
func (e *Evidence) mostAsked() (to string, calls float64) {
	for _, at := range e.sampledOf(measure.OutgoingExchanges) {
		if n := e.exchanged(at, gentle).each(); n >= .5 && n > calls {
			to, calls = at, n
		}
	}
	return to, calls
}

// leastStood is the mean number of threads that must be in a place, while requests come one after
// the other, for a request to spend much of its time there.
const leastStood = .4

// stoodAlone returns the place where most threads are while they work on requests that come one
// after the other; nil if none is seen. Threads that wait for an answer are left out, because it
// may be a client's.
func (e *Evidence) stoodAlone() (most *stand) {
	looks, best := e.looks()[gentle], leastStood
	places := map[string]bool{}
	for _, l := range looks {
		for place := range l.at {
			places[place] = true
		}
	}
	for place := range places {
		s, ok := standOf(place)
		m := s.means()
		if s.half = mean(looks, place); !ok || m == nil || !m.works || m.waitsThere() ||
			s.half < best || s.half == best && most != nil && place > most.place() {
			continue
		}
		most, best = &s, s.half
	}
	return most
}

// lookAt returns the advice on how to see more of what threads wait for.
func (e *Evidence) lookAt(m *meaning) []Action {
	if m.look.Text == "" {
		return nil
	}
	return []Action{{m.look.Text, e.filled(m.look.Command)}}
}

// longAlone is the bottleneck if even a request that is alone misses the objectives.
func (e *Evidence) longAlone(findings []Finding) Limit {
	if len(findings) > 0 && findings[0].Rank <= Binding {
		return Limit{What: findings[0].Rule, Why: findings[0].Claim}
	}
	if e.neverQuick() && e.computing() >= mostlyComputing {
		return Limit{
			What: "the time that a request computes",
			Why: fmt.Sprintf("a request that is alone takes %s, and computes for %s of that",
				span(e.alone()), span(e.gentleCost())),
		}
	}
	return Limit{What: "unknown", Why: "not even one request at a time is served well"}
}

// leavesConnections reports whether the service leaves connections of its own behind in TIME_WAIT,
// at least one for five requests served. The count of opened connections alone does not show it:
// other processes of the machine open more than a few lone requests do.
func (e *Evidence) leavesConnections() bool {
	over, served := 0.0, 0.0
	for i := range e.Run.Steps {
		m := &Moment{Step: &e.Run.Steps[i]}
		over = max(over, m.Max(measure.TargetOutgoingTimeWait)+
			m.Max(measure.TargetOutgoingTimeWaitThere))
		served += float64(m.Step.Totals.Ended.Total())
	}
	return over >= served/5
}
