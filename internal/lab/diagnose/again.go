package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// repeated is an address with which the service exchanges small messages again and again for one
// request.
type repeated struct {
	to    string
	calls float64 // for each request
}

const (
	// manyCalls is how many exchanges there are with one address for one request, at least, for
	// them to be told: a few questions, or a transaction around them, are what a service is there
	// for.
	manyCalls = 10
	// sameCalls is by how much those that more requests bring may differ from all there are near the
	// line, for each: what has nothing to do with requests is to be the smaller part.
	sameCalls = 2
	// apartLoads is how many times the rate of the one load that of the other is, at least, for the
	// two to say what more requests bring.
	apartLoads = 1.2
	// callCosts is what one question costs the service in processor seconds at most, where to ask
	// is most of what it does: 40 µs in Go, 0.1 to 0.4 ms in Node.js, Python and Ruby.
	callCosts = 500e-6
	// callSpared is what one is assumed to cost that is spared.
	callSpared = 60e-6
)

// asksAgain is the address that is asked most often for one request; nil where none is asked often,
// or only one load was seen, of which nobody knows what of it is for the requests. To begin a
// connection takes some exchanges too: where they are not kept that is the cause.
func (e *Evidence) asksAgain() (most *repeated) {
	over := e.AtLine.Max(measure.TargetOutgoingTimeWait) +
		e.AtLine.Max(measure.TargetOutgoingTimeWaitThere)
	if over >= fewClosed && e.AtLine.opened() > .2*e.AtLine.Goodput() {
		return nil
	}
	for _, at := range e.sampledOf(measure.OutgoingExchanges) {
		line := e.exchanged(at, nearLine)
		calls, known := line.beside(e.exchanged(at, gentle))
		if !known || calls < manyCalls || !near(calls, line.each(), sameCalls) {
			continue
		}
		if most == nil || calls > most.calls {
			most = &repeated{at, calls}
		}
	}
	return most
}

// exchanged is what went to and fro between the service and an address at a load, how many requests
// ended meanwhile, and for how long both were seen.
type exchanged struct{ times, requests, seconds float64 }

// each is how many exchanges there were for one request; 0 where that is not known.
func (x exchanged) each() float64 { return x.times / max(x.requests, 1) }

// beside is how many exchanges one more request brings, as a gentler load beside this one says;
// false where the two are not known, or are much the same load. What goes on without requests
// is in neither.
func (x exchanged) beside(gentler exchanged) (each float64, known bool) {
	if x.seconds <= 0 || gentler.seconds <= 0 ||
		x.requests/x.seconds < apartLoads*gentler.requests/gentler.seconds {
		return 0, false
	}
	more := x.requests/x.seconds - gentler.requests/gentler.seconds
	return (x.times/x.seconds - gentler.times/gentler.seconds) / more, true
}

// exchanged is what was seen of an address at a load. It is counted once in a second or so, so that
// short steps that follow each other count together.
func (e *Evidence) exchanged(at string, load int) (x exchanged) {
	ended, last, answered, seen := 0.0, -1.0, 0.0, 0.0
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		r := s.Plan.Rate / max(e.Line, 1e-9)
		wanted := s.Plan.Phase != measure.PhaseOverload &&
			(load == gentle && r <= gentleTo || load == nearLine && r >= nearFrom && r <= nearTo)
		if !wanted {
			last = -1
		}
		for j := range s.Samples {
			now, told := s.Samples[j].Values[measure.OutgoingExchanges+at]
			if !wanted || !told {
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

// words are "22.0 small segments with data go to postgres at 127.0.0.1:5432, and as many come
// back".
func (r *repeated) words(e *Evidence) string {
	return fmt.Sprintf("%s small segments with data go to %s, and as many come back",
		number(r.calls), e.named(r.to))
}

// onlyTalks says that most of what the service does for a request is to ask again and again.
func (e *Evidence) onlyTalks() bool {
	r := e.asksAgain()
	return r != nil && e.gentleCost() <= callCosts*r.calls
}

// talkative is the finding that each request asks the same one again and again.
func (e *Evidence) talkative(r *repeated) *Finding {
	cost := e.gentleCost()
	saves := min(callSpared*(r.calls-1)/max(cost, 1e-9), .8)
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
		saves:  &cure{saves: saves},
		cause:  true,
	}
}

// askOnce is how to ask less often.
func (e *Evidence) askOnce() Action {
	return Action{
		Text: "ask once for all that a request needs (a join, WHERE id IN (…) or ANY, MGET, a " +
			"pipeline, a batch), in the place of once for each thing in a list (N+1); what does " +
			"not depend on each other may be asked at the same time; keep what rarely changes",
		Command: e.filled("strace -f -c -e trace=network -p PID   # and a log of the queries"),
	}
}

// neverAsked says that the survey ended before it asked at any rate: all that there is to look at
// are requests that came one after the other.
func (e *Evidence) neverAsked() bool {
	return e.AtLine != nil && e.Line == 0 && e.AtLine.Step.Plan.Rate == 0
}

// failsAlone is the verdict on requests that come one after the other where not even they are as
// the objectives want, so that the survey asked at no rate; nil where that is not so.
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

// neverQuick says that not even requests that come one after the other are as quick as the
// objectives want: so many take too long that those which failed are not why.
func (e *Evidence) neverQuick() bool {
	j := e.failsAlone()
	return j != nil && slices.ContainsFunc(j.Objectives, func(o record.ObjectiveShare) bool {
		as, err := slo.Parse(o.Objective)
		return err == nil && as.Longest() > 0 && o.Share.Estimate-e.AtLine.Failed() > o.Allowed
	})
}

const (
	// delayedAck is for how long the kernel waits before it acknowledges what it has no answer to
	// yet: who sends a message in two parts waits for that before the second.
	delayedAck, delayedAckMost = 38e-3, 48e-3
)

// acknowledged is what to say of questions that take so long each, and all together, where that is
// for how long an acknowledgement is put off. One that stalls among quick ones shows in the whole.
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

// slowAlone is the finding that requests take too long even when they come one after the other, and
// hardly compute meanwhile; nil where that is not so.
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

// mostAsked is the address with which most was exchanged for a request, at least now and then. There
// is one load only, so that what goes on without requests is in it: that it is asked is not claimed.
func (e *Evidence) mostAsked() (to string, calls float64) {
	for _, at := range e.sampledOf(measure.OutgoingExchanges) {
		if n := e.exchanged(at, gentle).each(); n >= .5 && n > calls {
			to, calls = at, n
		}
	}
	return to, calls
}

// leastStood is in which part of the looks a thread has to stand in a place, for a request to spend
// much of its time there.
const leastStood = .4

// stoodAlone is where threads stand in the midst of requests that come one after the other; nil
// where that is not seen. Who waits for an answer is not told, as it may be a client's.
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

// lookAt is how to see more of what threads wait for.
func (e *Evidence) lookAt(m *meaning) []Action {
	if m.look.Text == "" {
		return nil
	}
	return []Action{{m.look.Text, e.filled(m.look.Command)}}
}

// longAlone is the bottleneck where not even a request that is alone is quick enough.
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

// leavesConnections says that about as many connections of the service's own are remembered to be
// over as it has served requests: what others of the machine open is more than few lone requests
// do.
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
