package tlsio

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Errors of a Conn.
var (
	// ErrAborted is what Handshake returns after Abort.
	ErrAborted = errors.New("tlsio: handshake aborted by its owner")
	// ErrKeyUpdates ends a connection whose peer requests far more key updates than it needs, which
	// would make us derive keys and queue records without end.
	ErrKeyUpdates = errors.New("tlsio: the peer asked for too many key updates")
)

// answersAllowed bounds the records that a peer can make us send by messages without data (RFC
// 8446, section 4.6.3): answersAllowed, and one more for every answerEvery bytes of plaintext that
// it sends. Honest peers stay far below both: they change keys after gigabytes.
const (
	answersAllowed = 32
	answerEvery    = 1 << 20
)

// Conn is one TLS connection, of either side, over a Socket.
//
// Its life: the loop makes it. Handshake runs on a goroutine, while the loop passes on readiness
// through Wake and may call Abort. Once Handshake has returned, and the loop has learnt of it in a
// synchronised way (through its wake-up queue), all other methods may be called, and only on the
// loop. The descriptor must stay open until Handshake has returned. Readiness events during the
// handshake do not show what has been consumed, so after the handshake the loop must call Read once
// without waiting for an event.
//
// An established connection that waits for its peer's next message holds no receive buffer.
type Conn struct {
	sock  Socket
	inner *tls.Conn
	loop  *Loop

	// lease is the receive buffer that holds inner's input; nil when inner holds nothing.
	lease []byte
	err   error // the error that every further Read returns

	received int64  // plaintext bytes received
	answers  uint32 // records sent from within Read

	lends       bool // inner's buffers can be lent (package variable inside)
	established bool
	corked      bool // the records of one Write are being gathered
	reading     bool // inner.Read is on the stack
	flooded     bool
	ended       bool // the socket is at its end
	dry         bool // without lending: the last Read found nothing

	aborted atomic.Bool
	wake    chan struct{}
	limiter *HandshakeLimiter // that runs Handshake; nil for none, and after the handshake

	state State
}

// State describes an established connection. It does not change.
type State struct {
	Version    string // "1.2" or "1.3"
	ServerName string // the name asked for (SNI), as the client wrote it; "" if none
	ALPN       string // the negotiated protocol, "" if none
	Resumed    bool   // a session ticket replaced the full handshake
	// The distinguished name of the peer's certificate (RFC 2253), "" if it showed none.
	Subject string
}

// NewServer makes the server's side of a connection over s. cfg comes from ServerConfig and is
// shared. Loop only.
func NewServer(s Socket, cfg *tls.Config, l *Loop) *Conn {
	c := newConn(s, l)
	c.inner = tls.Server((*wire)(c), cfg)
	return c
}

// NewClient makes the client's side of a connection over s. cfg comes from ClientConfig and is
// shared. Loop only.
func NewClient(s Socket, cfg *tls.Config, l *Loop) *Conn {
	c := newConn(s, l)
	c.inner = tls.Client((*wire)(c), cfg)
	return c
}

func newConn(s Socket, l *Loop) *Conn {
	return &Conn{sock: s, loop: l, lends: inside.known, wake: make(chan struct{}, 1)}
}

// Behind says that l.Go will run Handshake, so that it must step aside while it waits for its peer.
// Call it on the loop, before l.Go.
func (c *Conn) Behind(l *HandshakeLimiter) { c.limiter = l }

// Handshake runs the handshake to its end and blocks its goroutine meanwhile. It returns nil once
// the connection is established, ErrAborted after Abort, and otherwise the reason for the failure,
// of which the peer has been told by an alert if possible. It has no timeout: the owner enforces
// one through Abort. Call it once.
func (c *Conn) Handshake() error {
	if c.aborted.Load() {
		return ErrAborted
	}
	if err := c.inner.Handshake(); err != nil {
		// The error of crypto/tls after an abort depends on the progress of the handshake.
		if c.aborted.Load() {
			return ErrAborted
		}
		return outward(err)
	}
	c.limiter = nil
	c.state = StateOf(c.inner.ConnectionState())
	if c.lends {
		c.trim()
	}
	c.established = true
	return nil
}

// trim frees the memory that the handshake has left in inner.
func (c *Conn) trim() {
	if m := inside.messages(c.inner); m.Len() == 0 {
		*m = bytes.Buffer{}
	}
	if raw := inside.raw(c.inner); raw.Len() == 0 {
		*raw = bytes.Buffer{}
	}
}

// Wake tells a waiting Handshake that the socket may be readable or writable. It never blocks,
// costs little if Handshake is not waiting, and may be called at any time from any goroutine.
func (c *Conn) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Abort makes Handshake return soon with ErrAborted. If Handshake is already over, Abort has no
// effect, and the owner must remember that it has given up the connection. Any goroutine may call
// it.
func (c *Conn) Abort() {
	c.aborted.Store(true)
	c.Wake()
}

// State returns the result of the handshake. It is valid after Handshake has returned nil.
func (c *Conn) State() *State { return &c.state }

// Write encrypts p and passes the records to the socket, with one Socket.Write for every 64 KB of
// p. It never blocks and keeps no reference to p. It fails after CloseWrite or a failed Write.
func (c *Conn) Write(p []byte) error {
	if len(p) <= maxPlain {
		// One record: crypto/tls's own buffer is passed directly to the socket.
		_, err := c.inner.Write(p)
		return outward(err)
	}
	for len(p) > 0 {
		n := min(len(p), corkPlain)
		c.loop.cork, c.corked = c.loop.cork[:0], true
		_, err := c.inner.Write(p[:n])
		c.corked = false
		if err != nil {
			return outward(err)
		}
		if err := c.sock.Write(c.loop.cork); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// CloseWrite sends close_notify (RFC 8446, section 6.1): no more will be written, but reading goes
// on. It does not shut down the socket; the owner does that or closes it.
func (c *Conn) CloseWrite() error { return outward(c.inner.CloseWrite()) }

// Release returns the receive buffer to the loop. The owner calls it when it closes the connection;
// afterwards Read always fails. It may be called more than once, but not while Handshake runs.
func (c *Conn) Release() {
	if c.err == nil {
		c.err = io.ErrClosedPipe
	}
	if c.established && c.lends {
		c.forget()
	}
}

// mayAnswer counts a record that is sent from within Read, and reports whether it is within the
// bound.
func (c *Conn) mayAnswer() bool {
	c.answers++
	return int64(c.answers) <= answersAllowed+c.received/answerEvery
}

// outward unwraps errors of the socket that crypto/tls has passed on.
func outward(err error) error {
	if err == nil {
		return nil
	}
	var final finalError
	if errors.As(err, &final) {
		return final.error
	}
	return err
}

// StateOf is the State of a connection whose handshake was done elsewhere.
func StateOf(s tls.ConnectionState) State {
	st := State{Version: versionName(s.Version), ServerName: s.ServerName,
		ALPN: s.NegotiatedProtocol, Resumed: s.DidResume}
	if len(s.PeerCertificates) > 0 {
		st.Subject = s.PeerCertificates[0].Subject.String()
	}
	return st
}

func versionName(v uint16) string {
	switch v {
	case tls.VersionTLS12:
		return "1.2"
	case tls.VersionTLS13:
		return "1.3"
	}
	return fmt.Sprintf("%#04x", v)
}
