package upstream

import (
	"fmt"
	"strings"
	"time"
)

// Status is what the admin API says of an upstream. It is a copy.
type Status struct {
	Name    string         `json:"name"`
	Policy  Policy         `json:"policy"`
	Targets []TargetStatus `json:"targets"`
	Names   []NameStatus   `json:"names,omitempty"`
	// Ejections ever, those of targets that are gone included.
	Ejections uint64 `json:"ejections"`
}

// TargetStatus is what all loops share of a target.
type TargetStatus struct {
	Address string `json:"address"`
	Host    string `json:"host"`
	Weight  int    `json:"weight"`
	// State is "up", "down", "deep check down", "ejected", "drained" or "weight 0": the most lasting reason.
	State string `json:"state"`
	// Usable says that nothing keeps it from being picked.
	Usable bool `json:"usable"`
	// Why says what keeps it from being used, or what brought it back; ChangedAgo is how long the last change is ago.
	Why        string        `json:"why,omitempty"`
	ChangedAgo time.Duration `json:"changed_ago_ns"`
	Light      *CheckStatus  `json:"light_check,omitempty"`
	Deep       *CheckStatus  `json:"deep_check,omitempty"`
	// ConsecutiveFailures of real traffic, Ejections ever, and the time left of the present one.
	ConsecutiveFailures int           `json:"consecutive_failures"`
	Ejections           uint64        `json:"ejections"`
	EjectedFor          time.Duration `json:"ejected_for_ns,omitempty"`
	// Connections open over all loops, being dialled included; Spare are those that lie between the loops.
	Connections int `json:"connections"`
	Spare       int `json:"spare"`
}

// CheckStatus is the state of one kind of health check. It is absent before the first result.
type CheckStatus struct {
	Down      bool          `json:"down"`
	Last      string        `json:"last"`
	Ago       time.Duration `json:"ago_ns"`
	Failures  int           `json:"failures_in_a_row"`
	Successes int           `json:"successes_in_a_row"`
}

// NameStatus is what DNS said of a configured name.
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
	s := Status{Name: u.name, Policy: u.options.Policy, Ejections: u.ejections}
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
	return &CheckStatus{Down: s.down, Last: s.last, Ago: time.Duration(now - s.at), Failures: s.failures, Successes: s.successes}
}

// Explain says in one line why the upstream has no usable target, for logs: "users: 3 targets: 2 down, 1 ejected". It takes a
// lock and allocates, so it is not for each request.
func (u *Upstream) Explain() string {
	s := u.Status()
	var order []string
	count := make(map[string]int)
	for _, t := range s.Targets {
		if count[t.State]++; count[t.State] == 1 {
			order = append(order, t.State)
		}
	}
	var parts []string
	for _, state := range order {
		parts = append(parts, fmt.Sprintf("%d %s", count[state], state))
	}
	for _, n := range s.Names {
		if n.Error != "" {
			parts = append(parts, fmt.Sprintf("%s not resolved (%s)", n.Host, n.Error))
		}
	}
	return fmt.Sprintf("%s: %d targets: %s", s.Name, len(s.Targets), strings.Join(parts, ", "))
}

// MemberReport is what one loop knows of a target.
type MemberReport struct {
	Address     string        `json:"address"`
	Usable      bool          `json:"usable"`
	Share       float64       `json:"share"` // the weight with slow start's part
	Outstanding int           `json:"outstanding"`
	Latency     time.Duration `json:"latency_ns"` // the estimate now; 0 before any sample
	Idle        int           `json:"idle"`
	Reused      uint64        `json:"reused"` // connections that were used again
	Requests    uint64        `json:"requests"`
	Failures    uint64        `json:"failures"`
}

// Members copies what the loop knows of its targets, at most so many from the index from on: an upstream may have thousands, and
// whoever asks must not keep the loop from its work. It is empty when there are no more. Loop only.
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
	Outstanding int // requests under way
	Idle        int // connections; those between the loops are not among them
}

// AddLoad adds what the loop knows to sum, its targets from the index from on and at most so many. It returns the index to go on at,
// 0 when there are no more. It does not allocate. Loop only.
func (l *Local) AddLoad(sum *Load, from, most int) (next int) {
	if from == 0 {
		sum.Waiting += l.waiters.n
		sum.Waits += l.waits
		sum.Refused += l.refused
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
