package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
)

// defaultReply is the longest reply, unless the options say more: some thousand keys of a set.
const defaultReply = 16 << 20

// conn is a connection to a server that need not be what it should: another program, or one that
// somebody else has taken over. rueidis reads replies on goroutines of its own, and panics there,
// or takes memory without a bound, on some that no server sends; that would end the gateway. So
// what comes is checked before rueidis sees it, and the connection is given up with the first
// fault.
//
// Rejected: to recover, which only the goroutine that panics can do.
type conn struct {
	net.Conn
	in, out wire // in belongs to the reader, out to the writer

	mu      sync.Mutex
	waiting []bool // commands without a reply, the oldest first: whether it is SUBSCRIBE
	hello   bool   // HELLO was sent
	old     bool   // the first HELLO asked for RESP2: rueidis does for subscriptions, if it must
	listens bool   // SUBSCRIBE was sent
}

// dialer gives rueidis checked connections, whose replies have at most longest bytes.
func dialer(longest int64) func(context.Context, string, *net.Dialer, *tls.Config) (
	net.Conn, error) {
	return func(ctx context.Context, address string, d *net.Dialer, t *tls.Config) (
		net.Conn, error) {
		var made net.Conn
		var err error
		if t != nil {
			made, err = (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", address)
		} else {
			made, err = d.DialContext(ctx, "tcp", address)
		}
		if err != nil {
			return nil, err
		}
		return newConn(made, longest), nil
	}
}

func newConn(made net.Conn, longest int64) *conn {
	c := &conn{Conn: made}
	c.in = wire{longest: longest, message: c.received}
	c.out = wire{longest: math.MaxInt64, message: c.sending}
	return c
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	passed, bad := c.in.pass(p[:n])
	if bad != nil {
		c.Conn.Close()
		return passed, fmt.Errorf("the connection to Redis at %s is given up: %w", c.RemoteAddr(),
			bad)
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if _, err := c.out.pass(p); err != nil {
		return 0, fmt.Errorf("a command to Redis cannot be sent: %w", err) // a defect of ours
	}
	return c.Conn.Write(p)
}

// sending notes a command that is about to be sent.
func (c *conn) sending(m *message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	subscribes := m.words[0].is("SUBSCRIBE")
	c.waiting = append(c.waiting, subscribes)
	c.listens = c.listens || subscribes
	if m.words[0].is("HELLO") && !c.hello {
		c.hello, c.old = true, m.words[1].is("2")
	}
	return nil
}

var errUnasked = errors.New("it sent a reply that nothing was asked for")

// published are what messages of a subscription begin with. Ours is by SUBSCRIBE, and lasts as long
// as its connection.
var published = []string{"message", "pmessage", "smessage", "subscribe", "psubscribe", "ssubscribe",
	"unsubscribe", "punsubscribe", "sunsubscribe"}

// received decides about a message that has come.
func (c *conn) received(m *message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := &m.words[0]
	if m.kind == '>' || c.old && m.kind == '*' && slices.ContainsFunc(published, first.is) {
		return c.pushed(first)
	}
	if len(c.waiting) == 0 {
		return errUnasked
	}
	if c.waiting[0] && (m.kind != '-' || first.is("QUEUED")) {
		return errors.New("it sent a reply in the place of a subscription")
	}
	if (m.kind == '-' || m.kind == '!') && first.goesAstray() {
		return errors.New("it sent MOVED or ASK without a slot and an address")
	}
	c.waiting = c.waiting[1:]
	return nil
}

// pushed decides about a message of a subscription. c.mu is held.
func (c *conn) pushed(first *word) error {
	switch {
	case c.listens && first.is("message"):
		return nil
	case len(c.waiting) > 0 && c.waiting[0] && first.is("subscribe"):
		c.waiting = c.waiting[1:]
		return nil
	}
	return errors.New("it pushed a message that nothing is subscribed to")
}
