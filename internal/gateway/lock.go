package gateway

// lock is a mutual exclusion lock that blocks on a channel. A reload or an upgrade holds it across
// waits of many seconds. In a testing/synctest bubble, a goroutine that waits for a sync.Mutex is
// not durably blocked, so virtual time would stand still while any goroutine waits. A wait on a
// channel does not stop it.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

// Lock waits until the lock is free and takes it.
func (l lock) Lock() { l <- struct{}{} }

// Unlock releases the lock, which the caller must hold.
func (l lock) Unlock() { <-l }
