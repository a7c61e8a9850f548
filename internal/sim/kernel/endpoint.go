package kernel

import (
	"math/rand/v2"
	"net/netip"
	"syscall"

	"plimsoll/internal/reactor"
)

// Endpoint is one end of a connection. A loop's end has a descriptor. The other belongs to an
// actor, which uses the exported methods.
type Endpoint struct {
	// Name is for traces.
	Name string
	// Changed is called through the agenda when something has arrived or there is room to write.
	// Actors set it.
	Changed func()

	k      *Kernel
	number int        // from 1
	rng    *rand.Rand // its own, because goroutines other than the driving one may use it
	unix   bool       // a Unix socket; otherwise TCP
	peer   *Endpoint  // nil until it is connected
	file   *file      // nil for an actor's end, while it waits to be accepted, and after closing
	remote netip.AddrPort
	came   int64 // when it was put into its accept queue
	told   bool  // Changed is on the agenda

	in, out         []byte   // bytes waiting to be read, and to be acknowledged
	messages        messages // the sends that make up in, on a Unix socket, which has no out
	inMost, outMost int
	unsentMost      int   // bytes of out beyond the peer's room (TCP_NOTSENT_LOWAT, tcp(7))
	flying          bool  // some of out, or the end, is on its way
	flights         int   // number of flights begun
	lands           int64 // when the last flight arrives
	sentAt          int64 // when it was last given something to send

	connecting bool
	finished   bool          // it may not send any more
	finArrived bool          // the peer knows
	ended      bool          // the peer has ended its direction in order
	deaf       bool          // SHUT_RD
	closed     bool          // nobody will read
	broken     bool          // a reset was sent or received
	failure    syscall.Errno // returned by the next call
	wantsRoom  bool          // its owner must be told when there is room again
	undivided  bool          // what it sends arrives in one piece

	calls, moved int // in the present turn
}

// pair connects two ends.
func (k *Kernel) pair(a, b *Endpoint) {
	a.peer, b.peer = b, a
	a.connecting, b.connecting = false, false
}

func (k *Kernel) newEndpoint(name string, actor, unix bool) *Endpoint {
	k.endpoints++
	e := &Endpoint{
		k: k, number: k.endpoints, rng: newRand(k.seed, k.endpoints), Name: name, unix: unix,
		inMost: k.Profile.RecvBuffer, outMost: k.Profile.SendBuffer,
	}
	e.unsentMost = reactor.UnsentLimit
	if actor {
		e.inMost, e.outMost = 256<<10, 1<<30 // an actor's bytes wait here
		e.unsentMost = e.outMost
	}
	return e
}

// unconnected reports whether nobody has tried to connect it, or that failed at once.
func (e *Endpoint) unconnected() bool { return e.peer == nil && !e.connecting && !e.broken }

// over reports whether both directions of a TCP connection have ended in order, so that no reset
// can reach either end.
func (e *Endpoint) over() bool { return e.ended && e.finArrived }

// unacknowledged is the number of sent bytes that still count against its buffer.
func (e *Endpoint) unacknowledged() int {
	if e.unix && e.peer != nil {
		return e.peer.messages.charged
	}
	return len(e.out)
}

// room is how many bytes a send would accept. TCP bounds the bytes that are sent and not
// acknowledged, and within them those for which the peer has had no room yet.
func (e *Endpoint) room() int {
	room := e.outMost - e.unacknowledged()
	if e.unix || e.peer == nil {
		return room
	}
	sent := max(0, e.peer.inMost-len(e.peer.in))
	return min(room, sent+e.unsentMost-len(e.out))
}

// writable is the state that pollers see. It differs from whether a send would accept something: a
// poller that saw a full socket is told when a good part of it is free again.
func (e *Endpoint) writable() bool {
	used := e.unacknowledged()
	if e.unix {
		return 4*used <= e.outMost
	}
	return e.finished || e.broken || e.outMost-used >= e.outMost/3 && e.room() > 0
}

// flight is the travel time of a segment.
func (e *Endpoint) flight() int64 { return 1000 + int64(Draw(e.rng, e.k.Profile.Latency)) }

