//go:build !race

package breaker_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "plimsoll/internal/breaker"
)

// model is the breaker again, written for being obviously right: it keeps a list of the calls that
// ended and asks it every time. It has no adaptive mode, and its clock is never set back.
type model struct {
	o        Options
	state    State
	since    int64
	epoch    int64 // when the windows began to count
	ended    []ended
	slots    map[int]trialAt // by number, while they are taken
	won      int
	gen      int
	step     int
	stepAt   int64
	proven   bool
	lead     int64
	lastSeen int64 // the latest slice that was begun
}

type ended struct {
	slice        int64
	failed, slow bool
}

type trialAt struct {
	at int64
	id int
}

func (m *model) enter(s State, now int64) {
	if m.state != Ramping || s != Closed {
		m.gen++
		m.ended, m.slots, m.won = nil, map[int]trialAt{}, 0
		m.epoch, m.lastSeen = now, 0
		m.step, m.stepAt, m.proven, m.lead = 0, now, false, now-int64(m.o.Ramp)/10
	}
	m.state, m.since = s, now
}

// wake does what is due when a caller asks.
func (m *model) wake(now int64) {
	if m.state == Open && now-m.since >= int64(m.o.OpenFor) {
		m.enter(HalfOpen, now)
	}
	if m.state == Ramping && now-m.stepAt >= int64(m.o.Ramp)/10 && m.proven {
		if m.step == 9 {
			m.enter(Closed, now)
			return
		}
		m.step, m.stepAt, m.proven = m.step+1, now, false
	}
}

func (m *model) share() float64 {
	return m.o.RampFrom + (1-m.o.RampFrom)*float64(m.step)/10
}

// allow is the kind of ticket that Allow should give.
func (m *model) allow(now int64, random uint64, id int) Kind {
	m.wake(now)
	switch m.state {
	case Closed, ForcedClosed:
		return Normal
	case HalfOpen:
		for i := range m.o.Trials {
			if t, taken := m.slots[i]; !taken || now-t.at >= int64(m.o.TrialFor) {
				m.slots[i] = trialAt{now, id}
				return Trial
			}
		}
	case Ramping:
		if float64(random>>11)/(1<<53) < m.share() {
			return Normal
		}
		if now-m.lead >= int64(m.o.Ramp)/10 {
			m.lead = now
			return Normal
		}
	}
	return Refused
}

// done hears that call id of generation gen ended.
func (m *model) done(now int64, kind Kind, gen, id int, o Outcome, latency int64) {
	if gen != m.gen || kind == Refused {
		return
	}
	slow := m.o.SlowOver > 0 && latency > int64(m.o.SlowOver)
	if kind == Trial {
		held := -1
		for i, t := range m.slots {
			if t.id == id {
				held = i
			}
		}
		if m.state != HalfOpen || held < 0 {
			return
		}
		delete(m.slots, held)
		switch {
		case o == Cancelled:
		case o == Failure || slow:
			m.enter(Open, now)
		default:
			if m.won++; m.won == m.o.Successes && m.o.Ramp > 0 {
				m.enter(Ramping, now)
			} else if m.won == m.o.Successes {
				m.enter(Closed, now)
			}
		}
		return
	}
	if m.state != Closed && m.state != Ramping || o == Cancelled {
		return
	}
	// The step before this call cannot be proven by it.
	m.lastSeen = max(m.lastSeen, (now-m.epoch)/(int64(m.o.Window)/10))
	m.ended = append(m.ended, ended{m.lastSeen, o == Failure, slow})
	if o == Success {
		m.proven = true
	}
	if m.broken() {
		m.enter(Open, now)
		return
	}
	m.wake(now)
}

