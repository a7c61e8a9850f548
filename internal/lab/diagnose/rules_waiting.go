package diagnose

import (
	"fmt"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/profile"
)

// waitingRules come last: they report that requests wait for something outside, if nothing was
// found inside that they wait for.
var waitingRules = []Rule{
	{
		Name:  "slow-dependency",
		Claim: "Requests wait for something that the service depends on",
		Needs: []string{measure.TargetCPU},
		Threshold: "response times over 1.5 times those at half of the line while the processors " +
			"are idle; or what it asks on this machine uses half of the processor time in use " +
			"and half as much again as the service's, or whole processors while others are idle, or " +
			"a millisecond for each request where commands take microseconds, or, of a database, two " +
			"milliseconds for each request (1.2 if it uses more than the service and half as much " +
			"again is to be gained, five over a Unix socket) and a third of it or two fifths " +
			"of a lone request's time; or " +
			"over 10 exchanges of small segments with one address for each request; or, from a store, " +
			"ten times the bytes that the client gets, and 64 KB, for each request; or at " +
			"least half of the time that a lone request takes, and over a millisecond, is " +
			"processor time of what it asks; or half of the service's processor time is that of a " +
			"program it has started and asks over a pipe",
		Reason: "by Little's law the requests inside divided by the time each takes is the rate: " +
			"when more inside only take longer, what they wait for is at its limit",
		Judge: judgeWaiting,
		Counters: []Counter{
			{
				"the processors were busy enough for requests to wait for them",
				func(e *Evidence) (string, bool) {
					if e.outOfDoubt() || e.busiest() == nil {
						return "", false
					}
					return percent(e.busiest().Share()) + " of " + e.busiest().What, e.waitedFor()
				},
			},
			{othersBusy.What, func(e *Evidence) (string, bool) {
				if e.outOfDoubt() {
					return "", false
				}
				return othersBusy.Look(e)
			}},
		},
		Last: true,
		Advice: []Action{
			{
				Text: "survey what it depends on, by itself: plimsoll survey on its address " +
					"gives its own line",
			},
			{
				Text: "until it carries more: fewer calls for each request, a cache, " +
					"or a limit on how many wait, so that the others fail fast",
			},
		},
	},
}

func judgeWaiting(e *Evidence) *Finding {
	if _, is := e.sessionsBehind(); is && e.found() {
		return nil // has a rule of its own
	}
	if d, is := e.saturatedBehind(); is && e.found() {
		return e.saturated(d)
	}
	if f := e.waitsForHelper(); f != nil {
		return f
	}
	if locked := e.rowsLocked(); locked != nil {
		return e.lockedRows(locked)
	}
	if f := e.slowAlone(); f != nil {
		return f
	}
	again := e.asksAgain()
	if again != nil && (e.waitedFor() || e.threadWaitedFor()) {
		return e.talkative(again)
	}
	much := e.fetchesTooMuch()
	if much != nil && (e.waitedFor() || e.threadWaitedFor()) {
		return e.tooMuch(much)
	}
	queries, slow := e.runsSlowQueries()
	if slow && e.waitedFor() {
		return e.slowQueriesOf(queries)
	}
	if f := e.waitsForOthers(); f != nil {
		return f
	}
	if again != nil {
		return e.talkative(again)
	}
	if d, is := e.computesMostOf(); is {
		return e.mostOf(d)
	}
	if slow {
		return e.slowQueriesOf(queries)
	}
	return nil
}

// outOfDoubt reports whether a dependency can be the limit although processors are busy: they are
// busy with the dependency, or the finding is about how often the service asks, or about what a
// lone request takes, or the database itself says what its sessions wait for. On a machine without
// an idle processor, a session that holds a lock waits to run.
func (e *Evidence) outOfDoubt() bool {
	_, behind := e.saturatedBehind()
	_, queries := e.runsSlowQueries()
	return behind || queries || e.waitsForHelper() != nil || e.neverQuick() || e.asksAgain() != nil ||
		e.fetchesTooMuch() != nil || e.rowsLocked() != nil && e.busy(hostProcessor) < saturated
}

