package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"plimsoll/internal/sim/kernel"
)

// request is a client's request and what happened to it. Any part of the world that sees its token
// looks it up here.
type request struct {
	RequestPlan
	token    string
	by       *client
	place    int  // index on its connection
	from, to int  // its bytes in what the client sends
	head     int  // length of its head
	arrivals int  // heads at services, including retries and copies
	excused  int  // arrivals for which a service has said that it does nothing
	vicious  bool // a service has misbehaved with it
	answered bool
	status   int       // of the complete answer; 0 for none
	live     bool      // the complete answer came from a service
	lines    int       // in the access log
	id       string    // assigned by the gateway
	moved    int64     // when a service last read some of its body
	trusted  bool      // the gateway believes its client's claims
	framed   bool      // sent in HTTP/2
	since    int64     // when its client began to send it
	first    int64     // when it first reached a service
	came     int64     // when it last reached one
	said     int64     // when that service had sent all of its answer; 0 for not yet
	bounds   bounds    // largest limits until it arrived
	odd      bool      // its client breaks a rule of HTTP/2 with it
	talk     *talker   // of a WebSocket, on the client's side
	talkers  []*talker // on the side of services: one for each try
}

// malformed is the defect for which the request must be refused; "" for none.
func (q *request) malformed() string {
	switch {
	case q.Spoiled == 0:
		return ""
	case q.framed:
		if s := http2Spoilers[(q.Spoiled-1)%len(http2Spoilers)]; s.refused {
			return s.name
		}
	case spoilers[q.Spoiled-1].refused:
		return spoilers[q.Spoiled-1].name
	}
	return ""
}

// hasTrailers reports whether services get the request with trailers. A copy is sent with its
// length and without trailers, and a service cannot distinguish it from the original.
func (q *request) hasTrailers() bool {
	return q.Chunked && q.Trailers && !q.Upgrade && !q.Close && q.Path != "/copy/"
}

// mostTries is how often a gateway sends a request, however many services say that they did
// nothing.
const mostTries = 7

// reached counts an arrival at a service. retries is the number of retries allowed.
func (q *request) reached(h *messageHead, retries int) error {
	q.arrivals++
	most := 1
	if q.Method != "POST" {
		most += retries + 1 // one more if the service has just closed the connection
	}
	all := mostTries
	if q.Path == "/copy/" {
		most, all = 2*most, 2*all
	}
	if q.arrivals-q.excused > most || q.arrivals > all {
		return fmt.Errorf("%s %s was sent %d times, with %d retries; for %d its service did nothing",
			q.Method, q.token, q.arrivals, retries, q.excused)
	}
	if h.words[0] != q.Method {
		return fmt.Errorf("%s arrives as %s", q.Method, h.first)
	}
	if how := q.malformed(); how != "" {
		return fmt.Errorf("a malformed request (%s) is forwarded", how)
	}
	return nil
}

// client is one client's connection.
type client struct {
	line
	answer               // the answer that is arriving
	http2     *http2Conn // nil unless it speaks HTTP/2
	w         *world
	plan      ClientPlan
	rng       *rand.Rand
	name      string
	requests  []*request
	out       []byte // everything that it will send
	sent      int
	given     int // how many bytes it may send by now
	received  int
	r         reader
	asked     []*request // sent at least in part, and not answered
	started   int        // number of requests begun
	last      bool       // an answer said that the connection ends
	tunnel    bool
	talk      *talker // of a WebSocket; otherwise nil
	echoed    int
	sleeping  bool  // it will continue to read by itself
	stuck     bool  // it will do nothing more
	here      bool  // it has arrived
	counted   bool  // counted among those that its listener serves
	connected bool  // the gateway's kernel has accepted the connection
	done      bool  // it has gone
	moved     int64 // when anything last moved
	rested    int64 // when it last read everything available, or opened a window for it
	idled     int64 // how long the gateway had waited for the oldest of asked when that began
}

