package tlsio

import (
	"crypto/rand"
	"crypto/tls"
	"sync"
	"time"
)

// ticketKeys is how many keys open tickets: the newest, which also seals them, and the two before
// it.
const ticketKeys = 3

// Tickets are the keys that seal session tickets (RFC 8446, section 4.6.1; RFC 5077), one set for
// all loops and listeners of a process, so that a client may resume on any. They never leave the
// process: a restart forgets them. Rotation bounds what a stolen key can open, to three rotations
// of TLS 1.2 sessions.
//
// A ServerConfig refers to its Tickets and not the other way round, so a config that a reload
// replaced is free to go.
type Tickets struct {
	// vault is a config whose only use is that crypto/tls seals and opens tickets with its keys.
	vault    tls.Config
	rotation time.Duration

	mu   sync.Mutex
	keys [][32]byte // newest first
	last int64      // when the newest was due
}

// NewTickets makes a set with one fresh key. rotation is how long a key stays the newest; 0 or less
// is for ever. now is monotonic, in nanoseconds.
func NewTickets(rotation time.Duration, now int64) *Tickets {
	t := &Tickets{rotation: rotation, last: now}
	t.renew()
	return t
}

// Rotate replaces the newest key if its time is over at now, and says whether it did. When several
// rotations were missed as many keys retire. Call it from any one place, about every minute;
// handshakes go on meanwhile. Any goroutine.
func (t *Tickets) Rotate(now int64) bool {
	if t.rotation <= 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	missed := (now - t.last) / int64(t.rotation)
	if missed <= 0 {
		return false
	}
	t.last += missed * int64(t.rotation)
	for range min(missed, ticketKeys) {
		t.renew()
	}
	return true
}

func (t *Tickets) renew() {
	var key [32]byte
	// rand.Read never fails: it ends the process where the kernel has no randomness.
	rand.Read(key[:])
	t.keys = append([][32]byte{key}, t.keys[:min(len(t.keys), ticketKeys-1)]...)
	t.vault.SetSessionTicketKeys(t.keys)
}

func (t *Tickets) serve(cfg *tls.Config) {
	cfg.WrapSession = t.vault.EncryptTicket
	cfg.UnwrapSession = t.vault.DecryptTicket
}
