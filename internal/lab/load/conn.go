package load

import (
	"errors"
	"fmt"
	"io"

	"plimsoll/internal/http1"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
	"plimsoll/internal/tlsio"
)

// conn is one of a loop's connections, and goes on for the whole run: when its socket is closed it
// opens another.
//
//	queued → connecting → (shaking →) idle ⇄ busy
//	  ↑           └───────────┴─ resting      │
//	  └───────────────┴───────────────────────┘ closed by either side
//
// It rests after an attempt that failed, and after a socket that carried no request at all;
// otherwise it opens again at once. aborting is a handshake whose goroutine still has the socket
// and was told to stop.
type conn struct {
	sock   reactor.Conn
	w      *worker
	tls    *tlsio.Conn // nil for plain http
	timer  reactor.Timer
	before *conn
	behind *conn

	session  Session // of the request under way; nil when there is none
	request  Request
	due      int64 // the intended start of the request
	written  int64 // when its first byte was sent, where that is not sock.Sent
	opened   int64 // when the connection was ready
	held     *held // what arrived of an answer that is not whole yet; nil when nothing
	body     http1.Body
	carried  int // requests of this socket
	turn     int // which of the addresses it uses; the next one after a failure
	failures int // sockets in a row that carried no request
	interim  int // 1xx answers to the request
	found    int // other requests of the loop that were in flight when it was sent
	state    connState
	onTime   bool // a connection was free when the request was due: its lag is the generator's
	prompt   bool // the intended start is the sending itself
	inBody   bool // the head is complete and in held
	deferred bool // Run is to be called
}

type connState uint8

const (
	queued connState = iota
	connecting
	shaking
	aborting
	resting
	idle
	busy
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

// batchBelow is how large a request may be, in bytes, to be sent together with those of other
// connections. A larger one is sent by itself, because the kernel may take it in parts, and only
// the last one's time is known.
const batchBelow = 16 << 10

var errOpenTimeout = errors.New("no connection within the timeout: is the address right, " +
	"and does nothing drop packets on the way?")

// dial begins to connect. It says whether that went well so far; if not, the failure has been dealt
// with.
func (c *conn) dial() bool {
	w := c.w
	w.opening++
	c.state = connecting
	addresses := w.run.Target.Addresses
	address := addresses[(c.turn+w.id)%len(addresses)]
	w.loop.SetTimer(&c.timer, c, reactor.Clock()+int64(w.run.Timeout))
	if err := c.sock.Dial(w.loop, address, c); err != nil {
		c.openFailed(err)
		return false
	}
	return true
}

// Connected implements reactor.Handler.
func (c *conn) Connected(err error) {
	if err != nil {
		c.openFailed(fmt.Errorf("connect: %w", err))
		c.w.openNext()
		c.w.afterEvent()
		return
	}
	if c.w.run.Target.TLS == nil {
		c.ready()
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
	if err != nil {
		c.openFailed(fmt.Errorf("TLS: %w", err))
		w.openNext()
		w.afterEvent()
		return
	}
	c.sock.TakeOver()
	if err := c.quiet(); err != nil {
		// What came while the goroutine had the socket brings no second event. A server that does
		// not like our certificate says so here.
		c.openFailed(fmt.Errorf("TLS: %w", err))
		w.openNext()
		w.afterEvent()
		return
	}
	if c.tls.State().Resumed {
		w.resumed++
	}
	c.ready()
}

// ready makes an open connection one that requests can use.
func (c *conn) ready() {
	w := c.w
	w.now = reactor.Clock()
	w.opening--
	w.open++
	w.made++
	w.loop.StopTimer(&c.timer)
	c.opened, c.carried = w.now, 0
	c.state = idle
	w.decided(c, true)
	w.free(c)
	w.openNext()
	w.afterEvent()
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
	c.w.putHeld(c)
}

// again closes an open connection, on which no request is under way, and opens another.
func (c *conn) again() {
	w := c.w
	w.open--
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
	case busy:
		c.w.now = reactor.Clock()
		c.receive()
		c.w.afterEvent()
	case idle:
		if c.quiet() != nil {
			c.w.idle.remove(c)
			c.again()
		}
	}
}

// Drained implements reactor.Handler: nothing waits for the queue to become short, as the next
// request waits for an answer.
func (c *conn) Drained() {}

// Run implements reactor.Runner: a connection that had much to read goes on.
func (c *conn) Run() {
	c.deferred = false
	if c.state == busy {
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
		c.openFailed(errOpenTimeout)
		w.openNext()
		w.afterEvent()
	case shaking:
		c.state = aborting
		c.tls.Abort()
		c.sock.Shutdown()
	case busy:
		w.now = reactor.Clock()
		c.fail(measure.Timeout, "no whole answer within the timeout", nil)
		w.afterEvent()
	}
}

// mayRead says whether a read could find something without a further event.
func (c *conn) mayRead() bool { return c.sock.MayRead() || c.tls != nil && c.tls.Buffered() }

func (c *conn) read(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(p)
	}
	return c.sock.Read(p)
}

