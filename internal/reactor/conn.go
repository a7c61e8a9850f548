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
	// Connected tells that a Dial has succeeded, or why it failed.
	Connected(err error)
	// Readable tells that there may be bytes, the end or an error to Read. It is told once for each
	// change: who stops reading before ErrAgain reads on by itself later.
	Readable()
	// Drained tells that Queued has fallen to a low mark after the Conn was Congested, and that the
	// socket has room again.
	Drained()
}

// The marks of write queues, in bytes. Above the high mark the owner stops producing; Drained tells
// when to go on. The high mark of each is HighWater while all queues of the loop together hold less
// than LoopQueue, and TightWater from there on. Who moves at most Loop.Piece bytes at a time holds,
// on a loop, at most LoopQueue and one queue of HighWater, and TightWater and one piece of that
// size for each slow reader beyond.
const (
	HighWater  = 256 << 10
	LowWater   = 32 << 10
	TightWater = 16 << 10
	LoopQueue  = 16 << 20

	// mostQueued is what owners queue in all who stop where they are congested: one piece more, and
	// its head.
	mostQueued = HighWater + ScratchSize + 16<<10
)

// sharedBuffer is the least size of a buffer that small messages share. With 512 bytes each, a
// queue of pipelined answers took 256 system calls to send.
const sharedBuffer = 4 << 10

// UnsentLimit is how many bytes of a TCP connection the kernel holds that it has not sent: 128 KB,
// beyond what is on its way. Without a limit it holds up to 4 MB for a slow reader
// (net.ipv4.tcp_wmem).
const UnsentLimit = 128 << 10

// ErrAgain says that there is nothing to read now. It is a net.Error that is Temporary, which
// crypto/tls takes for a pause.
var ErrAgain error = again{}

type again struct{}

