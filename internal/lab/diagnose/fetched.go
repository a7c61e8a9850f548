package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/measure"
)

const (
	// muchFetched is the minimum number of bytes that a store gives for each request, and moreThanGiven
	// the factor by which they exceed what the client gets, if the service asks for far more than it
	// uses. Compression makes five to eight times less of text.
	muchFetched, moreThanGiven = 64e3, 10
	// sameFetched is how much the bytes for each request may differ at half of the line.
	sameFetched = 1.3
	// mostlyFetching is the minimum share of the processor time of a request, in the service and the
	// store, that this and the store's own part explain.
	mostlyFetching = .35
)

// fetchedCosts returns the processor time in seconds that the service takes to read each byte from a
// store at least, with what its library makes of it: 5 to 10 ns in Go and Java, 10 to 20 ns in Node.js.
// Rows that psycopg2 makes dicts of take 60 to 80 ns, a large hash of redis-py 84 ns.
func (e *Evidence) fetchedCosts() float64 {
	switch e.Run.Manifest.Machine.TargetRuntime {
	case measure.RuntimeNode:
		return 12e-9
	case measure.RuntimeCPython, measure.RuntimeRuby:
		return 30e-9
	}
	return 8e-9
}

// fetched is how many bytes a store gives the service for each request, and how many of them the
// client gets.
type fetched struct {
	dependency
	came, given float64
}

// fetchesTooMuch returns the store that gives the service far more than clients get: rows that are
// filtered by the service, columns that nobody asked for, whole lists of which a page is shown. It
// returns nil if reading that is a small part of the work.
func (e *Evidence) fetchesTooMuch() *fetched {
	for _, d := range e.dependencies() {
		sample := measure.OutgoingReceived + d.address
		came := e.AtLine.PerRequest(sample)
		given := e.AtLine.answerBytes()
		if d.store() == nil || d.hop || came < muchFetched || came < moreThanGiven*given ||
			!near(came, e.Half.PerRequest(sample), sameFetched) {
			continue
		}
		own, behind := e.AtLine.PerRequest(measure.TargetCPU), e.costsBehind(d)
		if came*e.fetchedCosts()+behind >= mostlyFetching*(own+behind) {
			return &fetched{d, came, given}
		}
	}
	return nil
}

// tooMuch is the finding that a request reads far more from a store than its client gets.
func (e *Evidence) tooMuch(x *fetched) *Finding {
	own := e.AtLine.PerRequest(measure.TargetCPU)
	c := e.spares(x.dependency)
	c.saves += min(x.came*e.fetchedCosts()/max(own, 1e-9), 1) * (1 - c.saves) * spared
	return &Finding{
		Claim: fmt.Sprintf("For each request %s at %s gives the service %s, and the client gets %s",
			x.process, x.address, size(x.came), size(x.given)),
		Rank:       Cost,
		Confidence: .65,
		Evidence: append([]Fact{{
			What:  "processor time of a request in " + x.process + ", and in the service",
			Value: span(e.costsBehind(x.dependency)) + ", " + span(own),
		}}, e.dependencyFacts()...),
		Advice: append([]Action{{
			Text: "ask for no more than the answer needs: WHERE, LIMIT and GROUP BY in the query in " +
				"the place of a loop over its rows, columns by name in the place of *, a part of a " +
				"list or hash (LRANGE 0 9, HMGET) in the place of all of it; keep what rarely changes",
		}}, e.askedOf(x.dependency)...),
		saves: &c,
		cause: true,
	}
}