func (m *model) broken() bool {
	row, requests, failures, slow := 0, 0, 0, 0
	for _, e := range m.ended {
		row++
		if !e.failed {
			row = 0
		}
		if e.slice > m.lastSeen-10 {
			requests++
			failures += btoi(e.failed)
			slow += btoi(e.slow)
		}
	}
	least := m.o.MinRequests
	if m.state == Ramping {
		least = min(least, max(m.o.Successes, int(m.share()*float64(least))))
	}
	return row >= m.o.ConsecutiveFailures ||
		requests >= least && (failures*10 > 4*requests || slow*10 > 6*requests)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// held is a ticket that is under way.
type held struct {
	Ticket
	gen, id int
}

// It goes on until every state was reached, which a hundred random histories do not always do: one set
// in some hundred never ramps.
func TestTheBreakerDoesWhatTheModelDoes(t *testing.T) {
	reached := map[State]int{}
	for range 20 {
		rapid.Check(t, func(t *rapid.T) { doesWhatTheModelDoes(t, reached) })
		if len(reached) == int(ForcedClosed)+1 {
			return
		}
	}
	t.Errorf("of the states only %v were reached", reached)
}

func doesWhatTheModelDoes(t *rapid.T, reached map[State]int) {
	o := Options{
		ConsecutiveFailures: rapid.IntRange(2, 8).Draw(t, "row"),
		FailureRatio:        0.4, SlowRatio: 0.6, SlowOver: time.Second,
		Window:      time.Second,
		MinRequests: rapid.IntRange(1, 12).Draw(t, "min"),
		OpenFor:     time.Duration(rapid.IntRange(1, 30).Draw(t, "open")) * 100 * time.Millisecond,
		Trials:      rapid.IntRange(1, 4).Draw(t, "trials"),
		Successes:   rapid.IntRange(1, 5).Draw(t, "successes"),
		TrialFor:    700 * time.Millisecond,
	}
	if rapid.Bool().Draw(t, "ramp") {
		o.Ramp, o.RampFrom = 2*time.Second, 0.1
	}
	var reports []Transition
	real := o
	real.OnTransition = func(tr Transition) { reports = append(reports, tr) }
	now := rapid.Int64Range(-1e12, 1e12).Draw(t, "now")
	b, err := New(real, now)
	if err != nil {
		t.Fatal(err)
	}
	m := &model{o: o}
	m.enter(Closed, now)
	if rapid.Bool().Draw(t, "begin with trials") {
		for _, c := range []Command{ForceOpen, Automatic} {
			m.force(c, now)
			b.Force(c, now)
		}
	}
	var calls []held
	id := 0
	check := func() {
		s := b.State(now)
		reached[s.State]++
		if s.State != m.state || s.Since != m.since {
			t.Fatalf("at %d: the state is %v since %d, the model's %v since %d",
				now, s.State, s.Since, m.state, m.since)
		}
		if s.TrialsUnderWay > o.Trials || m.state == HalfOpen && s.TrialsUnderWay != len(m.slots) {
			t.Fatalf("at %d: %d trials are under way, the model's %d of %d",
				now, s.TrialsUnderWay, len(m.slots), o.Trials)
		}
		checkReports(t, o, reports)
	}
	bad := rapid.IntRange(0, 9).Draw(t, "bad")
	t.Repeat(map[string]func(*rapid.T){
		"pass": func(t *rapid.T) {
			times := []int64{1, 7 * ms, 100 * ms, 100*ms - 1, 333 * ms, second, 5 * second}
			now += rapid.SampledFrom(times).Draw(t, "time")
		},
		"allow": func(t *rapid.T) {
			for range rapid.IntRange(1, 10).Draw(t, "calls") {
				random := rapid.Uint64().Draw(t, "random")
				id++
				want, ticket := m.allow(now, random, id), b.Allow(now, random)
				if ticket.Kind != want {
					t.Fatalf("at %d: Allow gives kind %d, the model %d", now, ticket.Kind, want)
				}
				calls = append(calls, held{ticket, m.gen, id})
			}
		},
		"done": func(t *rapid.T) {
			for range min(len(calls), rapid.IntRange(1, 10).Draw(t, "calls")) {
				i := rapid.IntRange(0, len(calls)-1).Draw(t, "which")
				c := calls[i]
				calls = slices.Delete(calls, i, i+1)
				out := Success
				if rapid.IntRange(0, 9).Draw(t, "luck") < bad {
					out = rapid.SampledFrom([]Outcome{Failure, Failure, Cancelled}).Draw(t, "outcome")
				}
				latency := rapid.SampledFrom([]int64{0, ms, second, second + 1}).Draw(t, "latency")
				m.done(now, c.Kind, c.gen, c.id, out, latency)
				b.Done(now, c.Ticket, out, latency, 0)
				check()
			}
		},
		"lose": func(t *rapid.T) {
			if len(calls) > 0 {
				calls = calls[1:]
			}
		},
		"force": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
				return
			}
			c := rapid.SampledFrom([]Command{Automatic, ForceOpen, ForceClosed}).Draw(t, "command")
			m.force(c, now)
			b.Force(c, now)
		},
		"": func(*rapid.T) { check() },
	})
}

func (m *model) force(c Command, now int64) {
	switch {
	case c == ForceOpen && m.state != ForcedOpen:
		m.enter(ForcedOpen, now)
	case c == ForceClosed && m.state != ForcedClosed:
		m.enter(ForcedClosed, now)
	case c == Automatic && m.state == ForcedOpen:
		m.enter(HalfOpen, now)
	case c == Automatic && m.state == ForcedClosed:
		m.enter(Closed, now)
	default:
		m.wake(now)
	}
}

// checkReports requires every transition to follow from the one before, and to be one that the
// rules know.
func checkReports(t *rapid.T, o Options, reports []Transition) {
	from := Closed
	for _, tr := range reports {
		legal := tr.Why == Operator
		switch tr.Why {
		case ConsecutiveFailures:
			legal = tr.To == Open && tr.Consecutive >= int64(o.ConsecutiveFailures)
		case FailureRatio:
			legal = tr.To == Open && tr.Failures*10 > tr.Requests*4
		case SlowRatio:
			legal = tr.To == Open && tr.Slow*10 > tr.Requests*6
		case OpenTimeOver:
			legal = tr.From == Open && tr.To == HalfOpen && tr.After >= int64(o.OpenFor)
		case TrialFailed:
			legal = tr.From == HalfOpen && tr.To == Open
		case TrialsSucceeded:
			legal = tr.From == HalfOpen && tr.TrialsSucceeded >= uint64(o.Successes) &&
				(tr.To == Ramping) == (o.Ramp > 0)
		case RampOver:
			legal = tr.From == Ramping && tr.To == Closed && tr.After >= int64(o.Ramp)
		}
		if !legal || tr.From != from {
			t.Fatalf("after %v was reported: %v to %v because of %v: %+v",
				from, tr.From, tr.To, tr.Why, tr.Status)
		}
		from = tr.To
	}
}