func newClient(w *world, plan ClientPlan) *client {
	c := &client{
		w: w, plan: plan, name: fmt.Sprintf("client %d", plan.Number),
		rng: w.scenario.stream(ofClients, uint64(plan.Number)),
	}
	c.answer.c = c
	if plan.HTTP2 != nil {
		c.http2 = newHTTP2Conn(c)
		w.kernel.After(plan.At, c.begin)
		return c
	}
	room := 0
	for _, p := range plan.Requests {
		room += 450 + max(0, p.Body)
	}
	c.out = make([]byte, 0, room)
	for i, p := range plan.Requests {
		q := c.newRequest(i, p)
		c.requests = append(c.requests, q)
		q.from = len(c.out)
		c.out = c.render(c.out, q)
		q.to = len(c.out)
		q.head = bytes.Index(c.out[q.from:], []byte("\r\n\r\n")) + 4
		if q.Upgrade || q.WebSocket != nil { // anything after it goes through the tunnel
			break
		}
	}
	c.r = reader{noBody: c.noBody, onHead: c.onHead, onBody: c.goesOn, onEnd: c.onEnd}
	w.kernel.After(plan.At, c.begin)
	return c
}

// newRequest makes one of the client's requests.
func (c *client) newRequest(place int, p RequestPlan) *request {
	q := &request{RequestPlan: p, token: fmt.Sprintf("c%dr%d", c.plan.Number, p.Number), by: c, place: place}
	q.trusted = c.w.scenario.Gateway.Claims && c.plan.From == trusted
	if p.WebSocket != nil {
		q.talk = c.newTalker(q)
	}
	c.w.asked[q.token] = q
	return q
}

const tunnelBytes = 20_000

// longestStay is the time after which a client leaves if nobody objects to its own slowness. watch
// checks whether the gateway has forgotten it.
const longestStay = 10 * time.Minute

// trusted is the last part of the address of clients that the listeners trust, if they trust any.
const trusted = 3

// address is a client's address.
func address(from int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(from)}) }

func (c *client) begin() {
	w := c.w
	from := netip.AddrPortFrom(address(c.plan.From), uint16(1024+c.plan.Number))
	if c.http2 == nil {
		c.given = c.next(0)
	}
	c.moved = w.kernel.Clock()
	var e *kernel.Endpoint
	e = w.kernel.Dial(c.name, listeners[c.plan.Listener], from, func(connected bool) {
		if !connected {
			c.finish("is refused", nil)
			return
		}
		c.progress()
		c.connected = true
		if c.http2 != nil {
			c.http2.begin(e)
			return
		}
		if c.speaksTLS() {
			c.line = secureClient(w, e, c.changed)
		}
		c.send()
	})
	e.Buffers(c.plan.Window, 1<<30)
	e.Changed, c.line = c.changed, e
	w.clients++
	c.here = true
	w.kernel.After(longestStay, func() { c.finish("has had enough", c.Close) })
	if w.history != nil {
		w.trace("%s comes to %s with %s", c.name, listeners[c.plan.Listener], c.summary())
	}
	c.watch()
}

// summary lists its requests.
func (c *client) summary() string {
	var list []string
	for i, q := range c.requests {
		if i == 6 {
			list = append(list, fmt.Sprintf("and %d more", len(c.requests)-i))
			break
		}
		size := q.to - q.from
		if q.framed {
			size = max(0, q.Body)
		}
		list = append(list, fmt.Sprintf("%s %s%s of %d bytes", q.Method, q.Path, q.token, size))
	}
	return strings.Join(list, ", ")
}

// next is how many bytes it may have sent after n answers.
func (c *client) next(n int) int {
	if c.plan.Pipeline || n >= len(c.requests) {
		return len(c.out)
	}
	if q := c.requests[n]; q.Waits {
		return q.from + q.head
	}
	return c.requests[n].to
}

// settled is when the connection became idle for the gateway. The gateway does not see how slowly a
// client reads what the client's kernel has received.
func (c *client) settled() int64 {
	if sent := c.PeerSent(); sent > 0 {
		return min(sent, c.moved)
	}
	return c.moved
}

