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
	// fewerKept is the largest share of the connections that were open at the most which a look finds
	// at the least, near the line and beyond it, if the pool closes those that are idle.
	fewerKept = .5
)

// churned are the connections to a database that a service opens and closes again.
type churned struct {
	dependency
	each, half float64 // opened per request: at the line or beyond it, whichever is more, and at half of it
	second     float64 // opened per second at the line
	open       gauge   // in looks at the line and beyond it
}

// churns returns what a service churns as far as it is seen from outside; nil if it counts them itself,
// or opens one for each request, or as many when few requests are inside.
func (e *Evidence) churns() *churned {
	line, over, half := e.AtLine.Goodput(), e.Over.Goodput(), e.Half.Goodput()
	if e.AtLine.Has(measure.DBClosedIdle) || line == 0 || half == 0 {
		return nil
	}
	c := churned{second: e.AtLine.opened(), half: e.Half.opened() / half}
	c.each = c.second / line
	if c.each < fewestChurned || c.each > eachRequest {
		return nil
	}
	if over > 0 {
		c.each = max(c.each, e.Over.opened()/over)
	}
	if c.each < comesWithLoad*c.half || e.closedFirst(measure.TargetOutgoingTimeWait) < fewClosed {
		return nil
	}
	for _, d := range e.dependencies() {
		open := e.fromTheLineOn(measure.OutgoingTo + d.address)
		if d.session() != "" && !d.hop && open.count > 1 && open.least <= fewerKept*open.most {
			c.dependency, c.open = d, open
			return &c
		}
	}
	return nil
}

// finding is the finding about them.
func (c *churned) finding(e *Evidence) *Finding {
	s := c.store()
	return &Finding{
		Claim: fmt.Sprintf("The service opens %s connections to %s at %s for each request, and "+
			"closes them again, where it opens %s at half of the line: its pool keeps fewer than "+
			"it uses. %s %s", number(c.each), s.name, c.address, number(c.half), s.name, s.session),
		Rank:       e.churnRank(c.each),
		Confidence: .8,
		Evidence: append([]Fact{
			{
				What: "connections opened for each request, at half of the line, and at it or " +
					"beyond, the generator's left out",
				Value: number(c.half) + ", " + number(c.each),
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
