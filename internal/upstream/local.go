package upstream

import (
	"math"
	"time"

	"plimsoll/internal/invariant"
)

// Unavailable says why there is no target, or no connection, for a request.
type Unavailable uint8

// The reasons.
const (
	None          Unavailable = iota // there is one
	NoTargets                        // no name has been resolved to an address yet
	AllDown                          // every target is down, or ejected with no panic threshold
	AllOut                           // all targets were taken out by an operator, or have weight 0
	QueueFull                        // too many requests wait for a connection already
	WaitedTooLong                    // no connection became free within the pending timeout
	Closed                           // the upstream is no longer in the config
	Overloaded                       // it would wait too long, or newer requests go first
)

// String is the reason for answers and logs.
func (r Unavailable) String() string {
	switch r {
	case None:
		return "available"
	case NoTargets:
		return "no target address is known"
	case AllDown:
		return "all targets are down"
	case AllOut:
		return "all targets are taken out"
	case QueueFull:
		return "too many requests wait for a connection"
	case WaitedTooLong:
		return "no connection became free in time"
	case Closed:
		return "the upstream is closed"
	case Overloaded:
		return "more requests come than can be served"
	}
	return "unknown"
}

// Local is one loop's view of an upstream. Only the loop may use it.
type Local struct {
	u    *Upstream
	loop int

	seen      uint64 // the version that the fields below were made from
	refreshAt int64  // when slow start asks for new shares
	set       *set
	members   []*Member // in the set's order
	usable    []*Member // the members that may be picked
	why       Unavailable
	panicking bool
	balancer  balancer
	rng       rng
	budget    budget
	tried     int64 // when CannotAnswer last let a request try although none could answer
	ledger    ledger
	placed    int // places of the upstream's bound that this loop's requests hold

	// The waiting room. See waiter.go.
	waiters waitRoom
	serving bool
	again   bool
	cursor  int
	own     *queue // what the other loops see of the waiting room
	// a wake-up was posted before the last sweep and has not run since; only with
	// invariant.Sequential
	unwoken  bool
	closed   bool
	wakeFn   func() // made once: a method value allocates
	yieldFn  func()
	waits    uint64
	refused  uint64
	hopeless uint64 // times that a request came, and too many of its class waited already
}

func newLocal(u *Upstream, loop int) *Local {
	l := &Local{u: u, loop: loop, rng: newRNG(u.env.Seed + uint64(loop)*0x9e3779b97f4a7c15),
		own: &u.queues.each[loop]}
	l.waiters.rank = never
	l.wakeFn, l.yieldFn = l.wake, l.yield
	l.balancer = newBalancer(u.options.Policy, l)
	l.budget = newBudget(u.options.RetryBudget, u.env.Loops, u.env.Now())
	return l
}

// Upstream returns the upstream that this is a view of.
func (l *Local) Upstream() *Upstream { return l.u }

// Panicking reports whether too few targets are usable, so that those that are down or ejected are
// used as well. It is false if the checks have found every target down.
func (l *Local) Panicking() bool { return l.panicking }

// Pick chooses a target for a request. key is the result of HashKey for consistent hashing, 0 for
// none; other policies ignore it. tried are the members that this request has tried already: Pick
// chooses another if there is one. It returns nil and the reason if no target may be used. It does
// not allocate unless targets changed.
//
// The steady state costs one load of a shared word: everything that decides is in the loop's own
// memory, rebuilt only when the version moved or slow start's next step is due.
func (l *Local) Pick(now int64, key uint64, tried []*Member) (*Member, Unavailable) {
	if l.u.version.Load() != l.seen || now >= l.refreshAt {
		l.refresh(now)
	}
	if len(l.usable) == 0 {
		return nil, l.why
	}
	if m := l.balancer.pick(now, key, tried); m != nil {
		return m, None
	}
	return l.balancer.pick(now, key, nil), None
}