// waitsForOthers is the finding that requests wait for what the service asks.
func (e *Evidence) waitsForOthers() *Finding {
	half, atLine := e.Half.Service(), e.AtLine.Service()
	sure := atLine >= takesLonger*half && e.Over.Goodput() <= 1.25*e.AtLine.Goodput()
	if !e.queues() || !sure && !e.room() ||
		e.crowdsWithin() && !e.heldLonger() {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("Requests wait for something that the service depends on%s%s: "+
			"at the line they take %s, at half of it %s, and the processors are %s busy",
			e.namedDependencies(), e.atATime(), span(atLine), span(half),
			percent(e.busy(targetProcessor))),
		Rank:       Binding,
		Confidence: .6,
		Evidence: []Fact{
			{
				What:  "time of a request, at the line and at half of it",
				Value: span(atLine) + " and " + span(half),
			},
			{
				What: "requests inside, at half of the line, at it and beyond",
				Value: number(e.Half.Inside()) + ", " + number(e.AtLine.Inside()) + ", " +
					number(e.Over.Inside()),
			},
			{
				What: "goodput there",
				Value: number(e.Half.Goodput()) + ", " + number(e.AtLine.Goodput()) + ", " +
					rate(e.Over.Goodput()),
			},
		},
		Advice: append(e.dependencyAdvice(), e.standAdvice()...),
		Gain:   e.gain(cure{}),
	}
	f.Evidence = append(f.Evidence, e.dependencyFacts()...)
	f.Evidence = append(f.Evidence, e.standFacts()...)
	if r := e.asksAgain(); r != nil {
		f.Claim += "; for each request " + r.words(e)
		f.Advice = append([]Action{e.askOnce()}, f.Advice...)
	}
	f.Evidence = append(f.Evidence, e.stationFacts()...)
	if p := e.AtLine.Profile("goroutine"); p != nil {
		f.Where = p.Top(profile.Goroutine, waitsOutside, placesTold)
		waiting := p.Classify(profile.Goroutine, handlerState)
		if waiting[stateOutside] > waiting[stateElse] {
			f.Confidence = .85
			f.Evidence = append(f.Evidence, Fact{
				What: "goroutines that serve a request, " +
					"and wait for an answer from outside",
				Value: fmt.Sprintf("%s of %s",
					number(waiting[stateOutside]),
					number(waiting[stateOutside]+waiting[stateElse])),
			})
		}
	}
	return f
}

// station returns what the survey predicted the line from, if the prediction was right; nil
// otherwise.
func (e *Evidence) station() *model.Station {
	if e.Run.Result == nil {
		return nil
	}
	for _, p := range e.Run.Result.Model.Predictions {
		if p.Explains() {
			return p.Station
		}
	}
	return nil
}

// delays returns the station that the survey fitted to how requests delay each other at gentle
// rates, wherever it predicted the line; nil if it fitted none.
func (e *Evidence) delays() *model.Station {
	if e.Run.Result == nil {
		return nil
	}
	for _, p := range e.Run.Result.Model.Predictions {
		if p.Station != nil {
			return p.Station
		}
	}
	return nil
}

// stationFacts returns what the station serves, if there is one.
func (e *Evidence) stationFacts() []Fact {
	s := e.station()
	if s == nil {
		return nil
	}
	return []Fact{{
		What: "requests that it serves at a time, from how requests delay each other",
		Value: fmt.Sprintf("%d (%d to %d), for %s each: %s at most", s.Workers, s.WorkersLow,
			s.WorkersHigh, span(s.Service), rate(float64(s.Workers)/s.Service)),
	}}
}

// atATime says how many requests the station serves at a time, to follow its name.
func (e *Evidence) atATime() string {
	s := e.station()
	if s == nil {
		return ""
	}
	return fmt.Sprintf(", which serves %d at a time", s.Workers)
}

// What a goroutine that serves a request does.
const (
	stateOutside = "outside"
	stateElse    = "else"
)

// handlerState returns what such a goroutine does; empty for others.
func handlerState(stack []profile.Frame) string {
	if _, ok := serving(stack); !ok {
		return ""
	}
	if _, ok := waitsOutside(stack); ok {
		return stateOutside
	}
	return stateElse
}

// waitsOutside picks the place from where a goroutine that serves a request waits for an answer
// over a connection.
func waitsOutside(stack []profile.Frame) (profile.Frame, bool) {
	at, serves := serving(stack)
	if !serves {
		return profile.Frame{}, false
	}
	asks := func(f profile.Frame) bool {
		return fits(f.Function, "net/http.(*Transport).roundTrip")
	}
	if onNetwork(stack) || slices.ContainsFunc(stack, asks) {
		return at, true
	}
	return profile.Frame{}, false
}
