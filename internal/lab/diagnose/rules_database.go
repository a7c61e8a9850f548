package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/measure"
)

// databaseRules are about pools of database/sql.
var databaseRules = []Rule{
	{
		Name:      "database-pool-above-limit",
		Claim:     "The pool may open more connections than the database allows",
		Needs:     []string{measure.DBMaxOpen, measure.DBServerLimit},
		Threshold: "no limit, or one above the database's",
		Reason: "the database refuses further connections, and the requests that need them " +
			"fail, just when there are many",
		Judge: func(e *Evidence) *Finding {
			pool, limit := e.AtLine.Last(measure.DBMaxOpen), e.AtLine.Last(measure.DBServerLimit)
			if limit == 0 || pool > 0 && pool <= limit {
				return nil
			}
			open := max(e.AtLine.Max(measure.DBOpen), e.Over.Max(measure.DBOpen))
			failed := e.Over.Failed()
			binding := e.idle() && (open >= .8*limit || failed > .01)
			many := number(pool)
			if pool == 0 {
				many = "as many as are asked for"
			}
			return &Finding{
				Claim: fmt.Sprintf("The pool may open %s connections, "+
					"and the database allows %s", many, number(limit)),
				Rank:       rankOf(binding),
				Confidence: .9,
				Evidence: []Fact{
					{What: "connections the pool may open", Value: many},
					{
						What:  "connections the database allows (max_connections)",
						Value: number(limit),
					},
					{What: "connections open, at most", Value: number(open)},
					{What: "requests that failed beyond the line", Value: percent(failed)},
				},
				Advice: []Action{{
					Text: fmt.Sprintf("let all instances together open fewer than the "+
						"database allows, and some kept back for people: with one instance %.0f",
						max(reservedShare*limit, 1)),
					Command: fmt.Sprintf("db.SetMaxOpenConns(%.0f)", max(reservedShare*limit, 1)),
				}},
				Gain: e.gainIf(binding),
			}
		},
		Counters: []Counter{{
			"it never opened half of what the database allows, beyond the line either",
			func(e *Evidence) (string, bool) {
				open := max(e.AtLine.Max(measure.DBOpen), e.Over.Max(measure.DBOpen))
				limit := e.AtLine.Last(measure.DBServerLimit)
				return fmt.Sprintf("%s of %s", number(open), number(limit)),
					open > 0 && open < .5*limit && e.AtLine.Last(measure.DBMaxOpen) > 0
			},
		}},
	},
	{
		Name:  "database-connections-churn",
		Claim: "The pool opens a connection for many queries, and closes it again",
		Needs: []string{measure.DBClosedIdle + "|" + measure.HostTCPOpenedActive},
		Threshold: "over 1 connection closed for 20 requests; or, where the pool does not count them, " +
			"1 opened to a database for 20 to 2 requests, three times as many as at half of the line, " +
			"while at times half of those there are gone",
		Reason: "a connection to PostgreSQL is a process and a login: milliseconds, " +
			"where a kept one costs nothing",
		Judge: func(e *Evidence) *Finding {
			if c := e.churns(); c != nil {
				return c.finding(e)
			}
			idle := e.AtLine.PerRequest(measure.DBClosedIdle)
			time := e.AtLine.PerRequest(measure.DBClosedIdleTime)
			life := e.AtLine.PerRequest(measure.DBClosedLifetime)
			if idle+time+life <= .05 {
				return nil
			}
			why := "more are idle than may be kept (SetMaxIdleConns)"
			call := fmt.Sprintf("db.SetMaxIdleConns(%.0f)",
				max(e.AtLine.Last(measure.DBMaxOpen), e.AtLine.Max(measure.DBOpen), 2))
			if time+life > idle {
				why = "they reach their age (SetConnMaxLifetime, SetConnMaxIdleTime)"
				call = "db.SetConnMaxLifetime(30 * time.Minute)"
			}
			return &Finding{
				Claim: fmt.Sprintf("The pool closes %s connections for each request: %s",
					number(idle+time+life), why),
				Rank:       e.churnRank(idle + time + life),
				Confidence: .9,
				Evidence: []Fact{
					{
						What:  "connections closed for each request, at the line",
						Value: number(idle + time + life),
					},
					{What: "open at most", Value: number(e.AtLine.Max(measure.DBOpen))},
					{
						What:  "idle connections kept at most",
						Value: optional(e.AtLine, measure.DBMaxIdle),
					},
				},
				Advice: []Action{{
					Text:    "keep as many idle connections as may be open",
					Command: call,
				}},
				Gain: e.gainOfChurn(e.AtLine.PerSecond(measure.DBClosedIdle) +
					e.AtLine.PerSecond(measure.DBClosedIdleTime) +
					e.AtLine.PerSecond(measure.DBClosedLifetime)),
			}
		},
		Counters: []Counter{{"they are few", func(e *Evidence) (string, bool) {
			closed := e.AtLine.PerSecond(measure.DBClosedIdle) +
				e.AtLine.PerSecond(measure.DBClosedIdleTime) +
				e.AtLine.PerSecond(measure.DBClosedLifetime)
			if c := e.churns(); c != nil {
				closed = c.second
			}
			return perSecond(closed), closed < 2
		}}},
	},
	{
		Name:  "database-pool-small",
		Claim: "Requests wait for a connection to the database",
		Needs: []string{measure.DBMaxOpen, measure.DBInUse, measure.DBWait},
		Threshold: "over a quarter of the time that requests take at the line, or half of it " +
			"beyond the line",
		Reason: "by Little's law the seconds waited in a second are the requests that wait at " +
			"any moment; compared with those inside",
		Judge: func(e *Evidence) *Finding {
			m := e.AtLine
			if m.waitsForPool() <= muchWaited && e.Over.waitsForPool() > .5 && e.found() {
				m = e.Over // the objectives allow little waiting at the line itself
			}
			waiting := m.PerSecond(measure.DBWait)
			pool := m.Last(measure.DBMaxOpen)
			used := m.Mean(measure.DBInUse)
			if pool == 0 || m.waitsForPool() <= muchWaited || used < .6*pool {
				return nil
			}
			query := used / max(m.Goodput(), 1e-9)
			g := e.gain(cure{})
			want := max(2*pool, g.Factor*used*1.3)
			if limit := reservedShare * e.AtLine.Last(measure.DBServerLimit); limit > 0 &&
				want > limit {
				want = limit
				g = Gain{
					Factor: min(g.Factor, max(limit/used, 1)),
					Low:    g.Low,
					High:   g.High,
					Why:    "the database allows no more connections",
				}
				g.Low, g.High = min(g.Low, g.Factor), max(g.Factor, min(g.High, 1.2*g.Factor))
			}
			f := &Finding{
				Claim: fmt.Sprintf("Requests wait for one of %s connections of the pool to the "+
					"database: %s of each takes %s",
					number(pool), span(waiting/max(m.Goodput(), 1e-9)), span(m.Service())),
				Rank:       Binding,
				Confidence: .95,
				Evidence: []Fact{
					{
						What: "share of the requests' time that they wait for a connection, " +
							"at the line and beyond it",
						Value: percent(e.AtLine.waitsForPool()) + ", " +
							percent(e.Over.waitsForPool()),
					},
					{What: "waits", Value: perSecond(m.PerSecond(measure.DBWaits))},
					{What: "connections in use", Value: number(used) + " of " + number(pool)},
					{What: "a request holds a connection for", Value: span(query)},
				},
				Advice: []Action{{
					Text: fmt.Sprintf("allow more connections, and keep as many idle: "+
						"%.0f hold what the processors can do; all instances together below the "+
						"database's limit", want),
					Command: fmt.Sprintf("db.SetMaxOpenConns(%.0f); db.SetMaxIdleConns(%.0f)",
						want, want),
				}},
				Gain: g,
			}
			kept := e.Before.Mean(measure.DBInUse)
			if kept >= .5*pool && kept >= 2*e.Before.Inside() {
				f.Claim += fmt.Sprintf("; %s of them are taken even at a gentle load, when %s "+
					"requests are inside", number(kept), number(e.Before.Inside()))
				f.Advice = append(f.Advice, Action{
					Text: "see what holds connections for longer than a request: rows or a " +
						"transaction that are not closed, a LISTEN, a lock of the session",
					Command: "psql -c 'SELECT state, left(query, 60), count(*) FROM " +
						"pg_stat_activity GROUP BY 1, 2 ORDER BY 3 DESC'",
				})
			}
			return f
		},
		Counters: []Counter{
			processorBusy,
			{
				"the processors are busy with the database: more connections would wait there",
				func(e *Evidence) (string, bool) {
					d, is := e.saturatedBehind()
					if !is {
						return "", false
					}
					return number(d.used) + " processors in use by " + d.process, e.busyBehind()
				},
			},
			{
				"each is held for longer with more load: more of them would wait in the database",
				func(e *Evidence) (string, bool) {
					half, line := e.Half.PerRequestNow(measure.DBInUse),
						e.AtLine.PerRequestNow(measure.DBInUse)
					return span(half) + " at half of the line, " + span(line) + " at it",
						e.heldLonger() || e.rowsLocked() != nil
				},
			},
			{
				"it is full beyond the line only, where all processors are busy and each is held for longer",
				func(e *Evidence) (string, bool) {
					half, beyond := e.Half.PerRequestNow(measure.DBInUse),
						e.Over.PerRequestNow(measure.DBInUse)
					return fmt.Sprintf("%s at half of the line, %s beyond it, where the machine is %s busy",
							span(half), span(beyond), percent(e.busyBeyond())),
						e.fullBeyond() && e.AtLine.waitsForPool() <= muchWaited && half > 0 &&
							beyond >= takesLonger*half
				},
			},
			{"the pool is as large as the database allows", func(e *Evidence) (string, bool) {
				limit := e.AtLine.Last(measure.DBServerLimit)
				if limit == 0 {
					return "", false
				}
				most := e.AtLine.Last(measure.DBMaxOpen)
				return fmt.Sprintf("%s of %s", number(most), number(limit)),
					e.AtLine.Last(measure.DBMaxOpen) >= .6*limit
			}},
		},
		Unless: []string{"database-connections-churn"},
	},
	{
		Name:      "database-idle-above-open",
		Claim:     "More idle connections are asked for than may be open",
		Needs:     []string{measure.DBMaxIdle, measure.DBMaxOpen},
		Threshold: "SetMaxIdleConns above SetMaxOpenConns",
		Reason:    "database/sql lowers it silently: one of the two is not what was meant",
		Judge: func(e *Evidence) *Finding {
			idle, open := e.AtLine.Last(measure.DBMaxIdle), e.AtLine.Last(measure.DBMaxOpen)
			if open == 0 || idle <= open {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("%s idle connections may be kept, and %s may be open",
					number(idle), number(open)),
				Rank:       Risk,
				Confidence: .9,
				Evidence: []Fact{
					{What: "idle connections that may be kept", Value: number(idle)},
					{What: "connections that may be open", Value: number(open)},
				},
				Gain: e.gainIf(false),
			}
		},
		Counters: []Counter{{"no connection was ever idle", func(e *Evidence) (string, bool) {
			if !e.AtLine.Has(measure.DBIdle) {
				return "", false
			}
			idle := max(e.Half.Max(measure.DBIdle), e.AtLine.Max(measure.DBIdle))
			return number(idle) + " idle at most", idle == 0
		}}},
		Advice: []Action{{Text: "make them the same number"}},
	},
	{
		Name:      "database-lifetime-zero",
		Claim:     "Connections to the database live forever",
		Needs:     []string{measure.DBMaxLifetime},
		Threshold: "no lifetime",
		Reason: "a fail-over, a new replica or a load balancer in between is only seen when " +
			"new connections are made",
		Judge: func(e *Evidence) *Finding {
			if e.AtLine.Last(measure.DBMaxLifetime) > 0 {
				return nil
			}
			return &Finding{
				Claim:      "Connections to the database live forever",
				Rank:       Risk,
				Confidence: .8,
				Evidence:   []Fact{{What: "lifetime of a connection", Value: "none"}},
				Gain:       e.gainIf(false),
			}
		},
		Counters: []Counter{{
			"they are closed when they have been idle for a while",
			func(e *Evidence) (string, bool) {
				closed := e.AtLine.PerSecond(measure.DBClosedIdleTime)
				return perSecond(closed), closed > 0
			},
		}},
		Advice: []Action{{
			Text: "give them a lifetime, with some of it by chance by way of the " +
				"pool's own spreading",
			Command: "db.SetConnMaxLifetime(30 * time.Minute)",
		}},
	},
}

