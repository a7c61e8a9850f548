package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"plimsoll/internal/hist"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// UpstreamStatus describes an upstream and the outcome of all exchanges that have used it since the
// start.
type UpstreamStatus struct {
	Name   string          `json:"name"`
	Policy upstream.Policy `json:"policy"`
	States map[string]int  `json:"targets_by_state"`
	// Panicking: too few targets are usable, so those that are down are used too.
	Panicking   bool `json:"panicking"`
	Outstanding int  `json:"outstanding"`
	Waiting     int  `json:"waiting_for_a_connection"`
	// Waits counts requests that had to wait for a connection, since the start.
	Waits uint64 `json:"waits"`
	// Refused counts requests that got no connection within the bounds, since the start.
	Refused        uint64            `json:"refused"`
	Requests       uint64            `json:"requests"`
	Codes          map[string]uint64 `json:"codes"`
	Duration       Spread            `json:"duration_ms"`
	Connections    int               `json:"connections_open"`
	Idle           int               `json:"connections_idle"`
	Opened         uint64            `json:"connections_opened"`
	Reused         uint64            `json:"connection_reuses"`
	ConnectFailed  uint64            `json:"connect_failures"`
	Retries        uint64            `json:"retries"`
	RetriesRefused uint64            `json:"retries_refused"`
	Ejections      uint64            `json:"ejections"`
	// Cells is the complete histogram behind Duration.
	Cells []hist.Cell `json:"duration_histogram,omitempty"`
	// Concurrency is the sum over its targets; absent if none is limited.
	Concurrency *ConcurrencyStatus `json:"concurrency,omitempty"`
	// MaxConcurrency is the limit on requests at all targets together; absent if there is none.
	MaxConcurrency *ConcurrencyStatus `json:"max_concurrency,omitempty"`
	// Breakers is how many of its targets' circuit breakers are in each state.
	Breakers map[string]int `json:"breakers_by_state,omitempty"`

	Names   []upstream.NameStatus `json:"names,omitempty"`   // results of DNS
	Targets []TargetStatus        `json:"targets,omitempty"` // only if one upstream was requested
}

// TargetStatus is one address of an upstream.
type TargetStatus struct {
	Address string `json:"address"`
	Host    string `json:"host"` // as configured
	Weight  int    `json:"weight"`
	// "up", "down", "deep check down", "ejected", "drained", "weight 0".
	State      string  `json:"state"`
	Why        string  `json:"why,omitempty"`
	Since      float64 `json:"for_seconds"` // seconds in this state
	EjectedFor float64 `json:"ejected_for_seconds,omitempty"`
	// Usable: nothing keeps the target from being picked. In panic, unusable targets are used too.
	Usable      bool `json:"usable"`
	Outstanding int  `json:"outstanding"`
	// Latency is the balancer's estimate: the mean over the loops that have one.
	Latency     float64 `json:"latency_ms"`
	Connections int     `json:"connections_open"`
	Idle        int     `json:"connections_idle"`
	Requests    uint64  `json:"requests"`
	Failures    uint64  `json:"failures"`
	InARow      int     `json:"failures_in_a_row"`
	Ejections   uint64  `json:"ejections"`

	Concurrency *ConcurrencyStatus `json:"concurrency,omitempty"`
	Breaker     *BreakerStatus     `json:"breaker,omitempty"`

	Light *CheckStatus `json:"light_check,omitempty"`
	Deep  *CheckStatus `json:"deep_check,omitempty"`
}

// ConcurrencyStatus describes the limit on concurrent requests at a target or an upstream.
type ConcurrencyStatus struct {
	Limit int `json:"limit"`
	Used  int `json:"used"`
}

// BreakerStatus is a circuit breaker at this moment.
type BreakerStatus struct {
	// "closed", "open", "half-open", "ramping", "forced-open", "forced-closed"
	State        string  `json:"state"`
	Seconds      float64 `json:"for_seconds"`
	InARow       int64   `json:"failures_in_a_row"`
	Requests     uint64  `json:"window_requests"`
	FailureRatio float64 `json:"failure_ratio"`
	SlowRatio    float64 `json:"slow_ratio"`
	Score        float64 `json:"score"`
	Threshold    float64 `json:"threshold"`
}

// CheckStatus is the last result of one kind of health check.
type CheckStatus struct {
	Down       bool    `json:"down"`
	Last       string  `json:"last"` // "ok" or the error
	AgoSeconds float64 `json:"ago_seconds"`
	Failures   int     `json:"failures_in_a_row"`
	Successes  int     `json:"successes_in_a_row"`
}

