// Package tlsio drives an unmodified crypto/tls from an event loop. It provides client and server
// connections, a bound on handshakes, certificates by name that are reloaded when their files
// change, ticket keys, and *tls.Config from plain options.
//
// It uses the network only through Socket. It must not know of epoll, of HTTP, of the gateway's
// configuration, or of what a connection is for. Its callers own the timeouts.
package tlsio

import (
	"net"
	"syscall"
)

// Socket is a non-blocking stream socket that a loop owns.
//
// If a method has nothing to read, or no room to write, it returns an error whose own type is a
// net.Error with Temporary() true (a wrapped one does not count, because crypto/tls does not
// unwrap). Among bare syscall.Errno values only EAGAIN means that: ETIMEDOUT calls itself temporary
// too, but it is how a dead connection ends. All other errors are final.
type Socket interface {
	// Read reads what has arrived. It returns n > 0 with a nil error, or 0 with the temporary
	// error, io.EOF at the peer's end, or a final error. It makes no system call if it knows that
	// the socket is drained. Loop only.
	Read(p []byte) (n int, err error)
	// Write sends all of p, now or later: what the kernel does not take is copied and queued. It
	// keeps no reference to p and never blocks. Loop only.
	Write(p []byte) error
	// RawRead does one non-blocking receive. Any goroutine may call it, but only during the
	// handshake.
	RawRead(p []byte) (int, error)
	// RawWrite does one non-blocking send, which may take only a part of p. Any goroutine may call
	// it, but only during the handshake.
	RawWrite(p []byte) (int, error)
}

// again reports whether err is the temporary error that Socket documents: nothing now, try later.
func again(err error) bool {
	if errno, ok := err.(syscall.Errno); ok {
		return errno == syscall.EAGAIN
	}
	e, ok := err.(net.Error)
	//lint:ignore SA1019 that is the method by which Socket's errors say it
	return ok && e.Temporary()
}

// finalError keeps crypto/tls from taking a final error for a temporary one: whatever it wraps, it
// is not a net.Error.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }
