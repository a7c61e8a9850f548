package load

import (
	"errors"
	"fmt"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
	"plimsoll/internal/tlsio"
)

// conn is one of a loop's connections, and goes on for the whole run: when its socket is closed it
// opens another.
//
//	queued → connecting → (shaking →) greeting → open
//	  ↑           └───────────┴─ resting ──┘       │
//	  └───────────────┴────────────────────────────┘ closed by either side
//
// It rests after an attempt that failed, and after a socket that carried no request at all;
// otherwise it opens again at once. aborting is a handshake whose goroutine still has the socket
// and was told to stop. It greets until its protocol can carry requests.
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
	carried  int   // requests of this socket
	turn     int   // which of the addresses it uses; the next one after a failure
	failures int   // sockets in a row that carried no request
	state    connState
	idle     bool // in the worker's queue of connections that may carry another request
	deferred bool // Run is to be called
}

// protocol is what a connection speaks: how it carries requests, one or several at once. Its
// methods are called on the connection's loop.
type protocol interface {
	// start is called when the socket is open, and TLS spoken. The protocol calls ready or
	// openFailed, now or later.
	start()
	// room says whether an open connection may carry one more request now.
	room() bool
	// exchange is the place of one more request, for which there is room.
	exchange() *exchange
	// send sends the request in the worker's out, which exchange x was filled with.
	send(x *exchange)
	// receive reads what has arrived. The connection greets, or is open.
	receive()
	// drained says that the queue of what the socket did not take is short again.
	drained()
	// expire ends the request of an exchange, whose time is over.
	expire(x *exchange)
	// end counts all requests under way as ended so, and gives back their sessions.
	end(kind measure.Kind)
	// release gives back memory: the socket is closed, and no request is under way.
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

// The bounds of opening. A rest doubles with each failure in a row, so that a target that is down
// is asked about once a second by each connection, and one that comes back is found soon.
const (
	// attempts in flight on a loop, while all are opened and whenever TLS is spoken
	maxOpening   = 64
	giveUpAfter  = 16 // attempts that failed before the run, none having succeeded
	shortestRest = 10_000_000
	longestRest  = 1_000_000_000
)

var errOpenTimeout = errors.New("no connection within the timeout: is the address right, " +
	"and does nothing drop packets on the way?")

var errGreetTimeout = errors.New("the target sent no SETTINGS within the timeout: " +
	"does it speak HTTP/2 here?")

// dial begins to connect. It says whether that went well so far; if not, the failure has been dealt
// with.
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

// ready makes an open connection one that requests can use.
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

// giveUp is openFailed, and goes on with what comes next.
func (c *conn) giveUp(err error) {
	c.openFailed(err)
	c.w.openNext()
	c.w.afterEvent()
}

// openFailed deals with an attempt that came to nothing. The caller goes on with openNext.
func (c *conn) openFailed(err error) {
	w := c.w
	w.opening--
	c.failures++
	c.turn++
	c.shut()
	w.attemptFailed(err)
	if w.phase == opening && c.failures < len(w.run.Target.Addresses) {
		w.reopen(c) // a name may have an address at which nobody listens
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

// shut closes the socket and gives back what belongs to it.
func (c *conn) shut() {
	c.w.loop.StopTimer(&c.timer)
	if c.tls != nil {
		c.tls.Release()
		c.tls = nil
	}
	c.sock.Close()
	c.protocol.release()
}

// again closes an open connection, on which no request is under way, and opens another.
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

// readLater has Run called when others have had their turn: there may be more to read.
func (c *conn) readLater() {
	if !c.deferred {
		c.deferred = true
		c.w.loop.Defer(c)
	}
}

// Run implements reactor.Runner: a connection that had much to read goes on.
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

// abortHandshake has a handshake's goroutine give up.
func (c *conn) abortHandshake() {
	c.state = aborting
	if h, ok := c.protocol.(*http3Conn); ok {
		h.cancel()
		return
	}
	c.tls.Abort()
	c.sock.Shutdown()
}

// mayRead says whether a read could find something without a further event.
func (c *conn) mayRead() bool { return c.sock.MayRead() || c.tls != nil && c.tls.Buffered() }

func (c *conn) read(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(p)
	}
	return c.sock.Read(p)
}

// write sends p. If it cannot, the peer may have answered before it ended, so what there is to read
// comes first; reading ends with the error.
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

// begin sends the next request of a session, which is the exchange's from now on. due is its intended
// start.
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

// usable says that the connection may carry another request.
func (c *conn) usable() bool { return c.state == open && c.protocol.room() && !c.wornOut() }

// wornOut says that the connection has carried what it may.
func (c *conn) wornOut() bool {
	o := &c.w.run.Options
	return o.PerConnection > 0 && c.carried >= o.PerConnection ||
		o.Lifetime > 0 && c.w.now-c.opened >= int64(o.Lifetime)
}

// next puts a session, whose request was answered, and the connection to their next use. keep says
// that the connection may carry more.
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

// reuse puts an open connection to its next use. keep says that it may carry more requests; if not,
// it is closed when those under way have ended.
func (c *conn) reuse(keep bool) {
	switch {
	case keep && !c.wornOut():
		c.w.free(c)
	case c.under == 0:
		c.again()
	}
}

// retire closes a connection that has carried what it may, unless requests are under way: then it
// is closed when they have ended.
func (c *conn) retire() {
	if c.under == 0 && c.wornOut() {
		c.again()
	}
}

// fail ends the requests under way together with the connection. why and err, which may be nil, are
// for a person.
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
