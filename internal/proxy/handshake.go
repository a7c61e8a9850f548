package proxy

import (
	"crypto/tls"
	"errors"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
)

// awaitHandshake waits for the first bytes of a TLS client. Until they come the connection does not
// count among the handshakes in flight. Otherwise some hundred connections that send nothing would
// keep out all new clients.
func (c *clientConn) awaitHandshake() {
	c.state = clientHandshake
	c.tls = tlsio.NewServer(&c.conn, c.listener.TLS, c.w.tls)
	c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.Handshake)
}

// startHandshake starts a goroutine that does the TLS handshake, which takes processor time and may
// wait for certificates. Until the handshake is done only the goroutine reads and writes the
// socket, the loop only wakes it, and the descriptor stays open.
func (c *clientConn) startHandshake() {
	if c.shaking {
		c.tls.Wake()
		return
	}
	c.shaking = true
	c.conn.Lend()
	c.tls.Behind(c.listener.Limiter)
	session, loop := c.tls, c.w.loop
	c.w.handshakes++
	started := c.listener.Limiter.Go(func() {
		err := session.Handshake()
		loop.Post(func() { c.w.handshakes--; c.handshaken(err) })
	})
	if !started {
		c.w.handshakes--
		c.endHandshake(HandshakeRefused)
	}
}

// abortHandshake makes the goroutine give up; handshaken then closes the connection.
func (c *clientConn) abortHandshake() {
	switch {
	case c.shaking:
		c.tls.Abort()
		c.conn.Shutdown()
	case c.late:
		c.endHandshake(HandshakeTimeout)
	default:
		c.endHandshake(HandshakeFailed)
	}
}

// endHandshake closes a connection that no goroutine uses.
func (c *clientConn) endHandshake(why int) {
	c.w.shard.HandshakeFailures[why]++
	c.conn.Close()
	c.release()
}

// handshaken takes the connection back from the goroutine.
func (c *clientConn) handshaken(err error) {
	if err != nil {
		why := HandshakeFailed
		if c.late {
			why = HandshakeTimeout
		}
		c.w.shard.HandshakeFailures[why]++
		if spokeHTTP(err) {
			c.answerPlainly()
			return
		}
		c.conn.Close()
		c.release()
		return
	}
	state := c.tls.State()
	c.tlsInfo = &exchange.TLS{Version: state.Version, ServerName: state.ServerName,
		Subject: state.Subject, Resumed: state.Resumed}
	c.w.countHandshake(state)
	c.state = clientHead
	c.await()
	c.conn.TakeOver()
	// We send nothing after the client's last message, and its first request may wait for an
	// acknowledgement.
	c.conn.Acknowledge()
	if state.ALPN == "h2" {
		c.startHTTP2()
		return
	}
	c.Readable()
}

// spokeHTTP reports whether a handshake failed because the client sent an HTTP request without TLS.
// It goes by the first bytes that the client sent.
func spokeHTTP(err error) bool {
	record, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok {
		return false
	}
	switch string(record.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}

var plainAnswer = []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; " +
	"charset=utf-8\r\nContent-Length: 60\r\nConnection: close\r\n\r\n" +
	"400 Bad Request: this port speaks TLS; use https:// instead\n")

// answerPlainly tells a client without TLS, which could not read an alert, what it did wrong.
func (c *clientConn) answerPlainly() {
	c.tls.Release()
	c.tls = nil
	if c.conn.Write(plainAnswer) != nil {
		c.close()
		return
	}
	c.conn.TakeOver()
	c.lingerClose()
}

// Indexes of telemetry's counters of handshakes that failed.
const (
	HandshakeFailed = iota
	HandshakeTimeout
	HandshakeRefused // by the bound on handshakes in flight
)

// HandshakeFailures are their labels.
var HandshakeFailures = []string{HandshakeFailed: "failed", HandshakeTimeout: "timeout",
	HandshakeRefused: "refused"}

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

// pause reports whether an error of a read means only that there is nothing to read now.
func pause(err error) bool { return err == reactor.ErrAgain }
