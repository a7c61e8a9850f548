package upstream

import (
	"time"

	"plimsoll/internal/breaker"
	"plimsoll/internal/concurrency"
)

// Status is a copy of the state of an upstream that all loops share.
type Status struct {
	Name    string
	Policy  Policy
	Targets []TargetStatus
	Names   []NameStatus
	// Ejections counts all ejections ever, including those of targets that are gone.
	Ejections uint64
	// Transitions counts all transitions of breakers ever.
	Transitions uint64
	// Bound is how many requests may be at all targets together, and InFlight how many are. Both
	// are 0 if there is no bound. After a reload, requests that began before it count as well.
	Bound, InFlight int
}

// TargetStatus is a copy of the state of a target that all loops share.
type TargetStatus struct {
	Address string
	Host    string
	Weight  int
	// State is "up", "down", "deep check down", "ejected", "drained" or "weight 0": the most
	// lasting reason.
	State string
	// Usable says that nothing keeps it from being picked.
	Usable bool
	// Why says what keeps the target from being used, or what brought it back. ChangedAgo is how
	// long ago its state last changed.
	Why        string
	ChangedAgo time.Duration
	Light      *CheckStatus
	Deep       *CheckStatus
	// ConsecutiveFailures counts those of real traffic. Ejections counts all ejections ever.
	// EjectedFor is the time left of the present ejection, 0 for none.
	ConsecutiveFailures int
	Ejections           uint64
	EjectedFor          time.Duration
	// Connections is how many are open or being dialled, over all loops. Spare is how many of them
	// are in the spare list.
	Connections int
	Spare       int
	// Concurrency is the limit on requests at the target; nil where there is none.
	Concurrency *ConcurrencyStatus
	// Breaker is nil where there is none. The breaker of a whole upstream is given for each target.
	Breaker *breaker.Status
}

// ConcurrencyStatus is a limit on how many requests are at a target at once.
type ConcurrencyStatus struct {
	Limit int
	Used  int
	Law   concurrency.State // why the limit is what it is
}

// CheckStatus is the state of one kind of health check. It is absent before the first result.
type CheckStatus struct {
	Down      bool
	Last      string
	Ago       time.Duration
	Failures  int
	Successes int
}

// NameStatus is what DNS last said about a configured name. The admin API shows it unchanged.
type NameStatus struct {
	Host      string   `json:"host"`
	Addresses []string `json:"addresses"`
	Error     string   `json:"error,omitempty"`
}

// Status copies the shared state. Any goroutine may call it.
func (u *Upstream) Status() Status {
	now := u.env.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	s := Status{Name: u.name, Policy: u.options.Policy, Ejections: u.ejections, Transitions: u.trips.Load()}
	if u.bound != nil {
		s.Bound, s.InFlight = int(u.bound.limit.Load()), int(u.bound.taken.Load())
	}
	for _, t := range u.set.Load().targets {
		state := t.state.Load()
		ts := TargetStatus{
			Address: t.addr.String(), Host: t.addr.Host, Weight: t.weight,
			State: stateName(state, t.weight), Usable: state == 0 && t.weight > 0,
			Why: t.explain(), ChangedAgo: time.Duration(now - t.changed),
			Light: t.light.status(now), Deep: t.deep.status(now),
			ConsecutiveFailures: int(t.fails.Load()), Ejections: t.ejections,
			Connections: int(t.open.Load()), Spare: int(t.spare.n.Load()),
		}
		if t.breaker != nil {
			state := t.breaker.State(now)
			ts.Breaker = &state
		}
		if t.slots != nil {
			ts.Concurrency = &ConcurrencyStatus{
				Limit: int(t.slots.limit.Load()), Used: int(t.slots.taken.Load()), Law: t.slots.state(),
			}
		}
		if state&stateEjected != 0 {
			ts.EjectedFor = time.Duration(max(t.ejectedTill-now, 0))
		}
		s.Targets = append(s.Targets, ts)
	}
	for i := range u.entries {
		e := &u.entries[i]
		if !e.named {
			continue
		}
		ns := NameStatus{Host: e.addr.Host}
		for _, a := range e.known {
			ns.Addresses = append(ns.Addresses, a.String())
		}
		if e.err != nil {
			ns.Error = e.err.Error()
		}
		s.Names = append(s.Names, ns)
	}
	return s
}

func (s *streak) status(now int64) *CheckStatus {
	if !s.asked {
		return nil
	}
	return &CheckStatus{Down: s.down, Last: s.last, Ago: time.Duration(now - s.at),
		Failures: s.failures, Successes: s.successes}
}

// MemberReport is what one loop knows about a target.
type MemberReport struct {
	Address     string
	Usable      bool
	Share       float64 // the weight with slow start's part
	Outstanding int
	Latency     time.Duration // the estimate now; 0 before any sample
	Idle        int
	Reused      uint64 // connections that were used again
	Requests    uint64
	Failures    uint64
}

// Members copies what the loop knows about its targets, beginning at the index from, and of at most
// most of them: an upstream may have thousands, and a caller must not keep the loop from its work.
// The list is empty if there are no more. Loop only.
func (l *Local) Members(now int64, from, most int) (list []MemberReport) {
	for i := from; i < min(from+most, len(l.members)); i++ {
		m := l.members[i]
		list = append(list, MemberReport{
			Address: m.target.addr.String(), Usable: m.usable, Share: m.share, Outstanding: m.outstanding,
			Latency: time.Duration(m.latency(now)), Idle: len(m.idle), Reused: m.reused,
			Requests: m.requests, Failures: m.failures,
		})
	}
	return list
}

// Load is what one loop has to do with an upstream at the moment, or the sum over loops.
type Load struct {
	Panicking   int // loops that use targets which are down, because too few are usable
	Waiting     int // requests that wait for a connection
	Waits       uint64
	Refused     uint64
	Hopeless    uint64 // of these, because more of a class waited than could be served in its patience
	Outstanding int    // requests under way
	Idle        int    // connections, without those in the spare lists
}

// AddLoad adds this loop's load to sum. It adds that of at most most targets, beginning at the
// index from, and returns the index to continue at, 0 if there are no more. It does not allocate.
// Loop only.
func (l *Local) AddLoad(sum *Load, from, most int) (next int) {
	if from == 0 {
		sum.Waiting += l.waiters.n
		sum.Waits += l.waits
		sum.Refused += l.refused
		sum.Hopeless += l.hopeless
		if l.panicking {
			sum.Panicking++
		}
	}
	for next = from; next < min(from+most, len(l.members)); next++ {
		sum.Outstanding += l.members[next].outstanding
		sum.Idle += len(l.members[next].idle)
	}
	if next >= len(l.members) {
		return 0
	}
	return next
}
