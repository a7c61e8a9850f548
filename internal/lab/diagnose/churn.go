package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/measure"
)

const (
	// fewestChurned is the minimum number of connections per request that are opened and closed
	// again, as of those that a pool counts itself. From eachRequest on, there is no pool.
	fewestChurned = .05
	eachRequest   = .5
	// comesWithLoad is how many times as many there are per request as at half of the line. A pool
	// that keeps too few has enough of them as long as few requests are inside.
	comesWithLoad = 3
	// fewerKept is the largest share of the most connections seen before that a look finds, near the
	// line and beyond it, if the pool closes those that are idle. One that grows keeps what it has.
	fewerKept = .5
)

// churned are the connections to a database that a service opens and closes again.
type churned struct {
	dependency
	half, each, beyond float64 // opened per request: at half of the line, at it, and beyond
	second             float64 // opened per second at the line
	open               gauge   // in looks at the line and beyond it
}

// churns returns what a service churns as far as it is seen from outside; nil if it counts them itself,
// or opens one for each request, or as many when few requests are inside. Connections are counted
// whatever they go to, so nothing else that it asks may come and go.
func (e *Evidence) churns() *churned {
	line, half := e.AtLine.Goodput(), e.Half.Goodput()
	if e.AtLine.Has(measure.DBClosedIdle) || line == 0 || half == 0 {
		return nil
	}
	c := churned{second: e.AtLine.opened(), half: e.Half.opened() / half}
	c.each = c.second / line
	if over := e.Over.Goodput(); over > 0 {
		c.beyond = e.Over.opened() / over
	}
	if c.each < fewestChurned || c.each > eachRequest ||
		max(c.each, c.beyond) < comesWithLoad*c.half ||
		e.closedFirst(measure.TargetOutgoingTimeWait) < fewClosed {
		return nil
	}
	for _, to := range e.sampledOf(measure.OutgoingTo) {
		if e.falls(measure.OutgoingTo + to) {
			if c.address != "" {
				return nil
			}
			c.address = to
		}
	}
	for _, d := range e.dependencies() {
		if d.address == c.address && d.session() != "" && !d.hop {
			c.dependency, c.open = d, e.fromTheLineOn(measure.OutgoingTo+d.address)
			return &c
		}
	}
	return nil
}

// falls reports whether a gauge falls by fewerKept, near the line or beyond it, from what it was before.
func (e *Evidence) falls(name string) bool {
	most := 0.0
	for m := range e.stepsFromTheLine() {
		values, _, _ := m.values(name)
		for _, v := range values {
			if v <= fewerKept*most {
				return true
			}
			most = max(most, v)
		}
	}
	return false
}

// rank returns Binding if logins may be a quarter of what the database computes, at the line or beyond it.
func (c *churned) rank(e *Evidence) Rank {
	login := slowdown * c.store().login
	if c.second*login >= littleOfIt*c.used || e.Over.opened()*login >= littleOfIt*c.over && c.over > 0 {
		return Binding
	}
	return Cost
}

// finding is the finding about them.
func (c *churned) finding(e *Evidence) *Finding {
	s := c.store()
	return &Finding{
		Claim: fmt.Sprintf("The service opens %s connections to %s at %s for each request at the "+
			"line, and %s beyond it, and closes them again, where it opens %s at half of the line: its "+
			"pool keeps fewer than it uses. %s %s", number(c.each), s.name, c.address,
			number(c.beyond), number(c.half), s.name, s.session),
		Rank:       c.rank(e),
		Confidence: .8,
		Evidence: append([]Fact{
			{
				What: "connections opened for each request, at half of the line, at it and beyond, " +
					"the generator's left out",
				Value: number(c.half) + ", " + number(c.each) + ", " + number(c.beyond),
			},
			{
				What:  "connections there, from the line on, at the least and at the most",
				Value: number(c.open.least) + ", " + number(c.open.most),
			},
			{
				What:  "connections that the service closed first",
				Value: number(e.closedFirst(measure.TargetOutgoingTimeWait)),
			},
		}, e.dependencyFacts()...),
		Advice: []Action{{
			Text: "keep as many idle connections as may be open: SetMaxIdleConns of database/sql, which " +
				"keeps 2 by default; minimumIdle of HikariCP; min_size of psycopg's and asyncpg's pools, " +
				"and pool_size, not max_overflow, of SQLAlchemy's; idleTimeoutMillis of pg.Pool",
		}},
		Gain: e.gainOfChurn(c.second),
	}
}
