package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// asking describes the threads that wait for what the service asks.
type asking struct {
	threads float64 // mean number that wait there beyond the line
	gentle  float64 // mean number that wait there well below the line
	inside  float64 // requests under way beyond the line
	// gently and beyond are the seconds that a request has such a thread wait, by Little's law,
	// well below the line and beyond it.
	gently, beyond float64
}

const (
	// moreInside is the minimum ratio of requests under way to waiting threads for most requests to
	// be elsewhere.
	moreInside = 1.5
	// asQuick is how many times as long an answer may take beyond the line as well below it, from a
	// dependency that is not the limit.
	asQuick = 1.25
)

// fewAsk checks whether the service lets few of its requests ask at a time. If so, beyond the line
// most requests inside do not ask, and those that do are answered as quickly as well below the
// line. If the dependency were the limit, more requests would wait for it, and each for longer.
// fewAsk returns nil if it does not, or if the threads do not show it.
func (e *Evidence) fewAsk() *asking {
	a := e.asking()
	// Nobody waits for an answer for far longer than a request takes: too few threads were seen.
	if a.gently == 0 || a.gently > slower*e.alone() || a.threads < fewestStanding ||
		a.inside < moreInside*a.threads || a.beyond > asQuick*a.gently {
		return nil
	}
	return a
}

// askedSlows reports whether several requests wait for the dependency, and for far longer with more
// load. Then the dependency is the limit, even if a pool lets few requests in and most of them wait
// before the pool.
func (e *Evidence) askedSlows() bool {
	a := e.asking()
	return a.gentle >= leastInUse && a.threads >= 2 && a.beyond >= slower*a.gently
}

// awaitedByOthers reports whether threads that stand in a futex wait for what another thread asks on
// their behalf, as they do for an asynchronous client: answers take far longer beyond the line, and are
// awaited on as many more connections as half of these threads.
func (e *Evidence) awaitedByOthers(c *crowd) bool {
	gently, below, known := e.awaited(gentle)
	beyond, above, also := e.awaited(beyondLine)
	return c.means().kind == kindOf(measure.TargetWaitingFutex) && known && also &&
		beyond >= slower*gently && above-below >= .5*c.grown
}

// waitsWithin reports whether the answers that a request awaits take no longer beyond the line than
// well below it, although far more requests are inside than places: these wait elsewhere. At a
// dependency that is the limit answers take longer, as its queue is there. By Little's law the
// connections on which an answer is awaited tell how long that is. Of Unix and UDP sockets this is not
// known, so what is awaited has to explain, with what is computed, how long a lone request takes.
func (e *Evidence) waitsWithin(places float64) bool {
	gently, below, known := e.awaited(gentle)
	beyond, above, also := e.awaited(beyondLine)
	alone := e.alone()
	// What is awaited at all rates is not asked for requests, which may ask several things at once.
	if !known || !also || beyond > asQuick*gently ||
		gently > slower*alone && above < slower*below ||
		gently+e.gentleCost() < mostlyKnown*alone ||
		e.Over.inFlight() < farMoreInside*max(places, 1) {
		return false
	}
	// A connection that carries many requests is awaited as long as there are any, wherever these
	// wait; unless a thread waits for each answer.
	return !slices.ContainsFunc(e.sampledOf(measure.OutgoingTo), func(to string) bool {
		open := e.fromTheLineOn(measure.OutgoingTo + to)
		awaited := e.fromTheLineOn(measure.OutgoingWaiting + to)
		return e.carriesMany(to, open.most) &&
			(awaited.count < 3 || awaited.mean() >= e.mayAwait(to)*open.mean())
	}) || e.readersMore() >= mostlyAsked*(above-below)
}

// readersMore returns how many more threads wait for an answer beyond the line than well below it.
func (e *Evidence) readersMore() float64 {
	reads := func(at *stand) bool { return at.means() != nil && at.means().waitsThere() }
	return meanWhere(e.looks()[beyondLine], reads) - meanWhere(e.looks()[gentle], reads)
}

