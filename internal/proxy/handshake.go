package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
)

// beginHandshake has a goroutine do the TLS handshake: it is CPU work, and may wait for certificates. Until it is done the
// goroutine alone reads and writes the socket, and the loop only wakes it; the descriptor stays open for as long.
func (c *client) beginHandshake() {
	c.state = clientHandshake
	c.tls = tlsio.NewServer(&c.conn, c.listener.TLS, c.w.tls)
	c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.Handshake)
	session, loop := c.tls, c.w.loop
	started := c.listener.Gate.Go(func() {
		err := session.Handshake()
		loop.Post(func() { c.handshaken(err) })
	})
	if !started {
		c.w.shard.HandshakeFailures[HandshakeRefused]++
		c.conn.Close()
		c.release()
	}
}

// abortHandshake makes the goroutine give up; handshaken then closes the connection.
func (c *client) abortHandshake() {
	c.tls.Abort()
	c.conn.Shutdown()
}

// handshaken takes the connection back from the goroutine.
func (c *client) handshaken(err error) {
	if err != nil {
		why := HandshakeFailed
		if c.late {
			why = HandshakeTimeout
		}
		c.w.shard.HandshakeFailures[why]++
		c.conn.Close()
		c.release()
		return
	}
	state := c.tls.State()
	c.tlsInfo = &exchange.TLS{Version: state.Version, ServerName: state.ServerName, Subject: state.Subject, Resumed: state.Resumed}
	c.w.countHandshake(state)
	c.state = clientHead
	c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.IdleTimeout)
	c.conn.TakeOver()
	c.readHead()
}

// Indexes of telemetry's counters of handshakes that came to nothing.
const (
	HandshakeFailed = iota
	HandshakeTimeout
	HandshakeRefused // by the bound on handshakes in flight
)

// HandshakeFailures are their labels.
var HandshakeFailures = []string{HandshakeFailed: "failed", HandshakeTimeout: "timeout", HandshakeRefused: "refused"}

func (w *Worker) countHandshake(s *tlsio.State) {
	version, resumed := telemetry.TLS13, 0
	if s.Version == "1.2" {
		version = telemetry.TLS12
	}
	if s.Resumed {
		resumed = 1
	}
	w.shard.Handshakes[version][resumed]++
}

// pause says that an error of a read means only that there is nothing now.
func pause(err error) bool { return err == reactor.ErrAgain }
