package reactor

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"plimsoll/internal/invariant"
)

// Handler is the owner of a Conn. Its methods run on the loop, and may close the Conn.
type Handler interface {
	// Connected reports that a Dial has succeeded (err is nil), or why it failed.
	Connected(err error)
	// Readable reports that there may be bytes, the end or an error to Read. It is called once for
	// each change: an owner that stops reading before ErrAgain must resume by itself.
	Readable()
	// Drained reports that Queued has fallen to the low mark after the Conn was Congested, and that
	// the socket has room again.
	Drained()
}

// The marks of write queues, in bytes. Above the high mark the owner must stop producing until
// Drained is called. The high mark of each queue is HighWater while all queues of the loop together
// hold less than LoopQueue, and TightWater from there on. If owners write at most Loop.Piece bytes
// at a time, a loop's queues hold at most LoopQueue and one queue of HighWater, plus, for each
// further slow reader, TightWater and one piece of that size.
const (
	HighWater  = 256 << 10
	LowWater   = 32 << 10
	TightWater = 16 << 10
	LoopQueue  = 16 << 20

	// mostQueued is the most that an owner queues if it stops when congested: HighWater, one more
	// piece and that piece's head.
	mostQueued = HighWater + ScratchSize + 16<<10
)

// sharedBuffer is the least size of a buffer that small messages share. With 512 bytes each, a
// queue of pipelined answers took 256 system calls to send.
const sharedBuffer = 4 << 10

// UnsentLimit is how many unsent bytes of a TCP connection the kernel holds, beyond what is on its
// way. Without a limit it holds up to 4 MB for a slow reader (net.ipv4.tcp_wmem).
const UnsentLimit = 128 << 10

// ErrAgain says that there is nothing to read now. It is a net.Error that is Temporary, which
// crypto/tls treats as a pause.
var ErrAgain error = again{}

type again struct{}

