package upstream

// Inherit takes over what from, the upstream that this one replaces, knows of its targets: failed
// checks, ejections, targets that an operator took out, and the addresses that names resolved to.
// Without it a reload would send traffic to targets that are known to be down. Connections are not
// taken over: they end with the requests of the old snapshot.
//
// The two upstreams share one bound, so the requests under way at from count against it. Call
// Inherit before Start, which puts the limit of this upstream in force. The upstream from may be in
// use. Start may wait for name servers, and meanwhile operators still address from: it passes on
// their commands to this upstream.
func (u *Upstream) Inherit(from *Upstream) {
	from.mu.Lock()
	defer from.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ejections = from.ejections
	if u.bound != nil && from.bound != nil {
		u.bound = from.bound
	}
	for a := range from.drained {
		u.drained[a] = true
	}
	for i := range u.entries {
		e := &u.entries[i]
		for k := range from.entries {
			if old := &from.entries[k]; e.named && old.named && e.addr == old.addr {
				e.known = old.known
			}
		}
	}
	now := u.env.Now()
	u.rebuild(now)
	before := make(map[Address]*Target)
	for _, t := range from.set.Load().targets {
		before[t.addr] = t
	}
	for _, t := range u.set.Load().targets {
		if old := before[t.addr]; old != nil {
			t.inherit(old, u.options)
		} else if len(before) > 0 {
			t.readyAt.Store(now)
		}
	}
	from.heir = u
	u.version.Add(1)
}

// inherit copies the state of another target with the same address, as far as the options o have a
// use for it: the verdict of a check that is no longer made would never be lifted. The caller holds
// mu of both upstreams.
func (t *Target) inherit(old *Target, o Options) {
	keep := stateDrained
	if o.Active != nil {
		keep |= stateDown
		t.light = old.light
		if o.Active.DeepPath != "" {
			keep |= stateDeepDown
			t.deep = old.deep
		}
	}
	if !o.Passive.Disabled {
		keep |= stateEjected
		t.fails.Store(old.fails.Load())
		t.ejectedAt, t.ejectedTill, t.ejectRow = old.ejectedAt, old.ejectedTill, old.ejectRow
	}
	if t.breaker != nil && old.breaker != nil {
		t.breaker.Inherit(old.breaker)
	}
	if t.slots != nil && old.slots != nil {
		c := *o.Concurrency
		c.Initial = min(max(int(old.slots.limit.Load()), c.Min), c.Max)
		t.slots = newSlots(c, t.slots.began)
	}
	t.ejections, t.changed, t.why, t.reasons = old.ejections, old.changed, old.why, old.reasons
	t.readyAt.Store(old.readyAt.Load())
	t.state.Store(old.state.Load() & keep)
}