// reservedShare is the share of the database's allowed connections that the service may have. The
// rest is kept for people and migrations.
const reservedShare = .8

// optional returns a gauge in words, or "not known".
func optional(m *Moment, name string) string {
	if !m.Has(name) {
		return "not known"
	}
	return number(m.Last(name))
}

// loginCost is about what a new connection costs PostgreSQL in processor seconds: a process starts,
// authenticates, reads the catalog, and ends. 4.7 ms were measured with PostgreSQL 15 on one
// machine with its client.
const loginCost = 4.5e-3

// churnRank returns the rank of connections that are closed, so many for each request. Where their
// logins are little of what a request costs the database, and the database computes on this machine,
// or little of the time that a request holds a connection while processors have room, they are not what
// sets the line.
func (e *Evidence) churnRank(closed float64) Rank {
	if e.room() && closed*loginCost < littleOfIt*e.AtLine.PerRequestNow(measure.DBInUse) {
		return Cost
	}
	for _, d := range e.dependencies() {
		if s := d.store(); s != nil && !d.hop && s.session != "" &&
			closed*s.login < littleOfIt*e.AtLine.PerRequest(d.sample) {
			return Cost
		}
	}
	return Binding
}

// gainOfChurn is the gain from saving what connections cost the target, according to the profile,
// and the database, if it runs on the same machine.
func (e *Evidence) gainOfChurn(closed float64) Gain {
	g := e.gain(cure{saves: e.connectionShare(), elsewhere: min(.9*e.others(), closed*loginCost)})
	g.Why += fmt.Sprintf("; a login is assumed to cost the database %s of a processor",
		span(loginCost))
	return g
}

// muchWaited is the share of the requests' time from which on to wait for the pool is what sets the
// line.
const muchWaited = .25

// waitsForPool returns the share of the requests' time that they wait for a connection to the
// database.
func (m *Moment) waitsForPool() float64 {
	if m.Inside() == 0 {
		return 0
	}
	return min(m.PerSecond(measure.DBWait)/m.Inside(), 1)
}
