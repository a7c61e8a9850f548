package cache

import (
	"errors"
	"sync/atomic"

	"plimsoll/internal/cache/store"
	"plimsoll/internal/policy/cache/tier"
)

// MemoryOptions bound a Memory.
type MemoryOptions = store.Options

// Memory is a store that the policies of several routes use, and of several configs one after the
// other, with a second tier perhaps. It is closed when the last one lets go.
type Memory struct {
	*store.Store
	options  MemoryOptions
	identity string // of the second tier
	second   *tier.Tier
	users    atomic.Int32
	// Those of configurations before and after this one's, as long as they are in use.
	older, newer atomic.Pointer[Memory]
}

// NewMemory makes one, with the caller as its first user. second is nil for one tier; otherwise the
// store does with purges of others what it says. identity tells what the tier was made from.
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

// SameAs says whether the memory was made from the same.
func (m *Memory) SameAs(o MemoryOptions, identity string) bool {
	return m.options == o && m.identity == identity
}

// Tier is the second one, nil for none.
func (m *Memory) Tier() *tier.Tier { return m.second }

// Start connects the second tier. It may be called again.
func (m *Memory) Start() {
	if m.second != nil {
		m.second.Start()
	}
}

// Apply purges this instance alone.
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

// Outdate forgets what is stored for a URI, in the second tier and other instances too. It does not
// wait for these.
func (m *Memory) Outdate(uri []byte) {
	m.PurgeURI(uri, false)
	if m.second != nil {
		m.second.Outdate(tier.URI, uri, false)
	}
}

// Follow ties a memory to the one whose place it takes. Requests that began before the change still
// use that one: what is purged or outdated in either goes from both, and from any that came before.
func (m *Memory) Follow(old *Memory) {
	m.older.Store(old)
	old.newer.Store(m)
}

// each calls f for the memory and those that it is tied to.
func (m *Memory) each(f func(*Memory)) {
	f(m)
	for o := m.older.Load(); o != nil; o = o.older.Load() {
		f(o)
	}
	for n := m.newer.Load(); n != nil; n = n.newer.Load() {
		f(n)
	}
}

// PurgeURI is Store.PurgeURI. One that is being closed only counts up what nobody asks for any more.
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

// Options are what it was made from.
func (m *Memory) Options() MemoryOptions { return m.options }

func (m *Memory) hold() { m.users.Add(1) }

// Release lets go. The last one closes the store: nothing of it is in use then. It may wait for the
// second tier.
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
