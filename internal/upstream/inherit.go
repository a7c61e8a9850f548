package upstream

// Inherit takes over what another upstream of the same name knows, because its config changed:
// whose checks failed, who is ejected, what an operator took out, and to which addresses names
// resolved. Without it a reload would send traffic to targets that are known to be down.
// Connections are not taken over: they end with the requests of the old snapshot. The requests that
// are under way there count against this one's bound as well. Call it before Start, which puts this
// one's number in force; the other may be in use, and passes on what an operator says to it until
// this one is: Start may wait for name servers.
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

// inherit copies what another target with the same address knows, as far as these options have a
// use for it: a verdict of a check that is no longer made would never be lifted. Both upstreams' mu
// are held.
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