func (again) Error() string   { return "nothing to read now" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// ErrClosed is the error of a Conn that was closed by its owner.
var ErrClosed = errors.New("connection is closed")

// Conn is a non-blocking stream socket that lives on one loop, embedded in its owner. It owns no
// buffer but for bytes that the kernel did not take.
type Conn struct {
	loop    *Loop
	handler Handler
	first   *Buffer // bytes that wait to be sent, oldest first
	last    *Buffer
	queued  int
	written int64 // bytes given to Write, less those that CutWrite has dropped
	sent    int64 // Clock when bytes last went into the socket
	fd      int32 // -1 when closed
	slot    uint32
	place   *place // while Dial waits for room in a unix socket's accept queue; nil otherwise
	flags   connFlags
	failed  uint16 // the number of the error that sending met; 0 for none
}

type connFlags uint16

const (
	connecting connFlags = 1 << iota // Dial's outcome is not known yet
	mayRead                          // the kernel may have something for us
	ended                            // the peer sends no more, says the kernel; bytes may be left
	// the queue was above its high mark, or the socket took no more of a file
	tellDrained
	shutWhenSent // CloseWrite waits for the queue
	endSent      // the end of what we send went into the socket
	accepted     // counted among the loop's clients
	lent         // Lend: another goroutine reads and writes, and wants to hear of every change
	batched      // Batch: what is written goes out with the loop's batch
	corked       // Cork: what is written is gathered until Push
)

// attach begins a Conn's life on loop l with a descriptor it owns from now on, even when attach
// fails.
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

// Attach makes c the connection of a socket that Accepted brought or Detach gave.
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
// fails. What is written before then is queued. How long to wait is the owner's business: Close
// gives up. A unix socket whose accept queue is full is waited for, as with TCP.
func (c *Conn) Dial(l *Loop, to Address, h Handler) error {
	fd, err := newSocket(to)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if l.waiting[to.Path] != nil { // who is there already goes first
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

// OutOfResources says whether an error of Dial is a lack of descriptors, ports or memory on this
// machine, and so says nothing of the address that was dialled.
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

// Open says whether the connection has a socket.
func (c *Conn) Open() bool { return c.loop != nil && c.fd >= 0 }

// FD is the socket's descriptor, for reading its options; -1 when closed.
func (c *Conn) FD() int { return int(c.fd) }

// PeerEnded says that the peer will send no more, as far as the loop has been told; bytes it sent
// before may still be unread.
func (c *Conn) PeerEnded() bool { return c.flags&ended != 0 }

// MayRead says whether a Read could find something without a further event.
func (c *Conn) MayRead() bool { return c.flags&mayRead != 0 }

// Alive looks at the socket itself, with one system call, and says that the peer has neither closed
// it nor sent anything.
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

// drain sends what is queued and tells the handler when the queue has become short again. It says
// whether sending went well, and whether the connection is still what it was afterwards.
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

// Read reads what there is into p, which is not empty. It returns ErrAgain when there is nothing
// now, and io.EOF at the peer's orderly end. Any other error is final.
//
// A read that does not fill p has emptied the socket: the next Read says ErrAgain without asking
// the kernel, and the next byte brings a new event. Not so once the peer has ended, because its end
// brings no second event.
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
			// EPIPE says that the peer takes no more, which does not make the end of what it sent
			// less orderly.
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
// final: the connection is of no more use and its owner closes it.
func (c *Conn) Write(p []byte) error {
	if !c.Open() {
		return ErrClosed
	}
	if c.flags&corked != 0 && c.full(len(p)) && !c.flush() {
		return syscall.Errno(c.failed)
	}
	return c.write(p, false)
}

// write is Write on an open connection. more says that more follows at once, which is to leave in the
// same segments (SendFile).
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

// Batch makes what is written from now on go out together with that of other connections, before
// the loop waits and after a few dozen events at most. It is for small messages: sending them one
// after the other, with nothing of ours in between, keeps the kernel's code and data in the CPU's
// caches and wakes a peer once for many of them. Measured with 64 and 512 connections: 3 % and 12 %
// of a proxied request's CPU. Errors come by Readable.
func (c *Conn) Batch() {
	if c.queued == 0 && c.Open() && c.flags&(connecting|batched|corked) == 0 {
		c.flags |= batched
		c.loop.batch = append(c.loop.batch, c)
	}
}

// Batched says that what was written since Batch has not gone out yet, not a byte of it.
func (c *Conn) Batched() bool { return c.flags&batched != 0 }

// Acknowledge tells the peer at once what has arrived. The kernel would wait up to 40 ms for data
// to send along, and a peer that gathers small writes (Nagle's algorithm) waits for that before it
// sends on.
func (c *Conn) Acknowledge() { acknowledge(int(c.fd)) }

// Sent is Clock from just before bytes last went into the socket. After it would be too late: the
// kernel may let a peer on the same machine run, and answer, before the call that sends returns,
// and the answer would seem to have taken no time.
func (c *Conn) Sent() int64 { return c.sent }

// Failed says that sending has met an error. Read reports it when it has read what arrived before.
func (c *Conn) Failed() bool { return c.failed != 0 }

// enqueue keeps p. A message that waits alone has a buffer of its own size; where more wait already
// they share larger ones, as each buffer is a system call of its own.
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

// fail notes that sending met an error, for Read to report once it has read what arrived before.
// The kernel tells each error once, to the first call: after send was told of a reset, recv
// says that the peer ended in order, and a body that is cut off would pass for a whole one.
func (c *Conn) fail(errno syscall.Errno) {
	if c.failed == 0 {
		c.failed = uint16(errno)
	}
	c.flags |= mayRead | ended
}

// flush sends queued bytes until the kernel takes no more. It says whether sending is still
// possible; Read has the error.
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

// Queued is how many bytes wait for the peer to take them. What waits for the batch, or for Push,
// does not count.
func (c *Conn) Queued() int {
	if c.flags&(batched|corked) != 0 {
		return 0
	}
	return c.queued
}

// Unsent says that bytes which were written have not gone into the socket, be it that they wait for
// the peer, for the batch or for Push.
func (c *Conn) Unsent() bool { return c.queued > 0 }

// Written is how many bytes were given to Write in all, to be compared with Acked.
func (c *Conn) Written() int64 { return c.written }

// Acked is how many of the bytes that were Written the peer has acknowledged. It asks the kernel,
// with one system call, so it is for timers that are due. Only this tells a slow peer from one that
// does not read: the kernel takes bytes in advance. On a unix socket, whose kernel counts its own
// overhead too, it lags behind until everything is taken.
func (c *Conn) Acked() int64 {
	if !c.Open() {
		return c.written
	}
	n := unacknowledged(int(c.fd))
	if n > 0 && c.flags&endSent != 0 { // the end counts as a byte (RFC 9293, section 3.4)
		n--
	}
	return c.written - int64(c.queued) - int64(n)
}

// Congested says that the queue was above its high mark, or that the socket took no more of what
// SendFile was given, and that Drained will be told.
func (c *Conn) Congested() bool { return c.flags&tellDrained != 0 }

// CloseWrite tells the peer that no more will come, after what is queued. Reading goes on.
func (c *Conn) CloseWrite() {
	c.Push()
	if c.queued > 0 || c.flags&connecting != 0 {
		c.flags |= shutWhenSent
		return
	}
	c.sendEnd()
}

// CutWrite is CloseWrite that drops what is queued: the peer gets what the kernel has, and the end.
func (c *Conn) CutWrite() {
	c.written -= int64(c.queued)
	c.dropQueue()
	c.sendEnd()
}

// Close ends the connection at once; what is queued is lost. What waits for Push is sent, and where
// the socket does not take all of it Close is Reset: the owner, who saw nothing Queued, takes it
// for sent. Closing twice does nothing.
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

// Reset is Close that makes the peer see an error rather than an orderly end, so that it cannot
// take a cut-off body for a whole one.
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

// RawRead is one recv, for the goroutine that does a TLS handshake while the loop leaves the socket
// alone.
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

// RawWrite is one send, for the goroutine that does a TLS handshake while the loop leaves the
// socket alone. It may be short.
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

// Shutdown ends both directions and keeps the descriptor, so that a goroutine that waits on the
// socket is woken and the descriptor's number cannot be given to another connection meanwhile.
func (c *Conn) Shutdown() { shutdown(int(c.fd), syscall.SHUT_RDWR) }

// Lend leaves the socket to a goroutine that uses RawRead and RawWrite. Readable is told of every
// change until TakeOver, also of room to write.
func (c *Conn) Lend() { c.flags |= lent }

// TakeOver ends Lend. There may be something to read, as the goroutine has used up the events.
func (c *Conn) TakeOver() { c.flags = c.flags&^lent | mayRead }
