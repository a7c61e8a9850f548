package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/breaker"
	"plimsoll/internal/invariant"
)

// startWait is how long Start waits for the first answers of DNS.
const startWait = 2 * time.Second

// entry is one configured address, with the IP addresses that it resolves to if it is a name.
type entry struct {
	option TargetOption
	addr   Address
	named  bool
	known  []netip.Addr // of a name; kept when a lookup fails
	err    error        // of the last lookup
	at     int64        // of the last answer
}

// Upstream is a named service. Its methods may be called from any goroutine, except where they say
// otherwise.
type Upstream struct {
	name    string
	options Options
	env     Env
	log     *slog.Logger

	// version moves after every change that a loop must see: the set of targets, or the state of
	// one. Loops read it for each request, so it shares its cache line with nothing that is written
	// more often.
	_       [64]byte
	version atomic.Uint64
	set     atomic.Pointer[set]
	locals  []*Local
	breaker *breaker.Breaker // of the whole upstream; nil for none
	bound   *bound           // nil where nothing bounds the requests of all targets together
	trips   atomic.Uint64    // transitions of breakers
	_       [64]byte
	queues  queues
	_       [64]byte

	mu        sync.Mutex
	entries   []entry
	drained   map[string]bool // by address, so that Drain outlives a new answer of DNS
	heir      *Upstream       // the upstream that replaces this one; nil for none
	started   bool
	closed    bool
	settled   bool  // Start has returned: a target added from now on begins with slow start
	nextRates int64 // when success rates are compared next
	ejections uint64
	draws     rng // for the random times at which checks begin

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	kick   chan struct{}   // a target has failed often enough
	checks chan struct{}   // bounds how many health checks run at once
	moved  chan transition // of breakers, to be logged

	// The functions that use the network. Tests replace them.
	probe  func(ctx context.Context, t *Target, asks string) error
	lookup func(ctx context.Context, host string) ([]netip.Addr, time.Duration, error)
}

