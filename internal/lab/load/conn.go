package load

import (
	"errors"
	"fmt"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
	"plimsoll/internal/tlsio"
)

// conn is one of a loop's connections. It lasts the whole run: when its socket is closed, it opens
// another.
//
//	queued → connecting → (shaking →) greeting → open
//	  ↑           └───────────┴─ resting ──┘       │
//	  └───────────────┴────────────────────────────┘ closed by either side
//
// A connection rests after a failed attempt and after a socket that carried no request; otherwise
// it reopens at once. aborting is a handshake that was told to stop while its goroutine still has
// the socket. A connection is greeting until its protocol can carry requests.
type conn struct {
	sock     reactor.Conn
	w        *worker
	protocol protocol
	tls      *tlsio.Conn // nil for plain http
	timer    reactor.Timer
	before   *conn
	behind   *conn

	opened   int64 // when the connection was ready
	under    int   // requests under way
	carried  int   // requests this socket has carried
	turn     int   // which address it uses; the next one after a failure
	failures int   // consecutive sockets that carried no request
	state    connState
	idle     bool // in the worker's queue of connections with room
	deferred bool // Run is scheduled
}

// protocol is what a connection speaks, and how it carries requests, one or several at once. Its
// methods are called on the connection's loop.
type protocol interface {
	// start is called when the socket is open and TLS is established. The protocol calls ready or
	// openFailed, now or later.
	start()
	// room reports whether an open connection may carry one more request now.
	room() bool
	// exchange returns the exchange for one more request. There must be room for it.
	exchange() *exchange
	// send sends the request in the worker's out, for which exchange x was set up.
	send(x *exchange)
	// receive reads what has arrived. The connection is greeting or open.
	receive()
	// drained reports that the socket's send queue is short again.
	drained()
	// expire ends the request of an exchange that has timed out.
	expire(x *exchange)
	// end counts all requests under way as ended with kind, and ends their sessions.
	end(kind measure.Kind)
	// release frees memory. The socket is closed, and no request is under way.
	release()
}

type connState uint8

const (
	queued connState = iota
	connecting
	shaking
	aborting
	greeting
	resting
	open
)

// Limits of opening. The rest doubles with each failure in a row: each connection tries a target
// that is down once a second, and soon finds one that comes back.
const (
	// attempts in flight on a loop, before the run and whenever TLS is spoken
	maxOpening   = 64
	giveUpAfter  = 16 // failed attempts before the run, with none successful
	shortestRest = 10_000_000
	longestRest  = 1_000_000_000
)

var errOpenTimeout = errors.New("no connection within the timeout: is the address right, " +
	"and does nothing drop packets on the way?")

var errGreetTimeout = errors.New("the target sent no SETTINGS within the timeout: " +
	"does it speak HTTP/2 here?")

// dial starts to connect. It reports whether that has worked so far; if not, the failure has been
// handled.
func (c *conn) dial() bool {
	w := c.w
	w.opening++
	c.state = connecting
	addresses := w.run.Target.Addresses
	address := addresses[(c.turn+w.id)%len(addresses)]
	w.loop.SetTimer(&c.timer, c, reactor.Clock()+int64(w.run.Timeout))
	var err error
	if h, ok := c.protocol.(*http3Conn); ok {
		err = h.dial(address)
	} else {
		err = c.sock.Dial(w.loop, address, c)
	}
	if err != nil {
		c.openFailed(err)
		return false
	}
	return true
}

// Connected implements reactor.Handler.
func (c *conn) Connected(err error) {
	if err != nil {
		c.giveUp(fmt.Errorf("connect: %w", err))
		return
	}
	if c.w.run.Target.TLS == nil {
		c.state = greeting
		c.protocol.start()
		return
	}
	c.state = shaking
	c.w.shaking++
	c.tls = tlsio.NewClient(&c.sock, c.w.run.Target.TLS, c.w.tls)
	c.sock.Lend()
	session, loop := c.tls, c.w.loop
	go func() {
		err := session.Handshake()
		loop.Post(func() { c.handshaken(err) })
	}()
}

// handshaken takes the socket back from the handshake's goroutine.
func (c *conn) handshaken(err error) {
	w := c.w
	w.shaking--
	if w.phase == closing {
		c.shut()
		w.stopWhenClosed()
		return
	}
	if c.state == aborting && err == nil || errors.Is(err, tlsio.ErrAborted) {
		err = errOpenTimeout
	}
	if err == nil {
		err = w.run.agreed(c.tls.State().ALPN)
	}
	if err != nil {
		c.giveUp(fmt.Errorf("TLS: %w", err))
		return
	}
	c.sock.TakeOver()
	c.state = greeting
	c.protocol.start()
}

// ready lets requests use a connection.
func (c *conn) ready() {
	w := c.w
	w.now = reactor.Clock()
	if c.tls != nil && c.tls.State().Resumed {
		w.resumed++
	}
	w.opening--
	w.open++
	w.made++
	w.loop.StopTimer(&c.timer)
	c.opened, c.carried = w.now, 0
	c.state = open
	w.decided(c, true)
	w.free(c)
	w.openNext()
	w.afterEvent()
}

// giveUp calls openFailed and goes on with the next connection.
func (c *conn) giveUp(err error) {
	c.openFailed(err)
	c.w.openNext()
	c.w.afterEvent()
}

// openFailed handles a failed attempt. The caller goes on with openNext.
func (c *conn) openFailed(err error) {
	w := c.w
	w.opening--
	c.failures++
	c.turn++
	c.shut()
	w.attemptFailed(err)
	if w.phase == opening && c.failures < len(w.run.Target.Addresses) {
		w.reopen(c) // another address of the name may have a listener
		return
	}
	c.rest()
	w.decided(c, false)
}

