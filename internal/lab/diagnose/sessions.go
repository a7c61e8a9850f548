package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// sessions are the connections to one database, by what its processes report that they do for them.
type sessions struct {
	who string // "postgres at 127.0.0.1:5432"
	// Mean numbers: of all sessions, of those that wait for a lock, of those with an open
	// transaction but no query, and of those without a transaction.
	all, waiting, open, idle float64
	half                     float64 // that waited for a lock at half of the line
}

// sessions counts the sessions, at the line or beyond it, wherever more of them wait or are held
// open. It returns nil if none are known.
func (e *Evidence) sessions() (most *sessions) {
	for _, m := range []*Moment{e.AtLine, e.Over} {
		by := map[string]*sessions{}
		for name := range m.last() {
			rest, is := strings.CutPrefix(name, measure.Doing)
			at := strings.LastIndexByte(rest, '/')
			address, process, named := behind(measure.Behind + rest[:max(at, 0)])
			if !is || !named {
				continue
			}
			does := rest[at+1:]
			s := by[address]
			if s == nil {
				s = &sessions{who: process + " at " + address}
				by[address] = s
			}
			n := m.Mean(name)
			s.all += n
			switch {
			case strings.HasSuffix(does, " waiting"):
				s.waiting += n
				s.half += e.Half.Mean(name)
			case strings.HasPrefix(does, "idle in transaction"):
				s.open += n
			case does == "idle":
				s.idle += n
			}
		}
		for _, s := range by {
			more := most == nil || s.waiting+s.open > most.waiting+most.open
			if more || s.waiting+s.open == most.waiting+most.open && s.who < most.who {
				most = s
			}
		}
	}
	return most
}

const (
	// mostlyLocked is the minimum share of the sessions in use that wait for a lock if requests
	// wait for that lock. At least one session in use holds it.
	mostlyLocked = .4
	// mostlyOpen is the minimum share of sessions with an open transaction but no query, among all
	// sessions, if that is what holds them.
	mostlyOpen = .5
)

// rowsLocked returns the sessions of a database if many of those in use wait for a lock that
// another one holds, and more do so with more load; nil otherwise.
func (e *Evidence) rowsLocked() *sessions {
	s := e.sessions()
	if s == nil || !e.found() || !e.queues() || s.waiting < fewestStanding ||
		s.waiting < mostlyLocked*(s.all-s.idle) || s.waiting < takesLonger*s.half {
		return nil
	}
	return s
}

// lockedRows is the finding that requests wait for a lock inside a database.
func (e *Evidence) lockedRows(s *sessions) *Finding {
	f := &Finding{
		Claim: fmt.Sprintf("Requests wait for a lock within a database: %s of the %s sessions "+
			"of %s that are in use wait for what a transaction of another one has locked",
			number(s.waiting), number(s.all-s.idle), s.who),
		Rank:       Binding,
		Confidence: .85,
		Evidence: append([]Fact{{
			What:  "sessions that wait for a lock, at half of the line and at the most",
			Value: number(s.half) + ", " + number(s.waiting),
		}, {
			What: "time of a request, at half of the line, at it and beyond",
			Value: span(e.Half.Service()) + ", " + span(e.AtLine.Service()) + ", " +
				span(e.Over.Service()),
		}}, s.facts()...),
		Advice: []Action{{
			Text: "find the row, table or advisory lock that all requests need (a counter, a " +
				"balance, a SELECT … FOR UPDATE, LOCK TABLE): lock it last and for less, share " +
				"it out over several rows, or add up elsewhere",
		}},
		Gain: e.gain(cure{}),
	}
	if s.open >= fewestStanding {
		f.Claim += ", and does nothing meanwhile (idle in transaction)"
	}
	f.Advice = append(f.Advice, e.dependencyAdvice()...)
	return f
}

// facts returns what the sessions do.
func (s *sessions) facts() []Fact {
	return []Fact{{
		What: "sessions of " + s.who + "; those in a transaction that ask nothing (idle in " +
			"transaction), and those without one (idle)",
		Value: number(s.all) + "; " + number(s.open) + ", " + number(s.idle),
	}}
}

// heldOpen adds to a finding about places that most sessions of a database are held by transactions
// that do not query it meanwhile.
func (e *Evidence) heldOpen(f *Finding) {
	s := e.sessions()
	if s == nil || s.open < 1 || s.open < mostlyOpen*s.all {
		return
	}
	f.Claim += fmt.Sprintf("; %s of %s sessions of %s are held by a transaction while the "+
		"service does "+
		"something else (idle in transaction)", number(s.open), number(s.all), s.who)
	f.Evidence = append(f.Evidence, s.facts()...)
	f.Advice = append([]Action{{
		Text: "ask others, sleep and compute before a transaction begins or after it has ended, " +
			"so that its connection is free for others meanwhile",
	}}, f.Advice...)
}

// heldLonger reports whether each request holds its connection to the database longer with more
// load. Additional connections would then wait in the database too. The metrics of a pool show this,
// or goroutines that wait for a connection, while those that have one keep it for far longer than a
// lone request takes. The same holds for another bound, such as a semaphore, if those inside wait
// for an answer from outside.
func (e *Evidence) heldLonger() bool {
	if p := e.places(); p.queue != nil && p.n >= slower*p.reached*p.alone &&
		(strings.HasPrefix(p.queue.place.what, aConnection) ||
			!p.queue.place.vague && e.room() && e.insideWaits(p.queue)) {
		return true
	}
	hold := func(m *Moment) float64 { return m.PerRequestNow(measure.DBInUse) }
	return e.Half.Mean(measure.DBInUse) >= leastInUse && (hold(e.AtLine) >= slower*hold(e.Half) ||
		hold(e.Over) >= farSlower*hold(e.Half) && e.idleProcessors() >= leastIdle &&
			e.Over.Goodput() >= .8*e.AtLine.Goodput()) // requests that end badly hold one, too
}

// insideWaits reports whether at least half of the goroutines that have passed a queue, and at least
// two, wait for an answer from outside.
func (e *Evidence) insideWaits(q *queue) bool {
	if q.behind {
		return q.inside >= 2
	}
	p := cmp.Or(e.Over.Profile(kindGoroutine), e.AtLine.Profile(kindGoroutine))
	return p.Classify(profile.Goroutine, handlerState)[stateOutside] >= max(q.inside/2, 2)
}

const (
	// slower is how many times as long the dependency takes beyond the line if the dependency is
	// the limit, and not a bound on how many requests ask it.
	slower = 2
	// farSlower is the same beyond the line, where a service has its processors busy too.
	farSlower = 3
	// leastInUse is the minimum mean number of connections in use for the time that each is held to
	// be known.
	leastInUse = .1
)