// New makes an upstream from options. Addresses that need no lookup become targets at once. No
// goroutine runs before Start.
func New(name string, o Options, e Env) (*Upstream, error) {
	o, err := o.checked()
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", name, err)
	}
	if e.Loops < 1 || e.Post == nil || e.Now == nil {
		return nil, fmt.Errorf("upstream %s: it needs at least one loop, a way to post to it, "+
			"and a clock", name)
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.Seed == 0 {
		e.Seed = rand.Uint64() | 1
	}
	e.Seed ^= HashKey([]byte(name)) // so that upstreams do not all draw the same numbers
	u := &Upstream{
		name: name, options: o, env: e, log: e.Log.With("upstream", name),
		drained: make(map[string]bool),
		kick:    make(chan struct{}, 1),
		checks:  make(chan struct{}, maxChecks),
		moved:   make(chan transition, keptTransitions),
	}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.probe = u.httpProbe
	if o.Active != nil && o.Active.GRPC != nil {
		u.probe = u.grpcProbe
	}
	u.lookup = dnsLookup{server: e.Resolver}.lookup
	if e.Probe != nil {
		u.probe = func(ctx context.Context, t *Target, path string) error {
			return e.Probe(ctx, t.addr, path)
		}
	}
	if e.Lookup != nil {
		u.lookup = func(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
			return e.Lookup(ctx, name, host)
		}
	}
	u.draws = newRNG(e.Seed)
	var bad []error
	for _, t := range o.Targets {
		a, named, err := parseAddress(t.Address)
		if err != nil {
			bad = append(bad, fmt.Errorf("upstream %s: %w", name, err))
		}
		u.entries = append(u.entries, entry{option: t, addr: a, named: named})
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	if o.Breaker != nil && o.Breaker.Whole {
		u.breaker = u.newBreaker("", e.Now())
	}
	if o.MaxConcurrency > 0 {
		u.bound = newBound(o.MaxConcurrency)
	}
	u.queues.init(e.Loops)
	u.rebuild(e.Now())
	u.locals = make([]*Local, e.Loops)
	for i := range u.locals {
		u.locals[i] = newLocal(u, i)
	}
	return u, nil
}

// Name is the upstream's name.
func (u *Upstream) Name() string { return u.name }

// Hosts returns Address.Host of each configured target, in the configured order.
func (u *Upstream) Hosts() (hosts []string) {
	for i := range u.entries {
		hosts = append(hosts, u.entries[i].addr.Host)
	}
	return hosts
}

// Local is a loop's own view. Only that loop may use it.
func (u *Upstream) Local(loop int) *Local { return u.locals[loop] }

// Start begins health checks, ejection and lookups. It waits at most two seconds for the first
// answers of DNS. If some are missing by then, it logs a warning, and the upstream begins with the
// targets it has. Call it once. To start several upstreams, call it for all of them concurrently.
func (u *Upstream) Start() {
	u.mu.Lock()
	if u.started || u.closed {
		u.mu.Unlock()
		return
	}
	u.started = true
	if u.bound != nil {
		u.bound.enforce(u)
	}
	u.nextRates = u.env.Now() + int64(ratesEvery)
	for _, t := range u.set.Load().targets {
		u.watch(t)
	}
	var first sync.WaitGroup
	for i := range u.entries {
		switch e := &u.entries[i]; {
		case e.named && len(e.known) == 0:
			first.Add(1)
			u.wg.Go(func() { u.follow(i, first.Done) })
		case e.named:
			u.wg.Go(func() { u.follow(i, func() {}) })
		}
	}
	u.wg.Go(u.judge)
	answered := make(chan struct{})
	u.wg.Go(func() { first.Wait(); close(answered) })
	u.mu.Unlock()

	limit := time.NewTimer(startWait)
	defer limit.Stop()
	select {
	case <-answered:
	case <-limit.C:
		u.log.Warn("some names are not resolved yet: starting without their targets", "waited", startWait)
	case <-u.ctx.Done():
	}
	u.mu.Lock()
	u.settled = true
	u.mu.Unlock()
}

// Close ends the goroutines, waits for them, and closes the connections that no loop holds.
// Local.Close closes those of a loop, on that loop. After a reload that replaced the upstream, call
// both when the last exchange of the old snapshot is over: until then the upstream still serves
// these exchanges, their retries and waits included.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.cancel()
	u.wg.Wait()
	for _, t := range u.set.Load().targets {
		left := t.open.Load() - int64(t.spare.close())
		// A TLS handshake that was abandoned stays counted until its goroutine has ended.
		if invariant.Sequential && left != 0 && u.options.TLS == nil {
			panic(fmt.Sprintf("upstream: at the end %d connections to %s are still counted", left, t.addr))
		}
		if t.slots != nil && invariant.Sequential && t.slots.taken.Load() != 0 && u.options.TLS == nil {
			panic(fmt.Sprintf("upstream: at the end %d slots of %s are still taken",
				t.slots.taken.Load(), t.addr))
		}
	}
	if u.bound != nil {
		u.bound.leave(u)
	}
}

// rebuild makes the set of targets again from the entries. A target that stays in it with the same
// weight keeps its identity, and so its state and pools. New calls it before there is any other
// goroutine; later callers hold mu.
func (u *Upstream) rebuild(now int64) {
	type key struct {
		at   string
		host string
	}
	old := make(map[key]*Target)
	if s := u.set.Load(); s != nil {
		for _, t := range s.targets {
			old[key{t.addr.String(), t.addr.Host}] = t
		}
	}
	next := new(set)
	left := 0
	seen := make(map[key]bool)
	add := func(e *entry, a Address) {
		k := key{a.String(), a.Host}
		if seen[k] {
			return
		}
		if len(next.targets) >= maxTargets {
			left++
			return
		}
		seen[k] = true
		t := old[k]
		if t != nil && t.weight == e.option.Weight {
			delete(old, k)
		} else {
			t = u.newTarget(a, e.option.Weight, now)
		}
		next.targets = append(next.targets, t)
	}
	for i := range u.entries {
		e := &u.entries[i]
		if !e.named {
			add(e, e.addr)
		}
		for _, ip := range e.known {
			add(e, Address{TCP: netip.AddrPortFrom(ip, e.addr.TCP.Port()), Host: e.addr.Host})
		}
	}
	if left > 0 {
		u.log.Warn("too many targets: some are not used, split the upstream", "used", maxTargets,
			"left", left)
	}
	if u.options.Policy == Hash {
		next.ring = newRing(next.targets)
	}
	u.set.Store(next)
	for _, t := range old {
		u.drop(t)
	}
	u.version.Add(1)
	u.queues.wakeAll(u)
}