// send sends the next piece.
func (c *client) send() {
	if c.done || c.stuck {
		return
	}
	piece := c.given - c.sent
	if c.plan.Pieces > 0 {
		piece = min(piece, 1+c.rng.IntN(c.plan.Pieces))
	}
	if c.plan.Leave >= 0 {
		piece = min(piece, max(0, c.plan.Leave-c.sent))
	}
	if piece > 0 {
		if len(c.asked) == 0 {
			c.idled = c.w.kernel.Clock() - c.settled()
		}
		c.Write(c.out[c.sent : c.sent+piece])
		c.progress()
		c.sent += piece
	}
	if c.http2 != nil {
		c.http2.haveSent()
		if c.done {
			return
		}
	}
	for c.http2 == nil && c.started < len(c.requests) && c.sent > c.requests[c.started].from {
		c.asked = append(c.asked, c.requests[c.started])
		c.requests[c.started].since = c.w.kernel.Clock()
		c.started++
	}
	if c.plan.Leave >= 0 && c.sent >= c.plan.Leave {
		c.leave()
		return
	}
	switch {
	case c.http2 != nil:
		c.http2.sendOn()
	case c.sent == c.given && c.talk != nil && c.talk.ended:
		c.endTalk()
	case c.sent < c.given:
		c.w.kernel.After(between(c.rng, 0, c.plan.Pause), c.send)
	}
}

// leave ends the connection in the client's manner.
func (c *client) leave() {
	c.plan.Leave, c.plan.LeaveAt = -1, -1
	c.progress()
	c.stuck = true
	switch c.plan.Manner {
	case Closes:
		c.finish("closes", c.Close)
	case Resets:
		c.finish("resets", c.Reset)
	case HalfEnds:
		c.w.trace("%s ends its own direction", c.name)
		c.plan.ReadRate = 0
		c.CloseWrite()
	case Stops:
		c.w.trace("%s does nothing more", c.name)
	}
}

func (c *client) finish(how string, do func()) {
	if c.done {
		return
	}
	c.done = true
	c.w.clients--
	c.w.trace("%s %s after %d of %d bytes, with %d read", c.name, how, c.sent, len(c.out), c.received)
	if do != nil {
		do()
	}
}

// changed reads what has arrived, at the client's own speed.
func (c *client) changed() {
	if c.done || c.sleeping {
		return
	}
	if c.stuck && c.plan.Manner == Stops { // it does not even read, but notices the end
		if ended, _ := c.Ended(); ended {
			c.finish("is closed", c.Close)
		}
		return
	}
	most := 1 << 20
	if c.plan.ReadRate > 0 {
		most = c.plan.ReadRate
	}
	p := c.Read(most)
	if len(p) > 0 {
		c.progress()
		c.received += len(p)
		c.take(p)
		if c.done {
			return
		}
		if c.plan.LeaveAt >= 0 && c.received > c.plan.LeaveAt {
			c.leave()
			return
		}
	}
	if ended, reset := c.Ended(); ended {
		c.end(reset)
		return
	}
	if c.Waiting() > 0 {
		c.sleeping = true
		c.w.kernel.After(between(c.rng, 0, c.plan.ReadWait), func() {
			c.sleeping, c.rested = false, c.w.kernel.Clock()
			c.changed()
		})
	}
}

func (c *client) take(p []byte) {
	if c.http2 != nil {
		c.http2.take(p)
		return
	}
	if c.talk != nil {
		if err := c.talk.hear(p); err != nil {
			c.w.violate("%v", err)
		}
		return
	}
	if c.tunnel {
		if !noiseOf(c.begun.token+"tunnel").is(c.echoed, p) {
			c.w.violate("%s gets other bytes through its tunnel than it sent, from %d on", c.name,
				c.echoed)
		}
		if c.echoed += len(p); c.echoed >= tunnelBytes {
			c.finish("has all of its tunnel", c.Close)
		}
		return
	}
	switch err := c.r.feed(p); {
	case err == errEndLate:
		c.finish("is told that its end is too slow", c.Close)
		return
	case err != nil:
		c.w.violate("%s: %v", c.name, err)
		return
	}
	if c.tunnel && len(c.r.held) > 0 {
		rest := c.r.held
		c.r.held = nil
		c.take(rest)
	}
}

// noBody reports whether an answer has no body.
func (c *client) noBody(h *messageHead) bool {
	status := h.status()
	toHEAD := c.begun != nil && c.begun.Method == "HEAD"
	return status < 200 || status == 204 || status == 304 || toHEAD
}

