package diagnose

import (
	"fmt"
	"math"
	"strings"
)

// asking is what the threads show that wait for what the service asks.
type asking struct {
	threads float64 // that wait there beyond the line
	gentle  float64 // that wait there well below it
	inside  float64 // requests under way there
	// gently and beyond are the seconds for which a request has one of them wait, by Little's law,
	// well below the line and beyond it.
	gently, beyond float64
}

const (
	// moreInside is how many times as many requests as threads that wait have to be inside, for
	// most of them to stand elsewhere.
	moreInside = 1.5
	// asQuick is by how much an answer may take longer, beyond the line, from one that serves few
	// as quickly as it ever does.
	asQuick = 1.25
)

// fewAsk says that the service lets few of its requests ask at a time: beyond the line most of
// those that are inside do not ask, and who asks is answered as quickly as well below the line.
// Whoever is asked would have more of them wait, and each for longer, if it were the limit. Nil
// otherwise, or where threads do not tell.
func (e *Evidence) fewAsk() *asking {
	a := e.asking()
	if a.gently == 0 || a.threads < fewestStanding ||
		a.inside < moreInside*a.threads || a.beyond > asQuick*a.gently {
		return nil
	}
	return a
}

// askedSlows says that who asks waits for far longer with more load, and several do: whoever is
// asked is the limit, even where a pool lets few of them in, so that most requests stand before
// that.
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

// waits is for how long a request has threads wait in some places at one load, how many wait there
// on average, and how many requests are under way.
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

// n is how many may ask at a time.
func (a *asking) n() float64 { return max(math.Round(a.threads), 1) }

// facts are what it is known by.
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

// askWords say it behind a claim.
func (e *Evidence) askWords(a *asking) string {
	whom := "what it asks"
	if names := e.asked(); len(names) > 0 {
		whom = strings.Join(names, ", ")
	}
	return fmt.Sprintf(": that many wait for %s, which answers as quickly as ever (%s well below the "+
		"line, %s beyond it)", whom, span(a.gently), span(a.beyond))
}
