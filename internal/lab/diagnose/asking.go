package diagnose

import (
	"fmt"
	"math"
	"strings"
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
		"line, %s beyond it)", whom, span(a.gently), span(a.beyond))
}
