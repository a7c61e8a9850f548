package tlsio

import (
	"errors"
	"io"
	"net"
	"time"
)

// wire is a Conn in its role as the net.Conn from which crypto/tls reads records and to which it
// writes them. It is the same memory with a different method set, so that a connection needs no
// second object.
//
// During the handshake its methods block the calling goroutine; afterwards they never do.
type wire Conn

// errEmpty tells crypto/tls that there are no more bytes at the moment. It never leaves this
// package.
var errEmpty net.Error = emptyError{}

type emptyError struct{}

func (emptyError) Error() string   { return "tlsio: no bytes at hand" }
func (emptyError) Timeout() bool   { return true }
func (emptyError) Temporary() bool { return true }

// Read gives crypto/tls the bytes that have arrived.
func (w *wire) Read(p []byte) (int, error) {
	if !w.established {
		return w.await(w.sock.RawRead, p)
	}
	if w.lends {
		// Conn.Read has lent all available bytes before it called crypto/tls.
		return 0, errEmpty
	}
	n, err := w.sock.Read(p)
	if err == nil || again(err) {
		return n, err
	}
	w.ended = errors.Is(err, io.EOF)
	if w.ended {
		return n, io.EOF
	}
	return n, finalError{err}
}

// Write takes one record or, during the handshake, a flight of records.
func (w *wire) Write(p []byte) (int, error) {
	if !w.established {
		return w.writeWaiting(p)
	}
	if w.corked {
		w.loop.gather(p)
		return len(p), nil
	}
	if w.reading && !(*Conn)(w).mayAnswer() {
		w.flooded = true
		return 0, ErrKeyUpdates
	}
	if err := w.sock.Write(p); err != nil {
		return 0, finalError{err}
	}
	return len(p), nil
}

func (w *wire) writeWaiting(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := w.await(w.sock.RawWrite, p[sent:])
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// await repeats op until it succeeds, fails for good, or the handshake is aborted. Between two
// attempts it sleeps until the loop signals that the socket has become readable or writable. The
// signal's channel has a buffer of one, so an event between the attempt and the sleep is not lost.
func (w *wire) await(op func([]byte) (int, error), p []byte) (int, error) {
	for {
		if w.aborted.Load() {
			return 0, ErrAborted
		}
		n, err := op(p)
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return n, err
		case !again(err):
			return n, finalError{err}
		}
		w.sleep()
	}
}

// sleep waits for the loop's signal. If there is a limiter, it gives up its place there meanwhile.
func (w *wire) sleep() {
	if w.limiter != nil && w.limiter.stepAside() {
		defer w.limiter.stepBack()
	}
	<-w.wake
}

// Close does nothing: the owner closes the socket.
func (w *wire) Close() error { return nil }

func (w *wire) LocalAddr() net.Addr  { return noAddr{} }
func (w *wire) RemoteAddr() net.Addr { return noAddr{} }

// The owner also enforces deadlines; crypto/tls sets one before it sends close_notify.

func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

type noAddr struct{}

func (noAddr) Network() string { return "tlsio" }
func (noAddr) String() string  { return "" }
