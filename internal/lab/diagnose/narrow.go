package diagnose

import (
	"math"

	"plimsoll/internal/lab/measure"
)

// These look for an address to which few connections, or few questions, go at a time while more
// requests are under way: what bounds them lets few requests in.

// narrow finds an address to which the service has the same number of connections at all rates from
// the line on, all of them taken, while more requests wait than there are connections.
func (e *Evidence) narrow(p *places) (to string, n float64) {
	for _, at := range e.sampledOf(measure.OutgoingTo) {
		open := e.fromTheLineOn(measure.OutgoingTo + at)
		// A lone request may do more than hold a connection. How long it holds one then shows in
		// how requests delay each other.
		as := e.station() != nil && float64(e.station().Workers) == open.most
		full := p.reached * p.alone / open.most
		if open.most == 1 && e.oneByOne(at) { // at gentle rates, too, requests wait for the only one
			full = p.reached * e.unhurried()
		}
		// Who is made to wait before a connection is accepted is not among those of a Unix socket.
		if at == e.freshTo() || open.count < 2 || open.least < .9*open.most || !e.crowds(at, open.most) ||
			full < mostlyFull || full > 1.3 && !as && !e.takesAll(at, open.most, p) ||
			e.onlyThread(at) ||
			e.idles(at) && (e.carriesMany(at, open.most) || e.oneEach(open.most)) {
			continue
		}
		if to == "" || open.most < n {
			to, n = at, open.most
		}
	}
	return to, n
}

// takesAll reports whether requests take all of the connections to an address, for as long as they
// await its answers. What else a lone request spends its time on has to be known.
func (e *Evidence) takesAll(to string, connections float64, p *places) bool {
	taken, known := e.takenOf(to, p)
	all, _, _ := e.awaited(gentle)
	return known && !e.carriesMany(to, e.fromTheLineOn(measure.OutgoingTo+to).most) &&
		all+e.gentleCost() >= mostlyKnown*p.alone &&
		taken >= mostlyFull*connections && taken <= 1.3*connections
}

// idles reports whether an answer is known to be awaited on less than half of the connections to an
// address from the line on. Where one question follows another on each, an answer is awaited in a look
// or is not, so the mean of a few looks may be that low by chance.
func (e *Evidence) idles(to string) bool {
	awaited := e.fromTheLineOn(measure.OutgoingWaiting + to)
	open := e.fromTheLineOn(measure.OutgoingTo + to)
	chance := 0.0
	if e.oneByOne(to) {
		chance = math.Sqrt(open.mean() * mostlyIdle * (1 - mostlyIdle) / max(float64(awaited.count), 1))
	}
	return awaited.count >= 3 && awaited.mean() < mostlyIdle*open.mean()-chance
}

// heldWhileIdle reports whether a request may hold a connection to an address while it asks nothing:
// one in a transaction of a database does. A client of a service gives it back with the answer.
func (e *Evidence) heldWhileIdle(to string) bool {
	for _, d := range e.dependencies() {
		if d.address == to && !d.hop {
			return d.store() != nil
		}
	}
	return true
}

// crowds reports whether more requests wait than there are connections to an address, from the line
// on: beyond it on average, or again and again for a moment.
func (e *Evidence) crowds(to string, places float64) bool {
	if e.Over.inFlight() >= 2*places {
		return true
	}
	moments, steps := 0, 0
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		if e.Line == 0 || s.Plan.Rate < fromLine*e.Line {
			continue
		}
		if steps++; atOnce(s) >= farMoreInside*places {
			moments++
		}
	}
	return moments >= max(fewestMoments, steps/4) && !e.carriesMany(to, places)
}

// fewestMoments is in how many steps far more requests have to wait for a moment: once may be
// chance.
const fewestMoments = 2

// atOnce returns how many requests were under way at once in a step at least. The generator's loops
// each know the most of their own, which need not have been at the same moment.
func atOnce(s *measure.Step) float64 {
	return float64(s.Totals.Peak) / float64(max(s.Totals.Generator.Loops, 1))
}

// mostInFlight returns the most requests that were under way at once from the line on.
func (e *Evidence) mostInFlight() (most float64) {
	for i := range e.Run.Steps {
		if s := &e.Run.Steps[i]; e.Line > 0 && s.Plan.Rate >= fromLine*e.Line {
			most = max(most, atOnce(s))
		}
	}
	return most
}

// carriesMany reports whether connections to an address may carry many requests at once: a process
// that has no more than one may send them one after the other, and so do clients of quick stores.
func (e *Evidence) carriesMany(to string, connections float64) bool {
	for _, d := range e.dependencies() {
		if s := d.store(); d.address == to && !d.hop && s != nil && (s.quick || s.keyed) {
			return s.quick // a database answers one query after the other
		}
	}
	return e.oneEach(connections) && !e.oneByOne(to)
}

// oneByOne reports whether the service is known to ask an address its questions one after the other on
// each connection: it has never sent more segments beyond those that came than it has connections.
// Where many questions are under way on one, it has, and where questions or answers have several
// segments each, the difference grows.
func (e *Evidence) oneByOne(to string) bool {
	open := e.fromTheLineOn(measure.OutgoingTo + to)
	ahead := e.fromTheLineOn(measure.OutgoingAhead + to)
	return ahead.count >= fewestSamples && open.least == open.most && ahead.most-ahead.least <= open.most &&
		e.exchanged(to, nearLine).times >= fewestAnswered
}