// refresh rebuilds the view. It reads the version before the state that the version stands for, so
// that the next Pick sees a change that happens meanwhile and refreshes again.
func (l *Local) refresh(now int64) {
	if l.closed {
		return
	}
	l.seen = l.u.version.Load()
	if s := l.u.set.Load(); s != l.set {
		l.adopt(s, now)
	}
	eligible, well, down := 0, 0, 0
	for _, m := range l.members {
		state := m.target.state.Load()
		if m.usable = m.target.eligible(state); m.usable {
			eligible++
			if state == 0 {
				well++
			} else if state&stateChecked != 0 {
				down++
			}
		}
	}
	// If the checks have found every target down, sending a request there would only make it fail
	// later, so there is no panic, and the request is answered at once. Ejections are guesses from
	// traffic, and a few failed checks may be the fault of the checks: there panic is right.
	l.panicking = down < eligible && float64(well) < l.u.options.Panic*float64(eligible)
	l.usable, l.refreshAt = l.usable[:0], never
	total := 0.0
	for _, m := range l.members {
		m.usable = m.usable && (l.panicking || m.target.state.Load() == 0)
		if m.usable {
			l.ramp(m, now)
			total += m.share
			l.usable = append(l.usable, m)
		}
	}
	for _, m := range l.usable {
		m.inv = total / float64(len(l.usable)) / m.share
	}
	switch {
	case len(l.usable) > 0:
		l.why = None
	case len(l.members) == 0:
		l.why = NoTargets
	case eligible == 0:
		l.why = AllOut
	default:
		l.why = AllDown
	}
	l.balancer.rebuild()
	if l.waiters.n > 0 {
		l.own.post(l)
	}
}

// ramp sets a member's share, and, while it starts slowly, when the share is to be set again.
func (l *Local) ramp(m *Member, now int64) {
	m.ramp = 1
	window := int64(l.u.options.SlowStart)
	if age := now - m.target.readyAt.Load(); window > 0 && age < window {
		m.ramp = 0.1 + 0.9*float64(max(age, 0))/float64(window)
		l.refreshAt = min(l.refreshAt, now+max(window/32, int64(50*time.Millisecond)))
	}
	m.share = float64(m.target.weight) * m.ramp
}

// adopt takes over a new set of targets. It keeps the members of targets that are still in the set.
// The others close their idle connections and let those in use finish.
func (l *Local) adopt(s *set, now int64) {
	kept := make(map[*Target]*Member, len(l.members))
	for _, m := range l.members {
		kept[m.target] = m
	}
	before := l.members
	l.members = make([]*Member, 0, len(s.targets))
	for _, t := range s.targets {
		m := kept[t]
		if m == nil {
			slot := slotUse{slots: t.slots, since: now, flushed: now}
			m = &Member{Pool: Pool{target: t, local: l, bound: l.u.idleBound(), slot: slot}, sampled: now}
			m.Pool.member = m
		}
		delete(kept, t)
		m.noted = len(l.members) < measured
		l.members = append(l.members, m)
	}
	for _, m := range before {
		if kept[m.target] != nil {
			m.retire()
		}
	}
	l.set = s
	l.usable = make([]*Member, 0, len(l.members))
}

// Sweep does what is due about once a second: it takes over changes, ends waits that were too long,
// closes connections that were idle too long, moves surplus ones to the spare lists, and adds the
// loop's requests and failures to the counts of the targets. Loop only.
func (l *Local) Sweep(now int64) {
	if l.closed {
		return
	}
	if l.u.version.Load() != l.seen || now >= l.refreshAt {
		l.refresh(now)
	}
	l.expire(now)
	l.checkWakeUps()
	for _, m := range l.members {
		m.sweep(now)
		m.fold()
	}
	if l.waiters.n > 0 {
		l.serve(now)
	} else if l.u.queues.waiting.Load() > 0 {
		l.handOver()
	}
}

// fold adds the requests and failures since the last call to the counts of the target.
func (m *Member) fold() {
	if m.requests == m.foldedRequests {
		return
	}
	m.target.requests.Add(m.requests - m.foldedRequests)
	m.target.failures.Add(m.failures - m.foldedFailures)
	m.foldedRequests, m.foldedFailures = m.requests, m.failures
}

// Close gives up the loop's part of the upstream. It closes idle connections and refuses the
// requests that wait; connections in use are closed when they are put back. Pick returns nil
// afterwards. See Upstream.Close for when to call it. Loop only.
func (l *Local) Close(now int64) {
	if l.closed {
		return
	}
	for _, m := range l.members {
		m.fold()
		m.retire()
	}
	l.closed, l.usable, l.why = true, nil, Closed
	l.refreshAt, l.panicking = math.MaxInt64, false
	l.refuseAll(now, Closed)
	if l.u.queues.waiting.Load() != 0 { // others can open connections instead of the idle ones
		l.u.queues.wakeFirst(l.u, l.loop)
	}
	l.u.checkNews()
}

// Request counts a request towards the retry budget. Call it once for each request, and not for its
// retries. Loop only.
func (l *Local) Request(now int64) {
	l.budget.request(now)
	if invariant.On {
		l.ledger.request(now)
	}
}

// Retry reports whether a failed request may be tried again, and counts the retry if so. Loop only.
func (l *Local) Retry(now int64) bool { return l.budget.retry(now) }
