package cache

import (
	"sync/atomic"

	"plimsoll/internal/cache/store"
)

// MemoryOptions bound a Memory.
type MemoryOptions = store.Options

// Memory is a store that the policies of several routes use, and of several configs one after the
// other. It is closed when the last one lets go.
type Memory struct {
	*store.Store
	options MemoryOptions
	users   atomic.Int32
}

// NewMemory makes one, with the caller as its first user.
func NewMemory(o MemoryOptions) (*Memory, error) {
	s, err := store.New(o)
	if err != nil {
		return nil, err
	}
	m := &Memory{Store: s, options: o}
	m.users.Store(1)
	return m, nil
}

// Options are what it was made from.
func (m *Memory) Options() MemoryOptions { return m.options }

func (m *Memory) hold() { m.users.Add(1) }

// Release lets go. The last one closes the store: nothing of it is in use then.
func (m *Memory) Release() error {
	if m.users.Add(-1) == 0 {
		return m.Close()
	}
	return nil
}
