package sim

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/net/http2/hpack"

	"plimsoll/internal/sim/kernel"
)

// HTTP2Plan is how a client speaks HTTP/2.
type HTTP2Plan struct {
	Streams int           // the most simultaneous requests
	Window  int           // SETTINGS_INITIAL_WINDOW_SIZE
	Step    int           // most bytes by which it opens windows at first; 0 for all read
	Wait    time.Duration // the longest time until it opens them
	Frame   int           // longest part of a head or a body in one frame, in bytes
	Table   int           // SETTINGS_HEADER_TABLE_SIZE
	Padded  bool
	Fuss    float64 // share of its frames that are followed by one that changes nothing
	Resize  float64 // share of its frames that are followed by one that changes its windows
	GoAway  int     // the number of frames after which it sends GOAWAY; 0 for never
	Act     string  // a forbidden action, see http2Acts; "" for none
	ActAt   int     // after this many frames
}

// The protocol's initial values for windows and frames.
const (
	usualWindow = 65_535
	usualFrame  = 16_384
	usualTable  = 4096
)

// Types and flags of frames (RFC 9113, section 6).
const (
	frameData = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePush
	framePing
	frameGoAway
	frameWindow
	frameContinuation

	flagEnd      = 0x1
	flagAck      = 0x1
	flagEndHead  = 0x4
	flagPadded   = 0x8
	flagPriority = 0x20
)

// The error codes that the actor distinguishes (RFC 9113, section 7).
const (
	noError         = 0
	protocolError   = 1
	flowError       = 3
	settingsTimeout = 4
	streamClosed    = 5
	frameSizeError  = 6
	cancelled       = 8
)

// resets are the moments at which a client resets a stream.
var resets = []string{"head", "body", "asked", "answer", "content"}

// http2Conn is the additional state of a client that speaks HTTP/2. It has its own codec: the
// gateway's codec must not judge itself.
type http2Conn struct {
	c       *client
	plan    HTTP2Plan
	act     *http2Act    // the act still to come
	blocks  bytes.Buffer // written by the encoder
	encoder *hpack.Encoder
	decoder *hpack.Decoder
	held    []byte // received bytes of an incomplete frame

	streams  []*http2Stream // all streams, in the order of their identifiers
	open     int
	next     int // index of the next request
	last     uint32
	frames   int // composed
	noise    int // number of frames that change nothing
	steps    int // number of times that windows were opened partly
	composed bool
	due      bool // a send is scheduled
	opening  bool // an opening of windows is scheduled
	marks    []mark
	settings []*change // changes of its windows that the gateway has not acknowledged
	pings    []*ping   // not acknowledged yet

	initial   int   // its latest INITIAL_WINDOW_SIZE
	receive   int64 // what the gateway may send on all streams together
	unopened  int   // bytes received and not returned to that window
	send      int64 // what it may send itself
	theirs    int64 // the gateway's INITIAL_WINDOW_SIZE
	greeted   bool  // the gateway's SETTINGS have arrived
	connects  bool  // they offer the CONNECT that begins a WebSocket
	block     []byte
	blockOf   *http2Stream // the stream whose field block is incomplete
	blockEnds bool

	lastServed uint32 // last stream in the gateway's GOAWAY
	ended      int    // finished streams
	leaving    bool   // no further request will begin
	warned     bool   // the gateway has sent a GOAWAY
	selfish    bool   // its heads depend on themselves
	hostile    bool   // it has done something for which the connection may end
	doomed     bool   // it has done something for which the connection must end
}

// mark is an action for when the given number of bytes has been sent.
type mark struct {
	at int
	do func()
}

// change is a change of INITIAL_WINDOW_SIZE.
type change struct {
	by   int
	last uint32 // the last stream begun before it
	sent bool
}

// ping is a PING.
type ping struct {
	data [8]byte
	sent bool
	done func()
}

// http2Stream is a request and its answer.
type http2Stream struct {
	answer
	q        *request
	id       uint32
	at       int   // bytes of the body already in frames
	send     int64 // what the gateway's window allows
	receive  int64 // what the gateway may send
	unopened int
	total    int     // received bytes of content
	length   int     // Content-Length; -1 for none
	cut      int     // bytes of the content after which the client resets it; -1 for never
	waits    bool    // for a 100
	said     bool    // all of the request is in frames
	whole    bool    // all of it has been sent
	final    bool    // the answer's head has arrived
	answered bool    // the answer's end has arrived
	given    bool    // the gateway has reset it
	reset    bool    // the client has reset it
	known    bool    // the gateway must know of that reset
	closed   bool    // nothing more may arrive
	talk     *talker // of a WebSocket; otherwise nil
	odd      bool    // the client has broken a rule with it
}