// rest waits before the next attempt.
func (c *conn) rest() {
	c.state = resting
	if c.w.phase == running {
		pause := min(int64(shortestRest)<<min(max(c.failures, 1)-1, 10), longestRest)
		c.w.loop.SetTimer(&c.timer, c, reactor.Clock()+pause)
	}
}

// shut closes the socket and frees what belongs to it.
func (c *conn) shut() {
	c.w.loop.StopTimer(&c.timer)
	if c.tls != nil {
		c.tls.Release()
		c.tls = nil
	}
	c.sock.Close()
	c.protocol.release()
}

// again closes an open connection with no request under way, and opens another.
func (c *conn) again() {
	w := c.w
	w.closed()
	w.leaveIdle(c)
	if c.tls != nil && !c.sock.PeerEnded() {
		c.tls.CloseWrite()
	}
	c.shut()
	if c.carried == 0 {
		c.failures++
		c.rest()
		return
	}
	w.reopen(c)
	w.openNext()
}

// Readable implements reactor.Handler.
func (c *conn) Readable() {
	switch c.state {
	case shaking, aborting:
		c.tls.Wake()
	case greeting, open:
		c.w.now = reactor.Clock()
		c.protocol.receive()
		c.w.afterEvent()
	}
}

// Drained implements reactor.Handler.
func (c *conn) Drained() {
	if c.state == open {
		c.protocol.drained()
	}
}

// readLater schedules Run after the other connections' turn: there may be more to read.
func (c *conn) readLater() {
	if !c.deferred {
		c.deferred = true
		c.w.loop.Defer(c)
	}
}

// Run implements reactor.Runner: it continues a long read.
func (c *conn) Run() {
	c.deferred = false
	if c.state == greeting || c.state == open {
		c.Readable()
	}
}

// Expire implements reactor.Expirer.
func (c *conn) Expire(_ *reactor.Timer, now int64) {
	w := c.w
	switch c.state {
	case resting:
		w.reopen(c)
		w.openNext()
	case connecting:
		c.giveUp(errOpenTimeout)
	case greeting:
		c.giveUp(errGreetTimeout)
	case shaking:
		c.abortHandshake()
	}
}

// abortHandshake tells the goroutine of a handshake to stop.
func (c *conn) abortHandshake() {
	c.state = aborting
	if h, ok := c.protocol.(*http3Conn); ok {
		h.cancel()
		return
	}
	c.tls.Abort()
	c.sock.Shutdown()
}

// mayRead reports whether a read could find something without a further event.
func (c *conn) mayRead() bool { return c.sock.MayRead() || c.tls != nil && c.tls.Buffered() }

func (c *conn) read(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(p)
	}
	return c.sock.Read(p)
}

// write sends p. If that fails, the peer may have answered before it closed, so reading comes
// first; the reads end with the error.
func (c *conn) write(p []byte) {
	var err error
	if c.tls != nil {
		err = c.tls.Write(p)
	} else {
		err = c.sock.Write(p)
	}
	if err != nil {
		c.readLater()
	}
}

// begin sends the next request of a session and hands the session to the exchange. due is the
// request's intended start.
func (c *conn) begin(s Session, due int64) *exchange {
	w := c.w
	x := c.protocol.exchange()
	x.session, x.due, x.written, x.interim = s, due, 0, 0
	x.onTime, x.prompt = false, false
	w.out, x.request = s.Request(w.out[:0])
	c.failures = 0
	c.under++
	if c.carried++; c.carried > 1 {
		w.reused++
	}
	x.found = w.inFlight
	w.inFlight++
	w.peak = max(w.peak, w.inFlight)
	w.part.sent++
	w.loop.SetTimer(&x.timer, x, due+int64(w.run.Timeout))
	c.protocol.send(x)
	return x
}

// usable reports whether the connection may carry another request.
func (c *conn) usable() bool { return c.state == open && c.protocol.room() && !c.wornOut() }

// wornOut reports whether the connection has reached PerConnection or Lifetime.
func (c *conn) wornOut() bool {
	o := &c.w.run.Options
	return o.PerConnection > 0 && c.carried >= o.PerConnection ||
		o.Lifetime > 0 && c.w.now-c.opened >= int64(o.Lifetime)
}

// next decides what a session does after an answer, and what its connection does. keep reports that
// the connection may carry more.
func (c *conn) next(s Session, verdict *AnswerVerdict, keep bool) {
	w := c.w
	keep = keep && !c.wornOut()
	switch {
	case !verdict.More:
		w.sessionOver(s)
	case verdict.Think > 0:
		w.think(s, w.now+int64(verdict.Think))
	case keep && w.now < w.end && c.protocol.room():
		w.part.due++
		c.begin(s, w.now).prompt = w.schedule == nil
		return
	default:
		w.think(s, w.now)
	}
	c.reuse(keep)
}

// reuse puts an open connection to its next use. keep reports that it may carry more requests; if
// not, it is closed once no request is under way.
func (c *conn) reuse(keep bool) {
	switch {
	case keep && !c.wornOut():
		c.w.free(c)
	case c.under == 0:
		c.again()
	}
}

// retire closes a connection that is worn out, unless requests are under way: then it is closed
// when they have ended.
func (c *conn) retire() {
	if c.under == 0 && c.wornOut() {
		c.again()
	}
}

// fail ends the connection and the requests under way on it. why and err are for humans; err may be
// nil.
func (c *conn) fail(kind measure.Kind, why string, err error) {
	w := c.w
	if w.examples[kind] == "" {
		w.example(kind, why, err)
	}
	c.protocol.end(kind)
	w.closed()
	w.leaveIdle(c)
	c.shut()
	w.reopen(c)
	w.openNext()
}