// fly sends waiting bytes over TCP, unless something is already on its way or the peer has no room.
func (e *Endpoint) fly() {
	if e.flying || e.broken || e.peer == nil {
		return
	}
	blocked := !e.peer.closed && len(e.peer.in) >= e.peer.inMost
	if len(e.out) > 0 && blocked || len(e.out) == 0 && (!e.finished || e.finArrived) {
		return
	}
	e.flying, e.lands = true, e.k.Clock()+e.flight()
	e.flights++
	flight := e.flights
	e.k.at(e.lands, e.number, func() {
		e.k.mu.Lock()
		defer e.k.mu.Unlock()
		if e.flying && e.flights == flight { // it may have been hurried
			e.land()
		}
	})
}

// land is the arrival of a segment.
func (e *Endpoint) land() {
	k, p := e.k, e.peer
	e.flying = false
	n := len(e.out)
	switch {
	case e.broken:
		return
	case n > 0 && (p.closed || p.deaf && p.finished):
		e.reject()
		return
	}
	n = max(0, min(n, p.inMost-len(p.in))) // the peer may have reduced its buffer
	if n > 1 && !e.undivided && chance(e.rng, k.Profile.Fragment) {
		n = 1 + e.rng.IntN(n)
	}
	p.in, e.out = join(p.in, e.out[:n:n], true), e.out[n:]
	if len(e.out) == 0 && e.finished && !e.finArrived {
		e.finArrived, p.ended = true, true
		e.tell() // the acknowledgement of the end is a change of state
	}
	p.tell()
	if e.wantsRoom && e.writable() {
		e.wantsRoom = false
		e.tell()
	}
	e.fly()
}

// reject answers data that nobody will read with a reset (RFC 9293, section 3.10.7.1). The reset
// arrives after what the peer has already sent. What the peer's kernel could not send yet is lost.
func (e *Endpoint) reject() {
	k, p := e.k, e.peer
	k.at(max(k.Clock()+p.flight(), p.lands), p.number, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		p.refused(syscall.ECONNRESET)
		e.refused(syscall.ECONNRESET)
	})
}

// refused is the arrival of a reset, or its cause. If the peer had ended in order, the error is a
// broken pipe.
func (e *Endpoint) refused(errno syscall.Errno) {
	if e.broken || e.over() {
		return
	}
	if e.ended && !e.unix {
		errno = syscall.EPIPE
	}
	e.broken, e.failure = true, errno
	e.k.trace("%s is reset", e.Name)
	e.tell()
}

// tell informs the owner of a change.
func (e *Endpoint) tell() {
	if e.closed {
		return
	}
	if e.file != nil {
		e.k.wake(e.file)
		return
	}
	if e.Changed != nil && !e.told {
		e.told = true
		e.k.at(e.k.Clock(), e.number, func() {
			e.told = false
			e.Changed()
		})
	}
}

// close is close(2).
func (e *Endpoint) close() {
	switch {
	case e.closed:
		return
	case len(e.in) > 0 && !e.broken && !e.over():
		e.abort() // unread bytes are lost, and the peer must know (RFC 2525, section 2.17)
		return
	}
	e.closed = true
	e.finish()
	e.stopPeer()
}

// finish ends its own direction after the bytes already sent.
func (e *Endpoint) finish() {
	e.finished = true
	switch {
	case !e.unix:
		e.fly()
	case e.peer != nil:
		e.peer.ended = true
		e.peer.tell()
	}
}

// stopPeer ends the peer's direction, because nobody will read. Over TCP the peer learns it when it
// sends.
func (e *Endpoint) stopPeer() {
	if e.unix && e.peer != nil {
		e.peer.finished = true
		e.peer.tell()
	}
}

// reset is close with SO_LINGER and zero time, which ends both directions at once. A Unix socket
// does not have that.
func (e *Endpoint) reset() {
	if e.unix {
		e.close()
		return
	}
	e.abort()
}

// abort ends both directions at once with a reset. What the peer has not received yet is lost.
func (e *Endpoint) abort() {
	e.closed = true
	if e.broken {
		return
	}
	e.broken, e.in, e.out, e.messages = true, nil, nil, messages{}
	p := e.peer
	switch {
	case p == nil:
	case e.unix:
		p.finished, p.ended = true, true
		p.refused(syscall.ECONNRESET)
	default:
		e.k.at(e.k.Clock()+e.flight(), e.number, func() {
			e.k.mu.Lock()
			defer e.k.mu.Unlock()
			p.refused(syscall.ECONNRESET)
		})
	}
}