func newHTTP2Conn(c *client) *http2Conn {
	h := &http2Conn{
		c: c, plan: *c.plan.HTTP2, initial: usualWindow, receive: usualWindow, send: usualWindow,
		theirs: usualWindow, lastServed: math.MaxInt32,
	}
	h.encoder = hpack.NewEncoder(&h.blocks)
	h.decoder = hpack.NewDecoder(usualTable, nil)
	for i := range http2Acts {
		if http2Acts[i].name == h.plan.Act {
			h.act = &http2Acts[i]
		}
	}
	for i, p := range c.plan.Requests {
		q := c.newRequest(i, p)
		q.framed = true
		c.requests = append(c.requests, q)
	}
	return h
}

// begin is called when the connection is established.
func (h *http2Conn) begin(e *kernel.Endpoint) {
	c := h.c
	if c.speaksTLS() {
		c.line = secureClient(c.w, e, c.changed, "h2")
	}
	c.out = append(c.out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...)
	var list []byte
	if h.plan.Window != usualWindow {
		list = appendSetting(list, 4, h.plan.Window)
		h.initial = h.plan.Window
	}
	if h.plan.Table != usualTable {
		list = appendSetting(list, 1, h.plan.Table)
		h.decoder.SetAllowedMaxDynamicTableSize(uint32(h.plan.Table))
	}
	list = appendSetting(list, 2, 0) // no pushes
	h.settings = append(h.settings, &change{})
	h.frame(frameSettings, 0, 0, list)
	h.noteSettings()
	if c.rng.IntN(2) == 0 {
		h.openConnection(1 << 20)
	}
	h.compose()
}

// stream returns the stream with an identifier.
func (h *http2Conn) stream(id uint32) *http2Stream {
	i, found := slices.BinarySearchFunc(h.streams, id, func(st *http2Stream, id uint32) int {
		return int(st.id) - int(id)
	})
	if !found {
		return nil
	}
	return h.streams[i]
}

// close is called when nothing more may arrive on a stream.
func (h *http2Conn) close(st *http2Stream) {
	if st.closed {
		return
	}
	st.closed = true
	if st.talk != nil {
		st.talk.gone = true
	}
	h.open--
	h.ended++
	h.c.answeredOrNot(st.q)
	h.compose()
}

// answeredOrNot removes a request from the waiting ones.
func (c *client) answeredOrNot(q *request) {
	c.asked = slices.DeleteFunc(c.asked, func(p *request) bool { return p == q })
}

// haveSent is called after bytes have been sent.
func (h *http2Conn) haveSent() {
	for len(h.marks) > 0 && h.marks[0].at <= h.c.sent {
		do := h.marks[0].do
		h.marks = h.marks[1:]
		do()
	}
}

// onceSent calls do when everything composed so far has been sent.
func (h *http2Conn) onceSent(do func()) {
	h.marks = append(h.marks, mark{len(h.c.out), do})
}

// sendOn continues to send at the client's own pace, or leaves if everything is over.
func (h *http2Conn) sendOn() {
	c := h.c
	if c.done || c.stuck {
		return
	}
	h.due = true // not immediately
	h.compose()
	if h.due = c.sent < c.given && !c.done; !h.due {
		return
	}
	c.w.kernel.After(between(c.rng, 0, c.plan.Pause), func() {
		h.due = false
		c.send()
	})
}

// leaveIfDone ends the connection when every request is answered and its own frames are
// acknowledged.
func (h *http2Conn) leaveIfDone() {
	c := h.c
	idle := h.open == 0 && (h.leaving || h.next == len(c.requests)) && c.sent == len(c.out)
	if !idle || h.doomed || c.done || c.stuck || c.plan.Stays {
		return
	}
	if !h.warned && !h.hostile && len(h.settings)+len(h.pings) > 0 {
		return
	}
	c.finish("has all its answers", c.Close)
}

// wait is how long the connection may stand still.
func (h *http2Conn) wait(g GatewayPlan) time.Duration {
	c := h.c
	idle := max(g.Head, g.Idle)
	switch {
	case h.doomed && g.Admission == 0:
		return max(lingering, g.Head) + c.plan.Pause
	case !h.greeted: // there may be a handshake before
		return g.Head + idle
	}
	longest := time.Duration(0)
	if c.stuck {
		idle += 3 * g.Send
	}
	for _, st := range h.streams {
		switch {
		case st.closed:
		case st.talk != nil && st.final:
			longest = max(longest, st.q.rest(c, g)+h.withholds(st))
		case st.answered: // its request is incomplete and will be reset
			longest = max(longest, aWhile+c.plan.Pause)
		case !st.whole:
			longest = max(longest, slowBodies, g.Timeout, g.Stream, c.w.answering(st.q, g))
		default:
			longest = max(longest, c.w.answering(st.q, g)+h.withholds(st))
		}
	}
	switch {
	case longest > 0:
		return longest + h.plan.Wait
	case !h.warned && !h.hostile && len(h.settings)+len(h.pings) > 0 && g.Admission == 0:
		return h.plan.Wait + lingering + c.plan.Pause
	}
	return idle
}

