package cache

import (
	"errors"
	"sync/atomic"

	"plimsoll/internal/cache/store"
	"plimsoll/internal/policy/cache/tier"
)

// MemoryOptions bound a Memory.
type MemoryOptions = store.Options

// Memory is a store, optionally with a second tier, that is shared by the policies of several
// routes and of successive configs. It is closed when its last user releases it.
type Memory struct {
	*store.Store
	options  MemoryOptions
	identity string // of the second tier
	second   *tier.Tier
	users    atomic.Int32
	// The memories of earlier and later configurations, as long as they are in use.
	older, newer atomic.Pointer[Memory]
}

// NewMemory makes a Memory, with the caller as its first user. second is nil for no second tier;
// otherwise the store applies the purges that the tier receives from other instances. identity
// identifies the settings that the tier was made from.
func NewMemory(o MemoryOptions, second *tier.Options, identity string) (*Memory, error) {
	s, err := store.New(o)
	if err != nil {
		return nil, err
	}
	m := &Memory{Store: s, options: o, identity: identity}
	m.users.Store(1)
	if second == nil {
		return m, nil
	}
	own := *second
	own.Purged = m.Apply
	own.Forget = func() { _ = m.Apply(tier.Purge{Kind: tier.All}) }
	if m.second, err = tier.New(own); err != nil {
		s.Close()
		return nil, err
	}
	return m, nil
}

// SameAs reports whether the memory was made from the same settings.
func (m *Memory) SameAs(o MemoryOptions, identity string) bool {
	return m.options == o && m.identity == identity
}

// Tier is the second tier; nil for none.
func (m *Memory) Tier() *tier.Tier { return m.second }

// Start connects the second tier. It may be called again.
func (m *Memory) Start() {
	if m.second != nil {
		m.second.Start()
	}
}

// Apply applies a purge to this instance only.
func (m *Memory) Apply(p tier.Purge) (err error) {
	switch p.Kind {
	case tier.URI:
		m.PurgeURI(p.Name, p.Soft)
	case tier.Tag:
		m.PurgeTag(p.Name, p.Soft)
	case tier.Prefix:
		_, err = m.PurgePrefix(p.Name, p.Soft)
	case tier.All:
		_, err = m.PurgePrefix(nil, p.Soft)
	}
	return err
}

// Outdate removes what is stored for a URI, also in the second tier and in other instances. It does
// not wait for these.
func (m *Memory) Outdate(uri []byte) {
	m.PurgeURI(uri, false)
	if m.second != nil {
		m.second.Outdate(tier.URI, uri, false)
	}
}

// Follow ties a memory to the one that it replaces. Requests that began before the change still use
// the old one, so a purge or invalidation of either applies to both, and to all earlier ones.
func (m *Memory) Follow(old *Memory) {
	m.older.Store(old)
	old.newer.Store(m)
}

// each calls f for the memory and the memories that it is tied to.
func (m *Memory) each(f func(*Memory)) {
	f(m)
	for o := m.older.Load(); o != nil; o = o.older.Load() {
		f(o)
	}
	for n := m.newer.Load(); n != nil; n = n.newer.Load() {
		f(n)
	}
}

// PurgeURI is Store.PurgeURI for all tied memories. For a memory that is being closed, it has no
// effect.
func (m *Memory) PurgeURI(uri []byte, soft bool) {
	m.each(func(m *Memory) { m.Store.PurgeURI(uri, soft) })
}

// PurgeTag is Store.PurgeTag.
func (m *Memory) PurgeTag(tag []byte, soft bool) {
	m.each(func(m *Memory) { m.Store.PurgeTag(tag, soft) })
}

// PurgePrefix is Store.PurgePrefix. n counts the entries of all memories.
func (m *Memory) PurgePrefix(prefix []byte, soft bool) (n int, err error) {
	m.each(func(m *Memory) {
		if !m.tryHold() {
			return
		}
		found, bad := m.Store.PurgePrefix(prefix, soft)
		n, err = n+found, errors.Join(err, bad, m.Release())
	})
	return n, err
}

// tryHold is hold, unless the memory is closed already.
func (m *Memory) tryHold() bool {
	for {
		n := m.users.Load()
		if n == 0 || m.users.CompareAndSwap(n, n+1) {
			return n > 0
		}
	}
}

// Options are the options that the memory was made from.
func (m *Memory) Options() MemoryOptions { return m.options }

func (m *Memory) hold() { m.users.Add(1) }

// Release ends one use. The last Release closes the store, of which nothing may be in use then. It
// may wait for the second tier.
func (m *Memory) Release() error {
	if m.users.Add(-1) > 0 {
		return nil
	}
	if m.second != nil {
		m.second.Close()
	}
	o, n := m.older.Swap(nil), m.newer.Swap(nil)
	if o != nil {
		o.newer.CompareAndSwap(m, n)
	}
	if n != nil {
		n.older.CompareAndSwap(m, o)
	}
	return m.Close()
}