// recv is recv(2); if take is false it leaves the bytes, like a peek. Over TCP it reports the end
// before an error, over a Unix socket after it.
func (e *Endpoint) recv(p []byte, take bool) (int, syscall.Errno) {
	switch {
	case len(e.in) > 0:
		n := copy(p, e.in)
		if take {
			e.consume(n)
		}
		return n, 0
	case e.unconnected() && e.unix:
		return -1, syscall.EINVAL
	case e.unconnected():
		return -1, syscall.ENOTCONN
	case e.ended && !e.unix:
		return 0, 0
	case e.failure != 0:
		return -1, e.takeFailure()
	case e.ended || e.deaf || e.broken:
		return 0, 0
	}
	return -1, syscall.EAGAIN
}

// consume removes read bytes from the buffer, which gives the peer room.
func (e *Endpoint) consume(n int) {
	if e.in = e.in[n:]; len(e.in) == 0 {
		e.in = nil
	}
	freed := e.unix && e.messages.read(n)
	switch p := e.peer; {
	case p == nil:
	case !e.unix:
		p.fly()
	case freed && p.writable():
		p.tell() // even if it was writable before
	}
}

// takeFailure returns the pending error, once.
func (e *Endpoint) takeFailure() (errno syscall.Errno) {
	errno, e.failure = e.failure, 0
	return errno
}

// send is send(2) with MSG_NOSIGNAL. If whole is true it accepts everything for which there is
// room, and keeps p.
func (e *Endpoint) send(p []byte, whole bool) (int, syscall.Errno) {
	switch {
	case e.unix && e.unconnected():
		return -1, syscall.ENOTCONN
	case e.failure != 0 && !e.unix:
		return -1, e.takeFailure()
	case e.broken || e.finished || e.unconnected():
		return -1, syscall.EPIPE
	}
	room := e.room()
	if room <= 0 || e.connecting {
		e.wantsRoom = true
		return -1, syscall.EAGAIN
	}
	n := min(len(p), room)
	if n < len(p) {
		e.wantsRoom = true
	}
	if !whole && n > 1 && chance(e.rng, e.k.Profile.ShortWrite) {
		n = 1 + e.rng.IntN(n)
	}
	e.sentAt = e.k.Clock()
	if e.unix {
		e.peer.in = join(e.peer.in, p[:n:n], whole)
		e.peer.messages.add(n)
		e.peer.tell()
		return n, 0
	}
	e.out = join(e.out, p[:n:n], whole)
	e.fly()
	return n, 0
}

// join appends p to the waiting bytes. If nothing waits and p does not change, it returns p itself:
// bodies are long, and copying them was a considerable part of a run's time.
func join(waiting, p []byte, stays bool) []byte {
	if stays && len(waiting) == 0 {
		return p
	}
	return append(waiting, p...)
}

// shutdown is shutdown(2). It always wakes pollers, even if it changes nothing.
func (e *Endpoint) shutdown(how int) {
	if e.connecting {
		return
	}
	if how != syscall.SHUT_RD {
		e.finish()
	}
	if how != syscall.SHUT_WR {
		e.deaf = true
		e.stopPeer()
	}
	e.tell()
}

// hurry makes data on its way to e arrive now. Otherwise nothing would ever change in the middle of
// a loop's turn.
func (e *Endpoint) hurry() {
	if p := e.peer; p != nil && p.flying && chance(e.rng, e.k.Profile.Meanwhile) {
		p.land()
	}
}

// Recv implements reactor.Kernel.
func (k *Kernel) Recv(fd int, p []byte) (int, syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, errno := k.socket(fd)
	if errno != 0 {
		return -1, errno
	}
	e.hurry()
	n, errno := e.recv(p, true)
	k.touch(e, 1, max(n, 0))
	return n, errno
}

// Peek implements reactor.Kernel.
func (k *Kernel) Peek(fd int) (int, syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, errno := k.socket(fd)
	if errno != 0 {
		return -1, errno
	}
	var b [1]byte
	return e.recv(b[:], false)
}