// ErrUnknown says that there is no upstream, target, limit or guard of that name.
var ErrUnknown = errors.New("unknown")

// membersPerCall and summedPerCall are how many targets a loop describes, or adds up, in one call.
const (
	membersPerCall = 64
	summedPerCall  = 256
)

// Upstreams describes all upstreams without their targets, by name.
func (g *Gateway) Upstreams() []UpstreamStatus {
	v, snapshot := g.view(), g.registry.Collect(g.ask)
	names := slices.Sorted(maps.Keys(v.upstreams))
	all := make([]*upstream.Upstream, len(names))
	for i, name := range names {
		all[i] = v.upstreams[name]
	}
	list := make([]UpstreamStatus, 0, len(all))
	for i, load := range g.loads(all) {
		s, _ := g.upstreamStatus(all[i], load, snapshot)
		list = append(list, s)
	}
	return list
}

// Upstream describes one upstream and its targets. It fails only with ErrUnknown.
func (g *Gateway) Upstream(name string) (UpstreamStatus, error) {
	u := g.view().upstreams[name]
	if u == nil {
		return UpstreamStatus{}, fmt.Errorf("%w upstream %q", ErrUnknown, name)
	}
	s, shared := g.upstreamStatus(u, g.loads([]*upstream.Upstream{u})[0], g.registry.Collect(g.ask))
	s.Targets = g.targets(u, shared)
	return s, nil
}

// DrainTarget takes an upstream's targets with this address out of use until RestoreTarget, across
// reloads too. Exchanges under way there finish. It fails only with ErrUnknown.
func (g *Gateway) DrainTarget(name, address string) (TargetStatus, error) {
	return g.operate(name, address, (*upstream.Upstream).Drain)
}

// RestoreTarget puts a drained target back into use, subject to its health. It fails only with
// ErrUnknown.
func (g *Gateway) RestoreTarget(name, address string) (TargetStatus, error) {
	return g.operate(name, address, (*upstream.Upstream).Restore)
}

// ForceBreaker sets a target's circuit breaker to "open", "closed" or "automatic". It returns
// ErrUnknown if there is no such upstream or target.
func (g *Gateway) ForceBreaker(name, address, state string) (TargetStatus, error) {
	u := g.view().upstreams[name]
	if u == nil {
		return TargetStatus{}, fmt.Errorf("%w upstream %q", ErrUnknown, name)
	}
	find := func() (TargetStatus, error) {
		all := g.targets(u, u.Status())
		if i := slices.IndexFunc(all, func(t TargetStatus) bool { return t.Address == address }); i >= 0 {
			return all[i], nil
		}
		return TargetStatus{}, fmt.Errorf("%w target %q of upstream %s", ErrUnknown, address, name)
	}
	if _, err := find(); err != nil {
		return TargetStatus{}, err
	}
	if err := u.ForceBreaker(address, state); err != nil {
		return TargetStatus{}, err
	}
	return find()
}

func (g *Gateway) operate(
	name, address string, act func(*upstream.Upstream, string) error,
) (TargetStatus, error) {
	u := g.view().upstreams[name]
	if u == nil {
		return TargetStatus{}, fmt.Errorf("%w upstream %q", ErrUnknown, name)
	}
	if err := act(u, address); err != nil {
		return TargetStatus{}, fmt.Errorf("%w target: %w", ErrUnknown, err)
	}
	for _, t := range g.targets(u, u.Status()) {
		if t.Address == address {
			return t, nil
		}
	}
	return TargetStatus{}, fmt.Errorf("%w target: %s has just left the answers of DNS", ErrUnknown, address)
}

// loads adds up the loops' figures for each upstream. A loop that does not respond is left out.
func (g *Gateway) loads(all []*upstream.Upstream) []upstream.Load {
	sums := make([]upstream.Load, len(all))
	for loop := range g.loops {
		for i, at := 0, 0; i < len(all); {
			answered := g.Call(loop, func() {
				for seen := 0; i < len(all) && seen < summedPerCall; seen++ {
					from := at
					if at = all[i].Local(loop).AddLoad(&sums[i], at, summedPerCall-seen); at == 0 {
						i++
					} else {
						seen += at - from
					}
				}
			})
			if !answered {
				break
			}
		}
	}
	return sums
}

