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
	// ErrKeyUpdates ends a connection whose peer asks for answers to key updates far beyond need,
	// which would make us derive keys and queue records without end.
	ErrKeyUpdates = errors.New("tlsio: the peer asked for too many key updates")
)

// answersAllowed bounds the records that a peer can make us send by messages that carry no data
// (RFC 8446, section 4.6.3): so many, and one more for every answerEvery bytes of plaintext from
// it. Honest peers stay far below both: they change keys after gigabytes.
const (
	answersAllowed = 32
	answerEvery    = 1 << 20
)

// Conn is one TLS connection, of either side, over a Socket.
//
// Its life: the loop makes it; Handshake runs on a goroutine, while the loop passes on readiness
// through Wake and may Abort; when Handshake has returned, and the loop has learnt of it through a
// synchronised hand-over (its wake-up queue), everything else is called on the loop, and only
// there. The descriptor stays open until Handshake has returned. Readiness that the loop saw during
// the handshake says nothing about what was consumed, so the loop calls Read once after it without
// waiting for an event.
//
// An established connection that waits for its peer's next message holds no receive buffer.
type Conn struct {
	sock  Socket
	inner *tls.Conn
	loop  *Loop

	// lease is the receive buffer that inner's memory lies in, nil when inner holds nothing.
	lease []byte
	err   error // what every further Read returns

	received int64  // plaintext bytes
	answers  uint32 // records sent from within Read

	lends       bool // whether inner's buffers are ours to lend (package variable inside)
	established bool
	corked      bool // the records of one Write are being gathered
	reading     bool // inner.Read is on the stack
	flooded     bool
	ended       bool // the socket is at its end
	dry         bool // without lending: the last Read found nothing

	aborted atomic.Bool
	wake    chan struct{}
	limiter *HandshakeLimiter // that Handshake runs behind; nil for none, and afterwards

	state State
}

// State is what is known of an established connection. It does not change.
type State struct {
	Version    string // "1.2" or "1.3"
	ServerName string // the name asked for (SNI), as the client wrote it; "" if none
	ALPN       string // the protocol agreed on, "" if none
	Resumed    bool   // whether a session ticket saved the full handshake
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

// Behind says that Handshake will be run by l.Go, so that it steps aside while it waits for its
// peer. Loop only, before that.
func (c *Conn) Behind(l *HandshakeLimiter) { c.limiter = l }

// Handshake runs the handshake to its end and blocks its goroutine meanwhile. It returns nil once
// the connection is established, ErrAborted after Abort, and otherwise why it failed; the peer has
// then been told by an alert if possible. It has no time limit of its own: the owner's is enforced
// through Abort. Call it once.
func (c *Conn) Handshake() error {
	if c.aborted.Load() {
		return ErrAborted
	}
	if err := c.inner.Handshake(); err != nil {
		// What crypto/tls makes of an abort depends on where in the handshake it came.
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

// trim drops the memory that the handshake left behind in inner.
func (c *Conn) trim() {
	if m := inside.messages(c.inner); m.Len() == 0 {
		*m = bytes.Buffer{}
	}
	if raw := inside.raw(c.inner); raw.Len() == 0 {
		*raw = bytes.Buffer{}
	}
}

// Wake tells a Handshake that waits that the socket may be readable or writable. It never blocks,
// costs little when nobody waits, and may be called at any time from any goroutine.
func (c *Conn) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Abort makes Handshake return soon with ErrAborted, unless it is already over: then Abort has no
// effect, and the owner must remember its own decision. Any goroutine.
func (c *Conn) Abort() {
	c.aborted.Store(true)
	c.Wake()
}

// State is what the handshake agreed on. Valid after Handshake returned nil.
func (c *Conn) State() *State { return &c.state }

// Write encrypts p and hands its records to the socket: all in one Socket.Write, or one for every
// 64 KB of p. It never blocks and keeps no reference to p. After CloseWrite, or a failed Write, it
// fails.
func (c *Conn) Write(p []byte) error {
	if len(p) <= maxPlain {
		// One record: crypto/tls's own buffer goes straight to the socket.
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

// CloseWrite sends close_notify (RFC 8446, section 6.1): no more will be written, reading goes on.
// It leaves the socket's own half open; the owner shuts it down or closes it.
func (c *Conn) CloseWrite() error { return outward(c.inner.CloseWrite()) }

// Release gives the receive buffer back to the loop. The owner calls it when it closes the
// connection, after which Read only fails. It may be called more than once, but not while Handshake
// runs.
func (c *Conn) Release() {
	if c.err == nil {
		c.err = io.ErrClosedPipe
	}
	if c.established && c.lends {
		c.forget()
	}
}

// mayAnswer counts a record that is sent from within Read and says whether it is within bounds.
func (c *Conn) mayAnswer() bool {
	c.answers++
	return int64(c.answers) <= answersAllowed+c.received/answerEvery
}

// outward takes the wrapper off errors of the socket that crypto/tls passed through.
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

// StateOf is what is known of a connection whose handshake another has done.
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