// Send implements reactor.Kernel.
func (k *Kernel) Send(fd int, p []byte) (int, syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, errno := k.socket(fd)
	if errno != 0 {
		return -1, errno
	}
	e.hurry()
	if e.peer != nil && !e.unix && !e.over() && chance(e.rng, k.Profile.Sudden) {
		k.trace("the network resets %s", e.Name)
		e.refused(syscall.ECONNRESET)
		e.peer.refused(syscall.ECONNRESET)
	}
	room := e.room()
	n, errno := e.send(p, false)
	if n > 0 && n < min(len(p), room) {
		k.touch(e, 0, n) // the model's draw, not the loop, causes another call
	} else {
		k.touch(e, 1, max(n, 0))
	}
	return n, errno
}

// socket finds a connection's end. In a real kernel, a descriptor that is not open could belong to
// another connection.
func (k *Kernel) socket(fd int) (*Endpoint, syscall.Errno) {
	f := k.files[fd].file
	if f == nil || f.socket == nil {
		k.violate("descriptor %d is used, which is not an open connection: it may be another's", fd)
		return nil, syscall.EBADF
	}
	return f.socket, 0
}

// SocketError implements reactor.Kernel.
func (k *Kernel) SocketError(fd int) syscall.Errno {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, errno := k.socket(fd)
	if errno != 0 {
		return errno
	}
	return e.takeFailure()
}

// Unacknowledged implements reactor.Kernel.
func (k *Kernel) Unacknowledged(fd int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, errno := k.socket(fd)
	if errno != 0 {
		return 0
	}
	return e.unacknowledged()
}

// PeerEnded implements reactor.Kernel.
func (k *Kernel) PeerEnded(fd int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, errno := k.socket(fd)
	return errno == 0 && (e.ended || e.broken)
}

// Shutdown implements reactor.Kernel.
func (k *Kernel) Shutdown(fd, how int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, errno := k.socket(fd); errno == 0 {
		e.shutdown(how)
	}
}

// ResetOnClose implements reactor.Kernel.
func (k *Kernel) ResetOnClose(fd int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.files[fd].file; f != nil {
		f.linger = true
	}
}

// Read is an actor's recv: it returns at most the given number of bytes. The caller owns them.
func (e *Endpoint) Read(most int) []byte {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	n := min(most, len(e.in))
	p := e.in[:n:n]
	if n > 0 {
		e.consume(n)
	}
	return p
}

// PeerSent is when the other side last sent something, even if some of it is still on its way; 0
// for never.
func (e *Endpoint) PeerSent() int64 {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	if e.peer == nil {
		return 0
	}
	return e.peer.sentAt
}

// Waiting is the number of bytes that have arrived and are unread.
func (e *Endpoint) Waiting() int {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	return len(e.in)
}

// Ended reports whether everything was read and no more will come; reset says that it did not end
// in order. A reset after the peer's orderly end does not undo that, because recv(2) reports the
// end.
func (e *Endpoint) Ended() (ended, reset bool) {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	return len(e.in) == 0 && (e.ended || e.broken), e.broken && (!e.ended || e.unix)
}

// GivenUp reports whether the other side has closed its end: it no longer waits for anything,
// whatever is still on its way.
func (e *Endpoint) GivenUp() bool {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	return e.peer != nil && e.peer.closed
}

// Write is an actor's send. It returns the number of bytes accepted. It keeps p, which must not
// change afterwards.
func (e *Endpoint) Write(p []byte) int {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	n, _ := e.send(p, true)
	return max(n, 0)
}

// Whole makes later writes arrive in one piece each.
func (e *Endpoint) Whole() {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	e.undivided = true
}

// CloseWrite ends the actor's own direction.
func (e *Endpoint) CloseWrite() {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	e.shutdown(syscall.SHUT_WR)
}

// Close ends the connection as close(2) does.
func (e *Endpoint) Close() {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	e.close()
}

// Reset ends the connection with an error, like close with SO_LINGER and zero time; a Unix socket
// is just closed.
func (e *Endpoint) Reset() {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	if !e.closed {
		e.reset()
	}
}

// Buffers sets the sizes of the actor's socket buffers: bytes waiting to be read, and bytes waiting
// to be acknowledged.
func (e *Endpoint) Buffers(in, out int) {
	e.k.mu.Lock()
	defer e.k.mu.Unlock()
	e.inMost, e.outMost = in, out
}

var _ reactor.Kernel = (*Kernel)(nil)
