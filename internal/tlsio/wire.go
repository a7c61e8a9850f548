package tlsio

import (
	"errors"
	"io"
	"net"
	"time"
)

// wire is a Conn as crypto/tls sees it from below: the net.Conn that it reads records from and
// writes records to. It is the same memory under another method set, so that a connection pays for
// no second object.
//
// During the handshake it blocks its goroutine; afterwards it never does.
type wire Conn

// errEmpty tells crypto/tls that there are no more bytes, now. It is never seen outside.
var errEmpty net.Error = emptyError{}

type emptyError struct{}

func (emptyError) Error() string   { return "tlsio: no bytes at hand" }
func (emptyError) Timeout() bool   { return true }
func (emptyError) Temporary() bool { return true }

// Read gives crypto/tls the bytes that arrived.
func (w *wire) Read(p []byte) (int, error) {
	if !w.established {
		return w.await(w.sock.RawRead, p)
	}
	if w.lends {
		// Conn.Read has lent every byte there is before it called crypto/tls.
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

// Write takes one record, or a flight of them during the handshake.
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

// await repeats op until it is done, fails for good, or the handshake is aborted. Between two
// attempts it sleeps until the loop says that the socket has become readable or writable. The
// signal has room for one, so an event that comes between the attempt and the sleep is not lost.
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

// sleep waits for the loop's signal, without a place at the limiter where there is one.
func (w *wire) sleep() {
	if w.limiter != nil && w.limiter.stepAside() {
		defer w.limiter.stepBack()
	}
	<-w.wake
}

// Close does nothing: the socket is the owner's.
func (w *wire) Close() error { return nil }

func (w *wire) LocalAddr() net.Addr  { return noAddr{} }
func (w *wire) RemoteAddr() net.Addr { return noAddr{} }

// Deadlines are the owner's business too; crypto/tls sets one before it sends close_notify.

func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

type noAddr struct{}

func (noAddr) Network() string { return "tlsio" }
func (noAddr) String() string  { return "" }
