// Package tlsio drives crypto/tls, unmodified, from an event loop: connections of both sides, the
// bound on handshakes, certificates by name that follow their files, ticket keys, and the making of
// *tls.Config from plain options.
//
// It reaches the network through Socket alone. It must not know of epoll, of HTTP, of the gateway's
// configuration, or of what a connection is for. Its callers own the timeouts.
package tlsio

import (
	"net"
	"syscall"
)

// Socket is a non-blocking stream socket that a loop owns.
//
// Where a method has nothing to read, or no room to write, it returns an error whose own type is a
// net.Error with Temporary() true (a wrapped one does not count, because crypto/tls does not
// unwrap). Among bare syscall.Errno values only EAGAIN means that: ETIMEDOUT calls itself temporary
// too, but it is how a dead connection ends. All other errors are final.
type Socket interface {
	// Read takes what has arrived: n > 0 with a nil error, or 0 with the temporary error, io.EOF at
	// the peer's end, or a final error. It makes no system call when it knows that the socket is
	// drained. Loop only.
	Read(p []byte) (n int, err error)
	// Write sends p whole, now or later: what the kernel does not take is copied and queued. It
	// keeps no reference to p and never blocks. Loop only.
	Write(p []byte) error
	// RawRead is one non-blocking receive. Any goroutine, during the handshake only.
	RawRead(p []byte) (int, error)
	// RawWrite is one non-blocking send, which may take less than all of p. Any goroutine, during
	// the handshake only.
	RawWrite(p []byte) (int, error)
}

// again says whether err means "nothing now, ask later", in the sense that Socket documents.
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