func (g *Gateway) upstreamStatus(u *upstream.Upstream, load upstream.Load,
	snapshot *telemetry.Snapshot) (UpstreamStatus, upstream.Status) {
	shared := u.Status()
	s := UpstreamStatus{
		Name: shared.Name, Policy: shared.Policy, States: map[string]int{},
		Panicking: load.Panicking > 0, Outstanding: load.Outstanding,
		Waiting: load.Waiting, Waits: load.Waits, Refused: load.Refused, Idle: load.Idle,
		Ejections: shared.Ejections, Names: shared.Names,
	}
	if shared.Bound > 0 {
		s.MaxConcurrency = &ConcurrencyStatus{Limit: shared.Bound, Used: shared.InFlight}
	}
	for _, t := range shared.Targets {
		s.States[t.State]++
		s.Connections += t.Connections
		s.Idle += t.Spare
		if c := t.Concurrency; c != nil {
			if s.Concurrency == nil {
				s.Concurrency = &ConcurrencyStatus{}
			}
			s.Concurrency.Limit += c.Limit
			s.Concurrency.Used += c.Used
		}
		if b := t.Breaker; b != nil {
			if s.Breakers == nil {
				s.Breakers = map[string]int{}
			}
			s.Breakers[b.State.String()]++
		}
	}
	if series := g.registry.Upstream(u.Name()); series < len(snapshot.Upstreams) {
		c := snapshot.Upstreams[series]
		s.Requests, s.Codes, s.Duration = c.Duration.Count(), c.Codes.ByClass(),
			spreadOf(&c.Duration, time.Millisecond)
		s.Cells = c.Duration.Cells()
		s.Opened, s.Reused, s.ConnectFailed, s.Retries, s.RetriesRefused = c.Opened, c.Reused,
			c.ConnectFailures, c.Retries, c.RetriesRefused
	}
	return s, shared
}

// targets describes an upstream's targets: their shared state, and the sums of the loops' figures.
func (g *Gateway) targets(u *upstream.Upstream, shared upstream.Status) []TargetStatus {
	list := make([]TargetStatus, len(shared.Targets))
	index := make(map[string]int, len(list))
	for i, t := range shared.Targets {
		index[t.Address] = i
		list[i] = TargetStatus{
			Address: t.Address, Host: t.Host, Weight: t.Weight, State: t.State, Why: t.Why,
			Since:      round(t.ChangedAgo.Seconds()),
			EjectedFor: round(t.EjectedFor.Seconds()), Usable: t.Usable, Connections: t.Connections,
			Idle:   t.Spare,
			InARow: t.ConsecutiveFailures, Ejections: t.Ejections, Light: checkStatus(t.Light),
			Deep: checkStatus(t.Deep),
		}
		if b := t.Breaker; b != nil {
			list[i].Breaker = &BreakerStatus{
				State: b.State.String(), InARow: b.Consecutive,
				Seconds:  secondsSince(b.Since, reactor.Clock()),
				Requests: b.Requests, FailureRatio: round(b.Ratio), SlowRatio: round(b.SlowRatio),
				Score: round(b.Score), Threshold: round(b.Threshold),
			}
		}
		if c := t.Concurrency; c != nil {
			list[i].Concurrency = &ConcurrencyStatus{Limit: c.Limit, Used: c.Used}
		}
	}
	samples := make([]int, len(list))
	for loop := range g.loops {
		for from := 0; ; from += membersPerCall {
			var members []upstream.MemberReport
			g.Call(loop, func() {
				members = u.Local(loop).Members(g.loops[loop].Now(), from, membersPerCall)
			})
			for _, m := range members {
				if i, ok := index[m.Address]; ok {
					list[i].add(m, &samples[i])
				}
			}
			if len(members) < membersPerCall {
				break
			}
		}
	}
	for i, n := range samples {
		list[i].Latency = round(list[i].Latency / float64(max(n, 1)))
	}
	return list
}

// add adds the figures of one loop. Latency is a sum until all loops have been added.
func (t *TargetStatus) add(m upstream.MemberReport, samples *int) {
	t.Outstanding += m.Outstanding
	t.Idle += m.Idle
	t.Requests += m.Requests
	t.Failures += m.Failures
	if m.Latency > 0 {
		t.Latency += float64(m.Latency) / float64(time.Millisecond)
		*samples++
	}
}

func checkStatus(c *upstream.CheckStatus) *CheckStatus {
	if c == nil {
		return nil
	}
	return &CheckStatus{Down: c.Down, Last: c.Last, AgoSeconds: round(c.Ago.Seconds()),
		Failures: c.Failures, Successes: c.Successes}
}