// withholds is how long the client may pause, as between any pieces that it sends, before it sends
// what opens the window for a stream's answer.
func (h *http2Conn) withholds(st *http2Stream) time.Duration {
	if c := h.c; st.final && min(st.receive, h.receive) <= 0 && c.sent < c.given {
		return c.plan.Pause
	}
	return 0
}

// end judges the end of the connection.
func (h *http2Conn) end() {
	c := h.c
	if c.w.scenario.Quiet && !c.w.ending && len(c.asked) > 0 && !c.holdsUp() {
		c.w.violate("%s loses its connection although nobody misbehaves, with %s not answered",
			c.name, c.asked[0].token)
	}
	for _, st := range h.streams {
		if st.talk != nil && !st.closed {
			st.talk.gone = true
		}
	}
}

// offersHTTP2 reports whether a listener of the n-th configuration offers HTTP/2.
func (s *Scenario) offersHTTP2(listener, n int) bool {
	offers := s.Gateway.HTTP2
	if n > 0 && !s.Quiet && offers != [2]bool{} {
		if r := s.stream(ofHTTP2, uint64(n)); r.IntN(8) == 0 {
			offers[r.IntN(2)] = r.IntN(2) == 0
		}
	}
	return offers[listener]
}

// addHTTP2 makes some of the clients speak HTTP/2.
func (s *Scenario) addHTTP2(r *rand.Rand, mood float64) {
	if r.IntN(3) == 0 {
		return
	}
	s.Gateway.HTTP2 = [2]bool{r.IntN(4) > 0, r.IntN(4) > 0}
	if s.Gateway.TLS {
		s.Gateway.HTTP2[1] = true
	}
	for range r.IntN(3) { // clients with many requests
		c := drawClient(r, mood, time.Second)
		for range r.IntN(16) {
			c.Requests = append(c.Requests, drawRequest(r, mood))
		}
		s.Clients = append(s.Clients, c)
	}
	share := r.Float64()
	for i := range s.Clients {
		c := &s.Clients[i]
		offered := s.Gateway.HTTP2[c.Listener] || !s.Quiet && r.IntN(20) == 0
		if r.Float64() < share && offered {
			s.drawHTTP2(r, c, mood)
		}
	}
}

// drawHTTP2 makes a client speak HTTP/2.
func (s *Scenario) drawHTTP2(r *rand.Rand, c *ClientPlan, mood float64) {
	p := &HTTP2Plan{
		Streams: 1 + r.IntN(20), Window: usualWindow, Table: usualTable, Frame: 20 + r.IntN(usualFrame),
	}
	if r.IntN(2) == 0 {
		p.Frame = usualFrame
	}
	if r.IntN(3) == 0 {
		p.Window = []int{0, r.IntN(100), r.IntN(1 << 14), r.IntN(1 << 20)}[r.IntN(4)]
		p.Step, p.Wait = 1+r.IntN(1+r.IntN(20_000)), between(r, 0, 50*time.Millisecond)
	}
	if r.IntN(4) == 0 {
		p.Table = r.IntN(1 << 15)
	}
	if r.IntN(4) == 0 {
		p.Resize = 0.3 * r.Float64()
	}
	p.Padded, p.Fuss = r.IntN(3) == 0, some(r, 0.3, 0.5)
	if r.IntN(20) == 0 {
		p.GoAway = 1 + r.IntN(40)
	}
	if !s.Quiet && r.Float64() < 0.15 {
		p.Act, p.ActAt = http2Acts[r.IntN(len(http2Acts))].name, r.IntN(30)
	}
	if !s.Quiet && r.IntN(10) == 0 {
		p.Wait = between(r, 0, 4*time.Second)
	}
	c.HTTP2 = p
	if s.Quiet { // many streams share what is slow even for one
		c.Pieces, c.ReadRate = 0, 0
	}
	c.Requests = slices.Clone(c.Requests)
	for i := range c.Requests {
		q := &c.Requests[i]
		q.Old, q.Close, q.Upgrade, q.Absolute = false, false, false, false
		if q.Spoiled > 0 {
			q.Spoiled = 1 + r.IntN(len(http2Spoilers))
		}
		if r.Float64() < mood/8 {
			q.Reset = resets[r.IntN(len(resets))]
		}
		q.Halts = q.Body > 0 && r.Float64() < mood/20
		q.Waits = q.Waits && !q.Halts
	}
}