// newTarget makes a target. A target made before Start has returned begins with its full share, and
// without slow start: there are no other targets yet that could take the traffic instead.
func (u *Upstream) newTarget(a Address, weight int, now int64) *Target {
	t := &Target{addr: a, weight: weight, changed: now}
	t.spare.bound = u.spareBound()
	t.readyAt.Store(neverReady)
	if u.settled {
		t.readyAt.Store(now)
	}
	if o := u.options.Concurrency; o != nil {
		t.slots = newSlots(*o, now)
	}
	switch o := u.options.Breaker; {
	case o != nil && o.Whole:
		t.breaker = u.breaker
	case o != nil:
		t.breaker = u.newBreaker(a.String(), now)
	}
	if u.drained[a.String()] {
		t.state.Store(stateDrained)
		t.reasons[bits.TrailingZeros32(stateDrained)] = whyDrained
	}
	if u.started && !u.closed {
		u.watch(t)
	}
	return t
}

// drop ends the health checks of a target that is no longer in the set, and closes its spare
// connections.
func (u *Upstream) drop(t *Target) {
	t.state.Or(stateGone)
	if t.stop != nil {
		t.stop()
	}
	t.spare.close()
}

// change sets or clears one bit of a target's state. It does nothing if the bit already has that
// value. The caller holds mu.
func (u *Upstream) change(t *Target, now int64, set, clear uint32, why string) {
	before := t.state.Load()
	after := before&^clear | set
	if after == before {
		return
	}
	t.changed, t.why = now, why
	if set != 0 {
		t.reasons[bits.TrailingZeros32(set)] = why
	}
	if after == 0 {
		t.readyAt.Store(now)
	}
	t.state.Store(after)
	u.version.Add(1)
	u.queues.wakeAll(u)
	u.log.Info("target changed", "target", t.addr.String(), "was", stateName(before, t.weight),
		"is", stateName(after, t.weight), "why", why)
}

const whyDrained = "taken out by an operator"

// Drain takes the targets with this address out of use until Restore, whatever their health.
// Requests under way finish.
func (u *Upstream) Drain(address string) error {
	return u.operator(address, stateDrained, 0, whyDrained)
}

// Restore undoes Drain: the health of the targets with this address decides again whether they are
// used.
func (u *Upstream) Restore(address string) error {
	return u.operator(address, 0, stateDrained, "put back by an operator")
}

func (u *Upstream) operator(address string, set, clear uint32, why string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var known []string
	found := false
	for _, t := range u.set.Load().targets {
		known = append(known, t.addr.String())
		if t.addr.String() == address {
			found = true
			u.change(t, u.env.Now(), set, clear, why)
		}
	}
	if !found {
		return fmt.Errorf("upstream %s has no target %q: its targets are %s", u.name, address,
			strings.Join(known, ", "))
	}
	if set != 0 {
		u.drained[address] = true
	} else {
		delete(u.drained, address)
	}
	if u.heir != nil && !u.heir.over() {
		// The heir may not have the address. That is not an error: the operator named a target of this
		// upstream.
		_ = u.heir.operator(address, set, clear, why)
	}
	return nil
}

// over reports whether Close was called.
func (u *Upstream) over() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closed
}

// spareBound is how many idle connections the spare list of a target may hold. A single loop needs
// no spare list.
func (u *Upstream) spareBound() int {
	if u.env.Loops == 1 || u.options.MaxIdle < 2 {
		return 0
	}
	return min(defaultSpareBound, max(1, u.options.MaxIdle/4))
}

// idleBound is how many idle connections to a target one loop may keep: its part of MaxIdle, less
// the spare list.
func (u *Upstream) idleBound() int {
	if u.options.MaxIdle == 0 {
		return 0
	}
	return max(1, (u.options.MaxIdle-u.spareBound())/u.env.Loops)
}

// never is a time that does not come, in nanoseconds.
const never = math.MaxInt64