// mostlyKnown is the minimum share of a lone request's time of which it is known what it is spent on.
const mostlyKnown = .8

// awaited returns, for one load, the seconds for which a request awaits answers on all connections
// together, and on how many of them one is awaited on average. known is false if fewer than three
// samples tell it.
func (e *Evidence) awaited(load int) (each, connections float64, known bool) {
	return e.awaitedFrom("", load)
}

// takenOf returns how many connections to an address requests take at the highest goodput, by Little's
// law from how long one awaits an answer there at gentle rates: it may await others besides. known is
// false if that is not known, or if answers take longer beyond the line.
func (e *Evidence) takenOf(to string, p *places) (n float64, known bool) {
	gently, _, known := e.awaitedFrom(to, gentle)
	beyond, _, also := e.awaitedFrom(to, beyondLine)
	return p.reached * gently, known && also && beyond <= asQuick*gently
}

// awaitedFrom is awaited for the connections to one address; to all if to is empty.
func (e *Evidence) awaitedFrom(to string, load int) (each, connections float64, known bool) {
	goodput, sum, count := 0.0, 0.0, 0.0
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		if e.loadOf(s) != load {
			continue
		}
		for j := range s.Samples {
			if n, told := awaitedIn(&s.Samples[j], to); told && s.Judged(s.Samples[j].At) {
				sum, count = sum+n, count+1
				goodput += (&Moment{Step: s}).Goodput()
			}
		}
	}
	return sum / max(goodput, 1e-9), sum / max(count, 1), count >= 3 && goodput > 0
}

// awaitedIn returns on how many connections to an address, or to all, a sample has an answer awaited;
// told is false if it does not say so of any.
func awaitedIn(s *measure.Sample, to string) (n float64, told bool) {
	for name, waiting := range s.Values {
		if at, is := strings.CutPrefix(name, measure.OutgoingWaiting); is && (to == "" || at == to) {
			n, told = n+waiting, true
		}
	}
	return n, told
}

// asking looks at the threads that wait for an answer.
func (e *Evidence) asking() *asking {
	places := map[string]bool{}
	outgoing := e.askers()
	for _, s := range e.stands() {
		if s.means().waitsThere() && !readsClients(outgoing, max(s.atLine, s.over)-s.half) {
			places[s.place()] = true
		}
	}
	a := &asking{}
	a.gently, a.gentle, _ = e.waits(gentle, places)
	a.beyond, a.threads, a.inside = e.waits(beyondLine, places)
	return a
}

// waits returns, for one load, the seconds that a request has threads wait in some places, how many
// threads wait there on average, and how many requests are under way.
func (e *Evidence) waits(load int, places map[string]bool) (each, threads, inside float64) {
	goodput := 0.0
	looks := e.looks()[load]
	for _, l := range looks {
		for place := range places {
			threads += l.at[place]
		}
		goodput, inside = goodput+l.goodput, inside+l.inside
	}
	n := max(float64(len(looks)), 1)
	return threads / max(goodput, 1e-9), threads / n, inside / n
}

// n is how many requests may ask at a time.
func (a *asking) n() float64 { return max(math.Round(a.threads), 1) }

// facts returns the evidence for a.
func (a *asking) facts() []Fact {
	return []Fact{{
		What: "requests under way beyond the line, and threads that wait for what the service " +
			"asks",
		Value: number(a.inside) + ", " + number(a.threads),
	}, {
		What: "how long a request waits there, well below the line and beyond it: what is asked " +
			"is no slower when more is asked of the service",
		Value: span(a.gently) + ", " + span(a.beyond),
	}}
}

// askWords puts a in words, to follow a claim.
func (e *Evidence) askWords(a *asking) string {
	whom := "what it asks"
	if names := e.asked(); len(names) > 0 {
		whom = strings.Join(names, ", ")
	}
	return fmt.Sprintf(": that many wait for %s, which answers as quickly as ever (%s well below the "+
		"line, %s beyond it), so a lock, a pool, a semaphore or few threads let no more of them ask",
		whom, span(a.gently), span(a.beyond))
}