// errEndLate ends the reading of a client that gets a 408 when only a part of its TLS end has
// arrived. For the gateway, that could be a part of a head.
var errEndLate = errors.New("the end is late")

func (c *client) onHead(h *messageHead) error {
	status := h.status()
	switch {
	case c.last:
		return fmt.Errorf("%q comes after an answer that was to be the last", h.first)
	case len(c.asked) == 0 && status == 408 && c.stuck && c.speaksTLS():
		return errEndLate
	case len(c.asked) == 0:
		return fmt.Errorf("%q answers nothing that it has asked", h.first)
	case h.value("x-evil") != "":
		return fmt.Errorf("what a service said unasked is the answer to %s", c.asked[0].token)
	}
	q := c.asked[0]
	if status < 200 && status != 101 {
		c.begun, c.status = nil, status
		if status == 100 && q.Waits && c.given < q.to {
			c.given = q.to
			c.w.kernel.After(0, c.send)
		}
		return nil
	}
	c.last = h.value("connection") == "close" || q.Old && h.value("connection") != "keep-alive"
	if err := c.startsWith(q, h); err != nil {
		return err
	}
	if status == 101 {
		if !q.Upgrade && q.WebSocket == nil {
			return fmt.Errorf("101 for %s, which did not ask for it", q.token)
		}
		c.tunnel = true
		c.beginTalk(q, h)
	}
	return nil
}

// onEnd takes the end of an answer.
func (c *client) onEnd(trailers map[string]string) error {
	if c.status < 200 && !c.tunnel {
		return nil
	}
	q := c.begun
	c.asked = c.asked[1:]
	if err := c.isOver(trailers); err != nil {
		return err
	}
	if c.talk != nil {
		c.w.kernel.After(0, c.talk.start)
		return nil
	}
	if c.tunnel {
		c.out = append(c.out, noiseOf(q.token+"tunnel").bytes(0, tunnelBytes)...)
		c.given = len(c.out)
		c.w.kernel.After(0, c.send)
		return nil
	}
	c.begun = nil
	if c.given < q.to && !c.stuck {
		c.finish("keeps its body to itself", c.Close)
		return nil
	}
	if q.place == len(c.requests)-1 && !c.stuck && !c.plan.Stays {
		c.finish("has all its answers", c.Close)
		return nil
	}
	if given := c.next(q.place + 1); given > c.given && !c.last {
		c.given = given
		c.w.kernel.After(between(c.rng, 0, c.plan.Pause), c.send)
	}
	return nil
}

// leastGrace is how long a draining gateway waits for a request on a connection without one, minus
// the travel time of what is on its way.
const leastGrace = int64(900 * time.Millisecond)

// crossed reports whether a request may have crossed the gateway's close of an idle connection, as
// happens after a second of draining. A client must expect that (RFC 9112, section 9.5).
func (c *client) crossed() bool {
	return c.w.upgraded != nil && c.begun == nil && len(c.asked) == 1 && c.idled >= leastGrace
}

// saysMore reports whether the client has sent more after a request that it declared the last. The
// gateway's close may meet those bytes, and the reset discards what the client has not read yet
// (RFC 9112, section 9.6: it must send no more).
func (c *client) saysMore() bool {
	for i, q := range c.asked {
		if (q.Old || q.Close) && i < len(c.asked)-1 {
			return true
		}
	}
	return false
}

// end takes the end of what the gateway sends.
func (c *client) end(reset bool) {
	var err error
	if !reset && c.http2 == nil {
		err = c.r.ended()
	}
	if c.talk != nil {
		err = c.talk.hearEnd(reset)
	}
	switch {
	case c.http2 != nil:
		c.http2.end()
	case err != nil:
		c.w.violate("%s: %v", c.name, err)
	case c.w.scenario.Quiet && !c.w.ending && len(c.asked) > 0 && !c.tunnel && !c.last &&
		!c.crossed() && !c.holdsUp() && !c.saysMore():
		c.w.violate("%s loses its connection although nobody misbehaves, with %s not answered",
			c.name, c.asked[0].token)
	}
	how := "is closed"
	if reset {
		how = "is reset"
	}
	c.finish(how, c.Close)
}