func (again) Error() string   { return "nothing to read now" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// ErrClosed is the error of a Conn that was closed by its owner.
var ErrClosed = errors.New("connection is closed")

// Conn is a non-blocking stream socket that lives on one loop, embedded in its owner. It owns
// buffers only for bytes that the kernel has not taken.
type Conn struct {
	loop    *Loop
	handler Handler
	first   *Buffer // first buffer of the bytes that wait to be sent, oldest first
	last    *Buffer
	queued  int
	written int64 // bytes given to Write, less those that CutWrite has dropped
	sent    int64 // Clock when bytes last went into the socket
	fd      int32 // -1 when closed
	slot    uint32
	place   *place // not nil while Dial waits for room in a unix socket's accept queue
	flags   connFlags
	failed  uint16 // errno of the error that sending met; 0 for none
}

type connFlags uint16

const (
	connecting connFlags = 1 << iota // Dial's outcome is not known yet
	mayRead                          // there may be something to read
	ended                            // the peer sends no more; bytes may still be unread
	// the queue was above its high mark, or the socket took no more of a file
	tellDrained
	shutWhenSent // CloseWrite waits for the queue
	endSent      // the write side of the socket is shut down
	accepted     // counted among the loop's clients
	lent         // Lend: another goroutine reads and writes, and is told of every change
	batched      // Batch: what is written goes out with the loop's batch
	corked       // Cork: what is written is gathered until Push
)

// attach puts c on loop l. c owns fd from now on; attach closes it on failure.
func (c *Conn) attach(l *Loop, fd int, h Handler, flags connFlags) error {
	c.loop, c.handler, c.fd, c.flags, c.failed = l, h, int32(fd), flags, 0
	slot, err := l.register(fd, c, edge)
	if err != nil {
		closeSocket(fd)
		c.fd = -1
		if flags&accepted != 0 {
			l.conns.Add(-1)
		}
		return err
	}
	c.slot = slot
	return nil
}

// Attach makes c the connection of a socket from Accepted or Detach. It closes s on failure.
func (c *Conn) Attach(l *Loop, s Socket, h Handler) error {
	flags := connFlags(0)
	if s.home != nil {
		flags = accepted
		if s.home != l {
			s.home.conns.Add(-1)
			l.conns.Add(1)
		}
	}
	return c.attach(l, s.FD, h, flags)
}

// Detach takes the connection off its loop, so that another can Attach it. Nothing may be queued.
func (c *Conn) Detach() Socket {
	if invariant.On && (c.queued > 0 || c.flags&(batched|corked) != 0 || !c.Open()) {
		panic("reactor: a connection that is closed or has queued bytes cannot be moved")
	}
	c.loop.poll.remove(int(c.fd))
	c.loop.forget(c.slot)
	s := Socket{FD: int(c.fd)}
	if c.flags&accepted != 0 {
		s.home = c.loop
	}
	c.fd, c.handler = -1, nil
	return s
}

// Dial begins to connect. The outcome comes to h.Connected in a later turn, unless Dial itself
// fails. What is written before then is queued. Dial has no timeout: the owner gives up with Close.
// Like TCP, a unix socket whose accept queue is full is tried until there is room.
func (c *Conn) Dial(l *Loop, to Address, h Handler) error {
	fd, err := newSocket(to)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if l.waiting[to.Path] != nil { // connections that wait already go first
		l.queueFor(to, c, fd, h)
		return nil
	}
	err = connect(fd, to)
	if noRoom(to, err) {
		l.queueFor(to, c, fd, h)
		return nil
	}
	if err != nil {
		closeSocket(fd)
		return fmt.Errorf("connect: %w", err)
	}
	return c.attach(l, fd, h, connecting)
}

// OutOfResources reports whether an error of Dial means that this machine lacks descriptors, ports
// or memory. Such an error says nothing about the address that was dialled.
func OutOfResources(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS,
		syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// Loop is the loop that owns the connection.
func (c *Conn) Loop() *Loop { return c.loop }

// Open reports whether the connection has a socket.
func (c *Conn) Open() bool { return c.loop != nil && c.fd >= 0 }

// FD is the socket's descriptor, for reading its options; -1 when closed.
func (c *Conn) FD() int { return int(c.fd) }

// PeerEnded reports whether the peer will send no more, as far as the loop knows. Bytes that it
// sent before may still be unread.
func (c *Conn) PeerEnded() bool { return c.flags&ended != 0 }

// MayRead reports whether a Read could find something without a further event.
func (c *Conn) MayRead() bool { return c.flags&mayRead != 0 }

// Alive reports whether the peer has neither closed the connection nor sent unread bytes. It makes
// one system call.
func (c *Conn) Alive() bool {
	_, errno := peek(int(c.fd))
	return errno == syscall.EAGAIN
}

func (c *Conn) ready(ev readiness) {
	l, slot := c.loop, c.slot
	generation := l.slots[slot].generation
	tell := c.flags&lent != 0
	if ev&(readable|peerEnded|broken) != 0 {
		tell = true
		c.flags |= mayRead
		if ev&(peerEnded|broken) != 0 {
			c.flags |= ended
		}
	}
	if c.flags&connecting != 0 {
		if ev&(writable|broken) == 0 {
			return
		}
		c.flags &^= connecting
		err := socketError(int(c.fd))
		c.handler.Connected(err)
		if err != nil || l.slots[slot].generation != generation {
			return
		}
	}
	waits := c.queued > 0 || c.flags&(shutWhenSent|tellDrained) != 0
	if ev&writable != 0 && waits && c.flags&(batched|corked) == 0 {
		sent, open := c.drain()
		if !open {
			return
		}
		tell = tell || !sent
	}
	if tell {
		c.handler.Readable()
	}
}

// drain sends what is queued and calls Drained if the queue has become short enough. sent reports
// whether sending met no error, open whether the connection is still on the same slot after the
// call to the handler.
func (c *Conn) drain() (sent, open bool) {
	l, slot := c.loop, c.slot
	generation := l.slots[slot].generation
	sent = c.flush()
	if c.flags&tellDrained != 0 && c.queued <= min(LowWater, l.highWater()/2) {
		c.flags &^= tellDrained
		c.handler.Drained()
	}
	return sent, l.slots[slot].generation == generation
}

// Read reads available bytes into p, which must not be empty. It returns ErrAgain when there is
// nothing to read now, and io.EOF at the peer's orderly end. Any other error is final.
//
// A read that does not fill p has emptied the socket: the next Read says ErrAgain without asking
// the kernel, and the next byte brings a new event. This does not hold once the peer has ended,
// because the end brings no second event.
func (c *Conn) Read(p []byte) (int, error) {
	if c.flags&mayRead == 0 {
		if !c.Open() {
			return 0, ErrClosed
		}
		return 0, ErrAgain
	}
	for {
		n, errno := recv(int(c.fd), p)
		switch {
		case errno == 0 && n > 0:
			if n < len(p) && c.flags&ended == 0 {
				c.flags &^= mayRead
			}
			return n, nil
		case errno == 0:
			// EPIPE means that the peer accepts no more bytes. What it sent can still have ended in
			// order.
			if c.failed != 0 && syscall.Errno(c.failed) != syscall.EPIPE {
				return 0, syscall.Errno(c.failed)
			}
			return 0, io.EOF
		case errno == syscall.EAGAIN:
			if c.failed != 0 {
				return 0, syscall.Errno(c.failed)
			}
			c.flags &^= mayRead
			return 0, ErrAgain
		case errno != syscall.EINTR:
			return 0, errno
		}
	}
}

// Write sends p, and queues a copy of what the kernel does not take. It never blocks. An error is
// final: the owner must then close the connection.
func (c *Conn) Write(p []byte) error {
	if !c.Open() {
		return ErrClosed
	}
	if c.flags&corked != 0 && c.full(len(p)) && !c.flush() {
		return syscall.Errno(c.failed)
	}
	return c.write(p, false)
}

// write is Write on an open connection. more says that more bytes follow at once and should go out
// in the same segments (SendFile).
func (c *Conn) write(p []byte, more bool) error {
	c.written += int64(len(p))
	if c.queued == 0 && c.flags&(connecting|batched|corked) == 0 {
		began := Clock()
		for len(p) > 0 {
			var n int
			var errno syscall.Errno
			if more {
				n, errno = sysSendMore(int(c.fd), p)
			} else {
				n, errno = send(int(c.fd), p)
			}
			if errno == 0 {
				p = p[n:]
				continue
			}
			if errno == syscall.EAGAIN {
				break
			}
			if errno != syscall.EINTR {
				c.fail(errno)
				return errno
			}
		}
		c.sent = began
	}
	if len(p) > 0 {
		c.enqueue(p)
	}
	return nil
}

// Batch delays what is written from now on, to send it together with what other connections write:
// before the loop waits, and after a few dozen events at most. It is for small messages. Sending
// them one after the other, with no code of ours in between, keeps the kernel's code and data in
// the CPU's caches and wakes a peer once for many messages. Measured with 64 and 512 connections: 3
// % and 12 % of a proxied request's CPU. Errors are reported through Readable.
func (c *Conn) Batch() {
	if c.queued == 0 && c.Open() && c.flags&(connecting|batched|corked) == 0 {
		c.flags |= batched
		c.loop.batch = append(c.loop.batch, c)
	}
}

// Batched reports whether what was written since Batch is all still unsent.
func (c *Conn) Batched() bool { return c.flags&batched != 0 }

// Acknowledge sends the TCP acknowledgement of received bytes at once. The kernel would wait up to
// 40 ms for data to send along, and a peer that gathers small writes (Nagle's algorithm) waits for
// that before it sends on.
func (c *Conn) Acknowledge() { acknowledge(int(c.fd)) }

// Sent is Clock from just before bytes last went into the socket. A time from just after would be
// too late: the kernel may let a peer on the same machine run and answer before the sending call
// returns, and the answer would seem to have taken no time.
func (c *Conn) Sent() int64 { return c.sent }

// Failed reports whether sending has met an error. Read returns that error once it has read what
// arrived before.
func (c *Conn) Failed() bool { return c.failed != 0 }

// enqueue appends a copy of p to the queue. A message that waits alone has a buffer of its own
// size. Further messages share larger buffers, because sending each buffer takes a system call.
func (c *Conn) enqueue(p []byte) {
	c.queued += len(p)
	c.loop.queued += len(p)
	if c.flags&corked == 0 && c.queued > c.loop.highWater() {
		c.flags |= tellDrained
	}
	if invariant.Sequential && c.queued > mostQueued {
		panic(fmt.Sprintf("reactor: %d bytes are queued for one peer, who is congested at %d",
			c.queued, HighWater))
	}
	for len(p) > 0 {
		if c.last == nil || len(c.last.Room()) == 0 {
			size := min(len(p), Sizes[len(Sizes)-1])
			switch {
			case c.flags&corked != 0:
				size = ScratchSize
			case c.last != nil:
				size = max(size, sharedBuffer)
			}
			b := c.loop.GetBuffer(size)
			if c.last == nil {
				c.first = b
			} else {
				c.last.next = b
			}
			c.last = b
		}
		n := copy(c.last.Room(), p)
		c.last.End += n
		p = p[n:]
	}
}

// fail records that sending met an error, for Read to return once it has read what arrived before.
// The kernel reports each error only once, to the first call that meets it: after send has failed
// with a reset, recv reports an orderly end, and a truncated body would pass for a complete one.
func (c *Conn) fail(errno syscall.Errno) {
	if c.failed == 0 {
		c.failed = uint16(errno)
	}
	c.flags |= mayRead | ended
}

// flush sends queued bytes until the kernel takes no more. It reports whether sending is still
// possible; if not, Read returns the error.
func (c *Conn) flush() bool {
	began, had := Clock(), c.queued > 0
	for b := c.first; b != nil; b = c.first {
		n, errno := send(int(c.fd), b.Data())
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			if errno != syscall.EAGAIN {
				c.dropQueue()
				c.fail(errno)
				return false
			}
			c.uncork()
			return true
		}
		b.Start += n
		c.queued -= n
		c.loop.queued -= n
		if b.Start < b.End {
			continue
		}
		c.first = b.next
		if c.first == nil {
			c.last = nil
		}
		b.next = nil
		c.loop.PutBuffer(b)
	}
	if had {
		c.sent = began
	}
	if c.flags&shutWhenSent != 0 {
		c.flags &^= shutWhenSent
		c.sendEnd()
	}
	return true
}

func (c *Conn) sendEnd() {
	c.flags |= endSent
	shutdown(int(c.fd), syscall.SHUT_WR)
}

// Queued is how many bytes wait for the peer to take them. Bytes that wait for the batch or for
// Push do not count.
func (c *Conn) Queued() int {
	if c.flags&(batched|corked) != 0 {
		return 0
	}
	return c.queued
}

// Unsent reports whether any written bytes have not gone into the socket, because they wait for the
// peer, for the batch or for Push.
func (c *Conn) Unsent() bool { return c.queued > 0 }

// Written is how many bytes were given to Write in all, to be compared with Acked.
func (c *Conn) Written() int64 { return c.written }

// Acked is how many of the Written bytes the peer has acknowledged. It makes a system call, so call
// it only when a timer fires. Only Acked tells a slow peer from one that does not read: the kernel
// takes bytes in advance. On a unix socket, where the kernel counts its own overhead too, Acked is
// too low until the peer has taken everything.
func (c *Conn) Acked() int64 {
	if !c.Open() {
		return c.written
	}
	n := unacknowledged(int(c.fd))
	if n > 0 && c.flags&endSent != 0 { // the FIN counts as a byte (RFC 9293, section 3.4)
		n--
	}
	return c.written - int64(c.queued) - int64(n)
}

// Congested reports whether the queue has exceeded its high mark, or the socket took only part of
// what SendFile or SendStored was given. Drained will be called.
func (c *Conn) Congested() bool { return c.flags&tellDrained != 0 }

// CloseWrite ends sending, once everything queued is sent. Reading goes on.
func (c *Conn) CloseWrite() {
	c.Push()
	if c.queued > 0 || c.flags&connecting != 0 {
		c.flags |= shutWhenSent
		return
	}
	c.sendEnd()
}

// CutWrite is like CloseWrite but drops what is queued: the peer gets what the kernel already has,
// then the end.
func (c *Conn) CutWrite() {
	c.written -= int64(c.queued)
	c.dropQueue()
	c.sendEnd()
}

// Close ends the connection at once; what is queued is lost. Bytes that wait for Push are sent
// first. If the socket does not take them all, Close is Reset, because Queued told the owner that
// they were sent. Closing twice does nothing.
func (c *Conn) Close() {
	if !c.Open() {
		return
	}
	if c.flags&corked != 0 {
		if c.Push(); c.queued > 0 {
			resetOnClose(int(c.fd))
		}
	}
	if c.place != nil {
		c.place.leave()
	} else {
		c.loop.forget(c.slot)
	}
	closeSocket(int(c.fd))
	c.fd = -1
	c.flags &^= mayRead
	if c.flags&accepted != 0 {
		c.loop.conns.Add(-1)
	}
	c.dropQueue()
}

// Reset is Close, but the peer sees an error, so that it cannot take a truncated body for complete.
func (c *Conn) Reset() {
	if c.Open() {
		c.dropQueue()
		resetOnClose(int(c.fd))
		c.Close()
	}
}

func (c *Conn) dropQueue() {
	for b := c.first; b != nil; {
		next := b.next
		b.next = nil
		c.loop.PutBuffer(b)
		b = next
	}
	c.loop.queued -= c.queued
	c.first, c.last, c.queued = nil, nil, 0
	c.leaveCorks()
	c.flags &^= tellDrained | shutWhenSent | batched
}

// RawRead does one recv, for the goroutine that does a TLS handshake on a lent socket.
func (c *Conn) RawRead(p []byte) (int, error) {
	for {
		n, errno := recv(int(c.fd), p)
		switch {
		case errno == 0 && n > 0:
			return n, nil
		case errno == 0:
			return 0, io.EOF
		case errno == syscall.EAGAIN:
			return 0, ErrAgain
		case errno != syscall.EINTR:
			return 0, errno
		}
	}
}

// RawWrite does one send, for the goroutine that does a TLS handshake on a lent socket. It may
// write only a part of p.
func (c *Conn) RawWrite(p []byte) (int, error) {
	for {
		n, errno := send(int(c.fd), p)
		switch {
		case errno == 0:
			return n, nil
		case errno == syscall.EAGAIN:
			return 0, ErrAgain
		case errno != syscall.EINTR:
			return 0, errno
		}
	}
}

// Shutdown ends both directions but keeps the descriptor, whose number cannot be reused meanwhile.
// A goroutine that waits on the socket is woken.
func (c *Conn) Shutdown() { shutdown(int(c.fd), syscall.SHUT_RDWR) }

// Lend leaves the socket to a goroutine that uses RawRead and RawWrite. Until TakeOver, Readable is
// called for every change, including room to write.
func (c *Conn) Lend() { c.flags |= lent }

// TakeOver ends Lend. It assumes that there is something to read, because the goroutine has used up
// the events.
func (c *Conn) TakeOver() { c.flags = c.flags&^lent | mayRead }
