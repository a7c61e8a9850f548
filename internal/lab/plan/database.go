package plan

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// Database connections that are reserved.
const (
	reservedSuperuser = 3 // PostgreSQL's superuser_reserved_connections, its default
	reservedOthers    = 5 // migrations, monitoring, and a person who debugs
)

// Database is the connection pool of each instance.
type Database struct {
	PerInstance Figure `json:"per_instance"`
	// Needed is the maximum that an instance has in use at its target's rate, in all but one moment
	// of a thousand; nil if the run does not show it.
	Needed *Figure `json:"needed,omitempty"`
	// Enough is meaningful only with Needed.
	Enough bool `json:"enough"`
}

// database divides the database's connections by the maximum number of instances.
func (p *DeploymentPlan) database(run *record.Run) {
	o := &p.Options
	if o.DatabaseConnections == 0 {
		return
	}
	most, surging, from := p.most()
	reserve := reservedSuperuser + reservedOthers
	each := max(0, o.DatabaseConnections-reserve) / (most + surging)
	d := &Database{PerInstance: Figure{float64(each), "connections", fmt.Sprintf(
		"(%d of the database − %d for superusers − %d for migrations, monitoring and people) "+
			"÷ (%d instances, %s, + %d that a rolling update adds)",
		o.DatabaseConnections, reservedSuperuser, reservedOthers, most, from, surging)}}
	p.Database = d
	if each == 0 {
		p.caution("the database allows less than one connection for each of %d instances: "+
			"put a pooler (such as PgBouncer) between, or let it allow more than %d",
			most+surging, reserve+most+surging)
	}
	p.needed(d, run)
}

// most returns the maximum number of instances, and how many a rolling update adds.
func (p *DeploymentPlan) most() (most, surging int, from string) {
	if a := p.Autoscaler; a != nil {
		return a.MaxReplicas, a.Surge, "the most that the autoscaler makes"
	}
	n := p.Instances.Count
	return n, int(ceil(surge * float64(n))), "as planned"
}

// needed compares the pool with the connections in use. By Little's law the mean in use is the rate
// times the time that a request holds a connection, so it is proportional to the rate. Higher
// momentary values are random (Poisson).
func (p *DeploymentPlan) needed(d *Database, run *record.Run) {
	rate := p.Instances.Safe.Value
	if p.Autoscaler != nil {
		rate = min(rate, p.Autoscaler.TargetRate.Value*p.Autoscaler.Grown)
	}
	var points []point
	full := false
	for i := range run.Steps {
		s := &run.Steps[i]
		mean, n := 0.0, 0
		for _, sample := range s.Samples {
			v, there := sample.Values[measure.DBInUse]
			if !(there && v >= 0 && v <= mostHeld && s.Judged(sample.At)) {
				continue
			}
			mean += v
			n++
			if limit := sample.Values[measure.DBMaxOpen]; limit > 0 && v >= limit &&
				s.Totals.Rate() <= p.Line.Low {
				full = true
			}
		}
		if at := s.Totals.Goodput(); n > 0 && usable(s) && at > 0 && at <= beyond*p.Line.High {
			points = append(points, point{at, mean / float64(n)})
		}
	}
	if len(points) == 0 {
		p.caution("the run does not tell how many connections to the database are in use (%s), "+
			"so whether %.0f are enough is not known: survey with --metrics, of a page that has "+
			"the pool's figures",
			measure.DBInUse, d.PerInstance.Value)
		return
	}
	held, moments := 0.0, 0.0
	for _, at := range points {
		held, moments = held+at.value, moments+at.rate
	}
	perRequest := held / moments
	mean := perRequest * rate
	const rare = 3.09 // standard deviations that one moment in a thousand exceeds
	need := max(1, ceil(mean+rare*math.Sqrt(mean)))
	d.Needed = &Figure{
		need,
		"connections",
		fmt.Sprintf("%s × %.3g s that a request holds one (in use ÷ rate over %d steps, "+
			"Little's law) is %.3g on average; %.2g standard deviations more for all but one "+
			"moment of a thousand",
			format.Rate(rate), perRequest, len(points), mean, rare),
	}
	d.Enough = d.PerInstance.Value >= need
	if !d.Enough {
		p.caution("an instance may have %.0f connections to the database and needs %.0f at %s: "+
			"requests will wait for one, and the line measured does not hold; "+
			"let the database allow more, hold connections for less time, "+
			"or share them by a pooler", d.PerInstance.Value, need, format.Rate(rate))
	}
	if full {
		p.caution("the pool was used up below the line while it was surveyed, " +
			"so that more may be needed than was seen")
	}
}