// fewestSamples is how many samples have to agree on that, and fewestAnswered how many questions were
// answered meanwhile.
const fewestSamples, fewestAnswered = 5, 100

// oneEach reports whether no more connections are open than there are processes. If each process has
// one, that need not be a pool: workers keep one each.
func (e *Evidence) oneEach(connections float64) bool {
	return connections <= e.AtLine.Median(measure.TargetProcesses)
}

// fewAsked finds an address that the service asks few things at once, and almost always the same
// number while far more requests are under way. Something between them lets few requests through:
// if the dependency were the limit, all requests would wait there. A number that nothing bounds differs
// from its mean by its root: the highest of a few looks at 32 is 48.
func (e *Evidence) fewAsked(p *places) (to string, n float64) {
	for _, at := range e.sampledOf(measure.OutgoingWaiting) {
		most := e.fromTheLineOn(measure.OutgoingWaiting + at).most
		all := e.whileCrowded(measure.OutgoingWaiting+at, farMoreInside*most)
		if all.count < 3 || all.mean() < max(mostlyAsked*most, most-2*math.Sqrt(most)) ||
			!near(p.reached*p.alone, most, 1/mostlyFull) && !e.takesAll(at, most, p) &&
				!e.keepsBusy(at, all.mean(), p) || e.onlyThread(at) {
			continue
		}
		if to == "" || most < n {
			to, n = at, most
		}
	}
	return to, n
}

// keepsBusy reports whether an answer is awaited on all of the connections to an address, on which one
// question follows another, and comes as quickly as well below the line. Then requests wait for a
// connection, or for what holds it, whatever else a request does.
func (e *Evidence) keepsBusy(to string, awaited float64, p *places) bool {
	taken, known := e.takenOf(to, p)
	open := e.fromTheLineOn(measure.OutgoingTo + to)
	return known && e.oneByOne(to) && awaited >= mostlyAsked*open.most && awaited <= takesLonger*taken
}

// fewOpen finds an address to which the service has the same number of connections whenever far more
// requests are under way, however many idle ones it keeps at other times. Several processes that
// each have a few places do not share the requests evenly, so their line comes before all places
// are taken. Where there are far more connections to another address, requests may wait there.
func (e *Evidence) fewOpen(little float64) (to string, n float64) {
	most, elsewhere := map[string]float64{}, 0.0
	addresses := e.sampledOf(measure.OutgoingTo)
	for _, at := range addresses {
		most[at] = e.fromTheLineOn(measure.OutgoingTo + at).most
		elsewhere = max(elsewhere, most[at])
	}
	for _, at := range addresses {
		all := e.whileCrowded(measure.OutgoingTo+at, farMoreInside*most[at])
		if at == e.freshTo() || all.count < 2 || all.most < 2 || all.least < .9*all.most ||
			!near(little, all.most, 1/mostlyFull) || elsewhere > farMoreInside*all.most ||
			e.onlyThread(at) || e.carriesMany(at, all.most) ||
			e.idles(at) && (e.oneEach(all.most) || !e.heldWhileIdle(at)) {
			continue
		}
		if to == "" || all.most < n {
			to, n = at, all.most
		}
	}
	return to, n
}

// asksLittle reports whether requests do not wait for what the service asks, although it keeps
// connections: while far more requests are under way than there are places, an answer is awaited on
// few of these connections, to any address. Of Unix and UDP sockets that is not known.
func (e *Evidence) asksLittle(places float64) bool {
	crowd := max(farMoreInside*places, farMoreInside)
	kept := e.whileCrowded(measure.TargetOutgoingEstablished, crowd)
	if kept.count < 3 || kept.least < 1 {
		return false
	}
	asked := 0.0
	for _, at := range e.sampledOf(measure.OutgoingTo) {
		open := e.whileCrowded(measure.OutgoingTo+at, crowd)
		awaited := e.whileCrowded(measure.OutgoingWaiting+at, crowd)
		if open.most == 0 {
			continue
		}
		idle, many := mostlyIdle, e.carriesMany(at, open.most)
		if many {
			idle = e.mayAwait(at)
		}
		if awaited.count == 0 && !many { // not known: an answer may be awaited on each
			asked += open.mean()
			continue
		}
		if awaited.count < 3 || awaited.mean() >= idle*open.mean() {
			return false
		}
		asked += awaited.mean()
	}
	return asked < mostlyIdle*max(places, 1)
}

// mayAwait returns the largest share of the connections to an address, which may carry many requests at
// once, on which an answer is awaited if requests do not wait there.
func (e *Evidence) mayAwait(to string) float64 {
	for _, d := range e.dependencies() {
		if s := d.store(); d.address == to && !d.hop && (s == nil || !s.quick) &&
			max(d.used, d.over) <= hardlyBusy {
			return rarelyAsked
		}
	}
	return hardlyAsked
}

const (
	// mostlyIdle is the largest share of the connections, and of the places, for which an answer is
	// awaited if requests wait for something else.
	mostlyIdle = .5
	// hardlyAsked is the same share of connections that may carry many requests at once: the answer
	// to one of them may come after the last question, while the others are awaited.
	hardlyAsked = .2
	// rarelyAsked is the same for a service with little to do, which answers one after the other: its
	// answer to the last question is awaited most of the time if there are many.
	rarelyAsked = .4
	// farMoreInside is how many requests must be under way per place for all places to be taken.
	farMoreInside = 4
	// mostlyAsked is the minimum ratio of the mean number of awaited answers to the highest one, if
	// there cannot be more. It is below 1 because requests that have a place also compute.
	mostlyAsked = .65
)