var errUnasked = errors.New("the target sent what nobody asked for")

// quiet is nil when the peer has neither ended nor sent what nobody asked for, and else says what
// it did. Records of TLS that carry no data are read on the way.
func (c *conn) quiet() error {
	if !c.mayRead() {
		return nil
	}
	switch n, err := c.read(c.w.loop.Scratch()); {
	case n > 0:
		return errUnasked
	case err == reactor.ErrAgain:
		return nil
	default:
		return err
	}
}

// begin sends the next request of a session, which is the connection's from now on. due is its
// intended start.
func (c *conn) begin(s Session, due int64) {
	w := c.w
	c.state = busy
	c.session, c.due, c.written, c.inBody, c.interim = s, due, 0, false, 0
	c.onTime, c.prompt = false, false
	w.out, c.request = s.Request(w.out[:0])
	c.failures = 0
	if c.carried++; c.carried > 1 {
		w.reused++
	}
	c.found = w.inFlight
	w.inFlight++
	w.peak = max(w.peak, w.inFlight)
	w.part.sent++
	w.part.out += uint64(len(w.out))
	w.loop.SetTimer(&c.timer, c, due+int64(w.run.Timeout))
	if len(w.out) < batchBelow {
		c.sock.Batch()
	} else {
		c.written = reactor.Clock()
	}
	var err error
	if c.tls != nil {
		err = c.tls.Write(w.out)
	} else {
		err = c.sock.Write(w.out)
	}
	if err != nil {
		// The peer may have answered before it ended, so what there is to read comes first. Reading
		// ends with the error.
		w.loop.Defer(c)
		c.deferred = true
	}
}

// sentAt is when the first byte of the request went out.
func (c *conn) sentAt() int64 {
	if c.written != 0 {
		return c.written
	}
	return c.sock.Sent()
}

// fail ends the request under way together with the connection. why and err, which may be nil, are
// for a person.
func (c *conn) fail(kind measure.Kind, why string, err error) {
	w := c.w
	if w.examples[kind] == "" {
		w.example(kind, why, err)
	}
	s := c.over(kind)
	w.sessionOver(s)
	w.open--
	c.shut()
	w.reopen(c)
	w.openNext()
}

// over counts the request under way as ended and gives back its session.
func (c *conn) over(kind measure.Kind) Session {
	w := c.w
	w.turnPage()
	s := c.session
	c.session = nil
	w.inFlight--
	w.loop.StopTimer(&c.timer)
	sent := c.sentAt()
	if c.sock.Batched() {
		sent = w.now
	}
	if c.prompt {
		c.due = sent
	}
	if c.onTime {
		w.part.lag.Record(sent - c.due)
	}
	w.ended(kind, c.request.Name, w.now-c.due, w.now-sent)
	if kind == measure.OK {
		w.atSend[min(c.found, measure.MostFound)].add(w.now - sent)
	}
	return s
}

// readEnded deals with a read that found nothing: for now, or for good.
func (c *conn) readEnded(err error) {
	if err == reactor.ErrAgain {
		return
	}
	if c.inBody && err == io.EOF && c.body.EOF() == http1.OK {
		c.wholeHeld(false)
		return
	}
	if c.inBody || c.held != nil {
		c.fail(measure.ConnectionLost, "the connection ended in the middle of the answer", err)
		return
	}
	c.fail(measure.ConnectionLost, "the connection ended before an answer began", err)
}
