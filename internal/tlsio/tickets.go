package tlsio

import (
	"crypto/rand"
	"crypto/tls"
	"sync"
	"time"
)

// ticketKeys is how many keys can open tickets: the newest, which also seals them, and the two
// before it.
const ticketKeys = 3

// Tickets are the keys that seal session tickets (RFC 8446, section 4.6.1; RFC 5077). All loops and
// listeners of a process share one set, so that a client may resume on any of them. The keys never
// leave the process and are lost when it restarts. Rotation limits what a stolen key can open to
// the TLS 1.2 sessions of three rotations.
//
// A config made by ServerConfig refers to its Tickets, and not the other way round, so a config
// that a reload has replaced can be garbage-collected.
type Tickets struct {
	// vault is a config that is used only to make crypto/tls seal and open tickets with its keys.
	vault    tls.Config
	rotation time.Duration

	mu   sync.Mutex
	keys [][32]byte // newest first
	last int64      // when the newest key was due, in nanoseconds
}

// NewTickets makes a set with one fresh key. rotation is how long a key stays the newest; 0 or less
// means for ever. now is monotonic, in nanoseconds.
func NewTickets(rotation time.Duration, now int64) *Tickets {
	t := &Tickets{rotation: rotation, last: now}
	t.renew()
	return t
}

// Rotate adds a new key if the newest one's time is over at now, and reports whether it did. If
// several rotations were missed, as many keys retire. Call it from one place, about every minute.
// Handshakes go on meanwhile. Any goroutine may call it.
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
	// rand.Read never fails: it ends the process if the kernel has no randomness.
	rand.Read(key[:])
	t.keys = append([][32]byte{key}, t.keys[:min(len(t.keys), ticketKeys-1)]...)
	t.vault.SetSessionTicketKeys(t.keys)
}

func (t *Tickets) serve(cfg *tls.Config) {
	cfg.WrapSession = t.vault.EncryptTicket
	cfg.UnwrapSession = t.vault.DecryptTicket
}
