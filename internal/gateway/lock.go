package gateway

// lock is a mutual exclusion lock that blocks on a channel. A reload or an upgrade holds it
// across waits of many seconds. In a testing/synctest bubble a goroutine that waits for a
// sync.Mutex is not durably blocked, so virtual time would stand still for as long as somebody
// waits; a wait on a channel does not stop it.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

// Lock waits until nobody else holds the lock.
func (l lock) Lock() { l <- struct{}{} }

// Unlock passes the lock on. The caller holds it.
func (l lock) Unlock() { <-l }
