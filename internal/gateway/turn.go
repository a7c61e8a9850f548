package gateway

// turn is a mutual exclusion lock that blocks on a channel. A reload, a drain or an upgrade holds
// it across waits of many seconds. In a testing/synctest bubble a goroutine that waits for a
// sync.Mutex is not durably blocked, so virtual time would stand still for as long as somebody
// waits; a wait on a channel does not stop it.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// Lock waits until nobody else holds the turn.
func (t turn) Lock() { t <- struct{}{} }

// Unlock passes the turn on. The caller holds it.
func (t turn) Unlock() { <-t }
