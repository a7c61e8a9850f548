package load

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"syscall"

	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// http2Conn speaks HTTP/2 (RFC 9113), with as many requests at once as it has streams.
//
// It is greeting until the target's SETTINGS arrive: only they say how many streams are allowed. A
// timeout resets its stream and no other. After GOAWAY, the streams that the target still handles
// end normally; then the connection is replaced.
type http2Conn struct {
	c       *conn
	reader  http2.Reader
	decoder hpack.Decoder
	encoder hpack.Encoder
	peer    http2.Settings
	window  http2.SendWindow
	receipt http2.ReceiveWindow

	slots []*stream // streams under way, by identifier: see at
	next  uint32    // minimum identifier of the next stream
	fresh *stream   // its head is in the worker's response and not kept; usually nil

	rest      []byte // the beginning of an incomplete frame
	block     []byte // an incomplete field block
	blockEnds bool   // nothing follows it on its stream

	out      []byte   // frames to send with the loop's batch
	unsent   []uint32 // streams whose heads are in out
	sending  int      // streams whose request bodies are not completely sent
	asked    int64    // when a PING was sent, if nothing has come since; otherwise 0
	flushing bool     // Run is scheduled
	leaving  bool     // no more requests may begin
}

// Our settings. Bodies are counted and dropped as they arrive, so the windows are large enough
// never to be the limit.
const (
	windowSize   = 1 << 30
	lastStream   = 1<<31 - 1
	maxFrameSize = 16 << 10
	tableSize    = hpack.Initial
)

// headLimits limit the head of an answer, like limits in HTTP/1.1.
var headLimits = http2.Limits{Head: 64 << 10, Fields: 256}

// mostBlock limits a field block, in bytes. A head within headLimits is never larger.
const mostBlock = 128 << 10

// mostQueued limits the bytes queued for a target that does not read. Bodies stop far below it.
const mostQueued = 1 << 20

// announced is the frames that begin a connection.
var announced = http2.AppendSettings([]byte(http2.Preface),
	http2.Setting{ID: http2.EnablePush, Value: 0},
	http2.Setting{ID: http2.InitialWindowSize, Value: windowSize},
	http2.Setting{ID: http2.MaxHeaderListSize, Value: uint32(headLimits.Head)})

// Errors for targets that turn out not to speak HTTP/2.
var (
	errNotHTTP2 = errors.New("the target answers in HTTP/1.1: it does not speak HTTP/2 here")
	errNoHTTP2  = errors.New("the target ended the connection when HTTP/2 began: " +
		"does it speak HTTP/2 here?")
)

func newHTTP2(c *conn) *http2Conn {
	// Twice as many slots as streams: see exchange.
	slots := 1 << bits.Len(uint(2*c.w.run.Streams-1))
	return &http2Conn{c: c, slots: make([]*stream, slots)}
}

// start implements protocol.
func (h *http2Conn) start() {
	h.reader.Reset(false, maxFrameSize)
	h.decoder.Init(tableSize)
	h.encoder.Init(tableSize, true)
	h.peer = http2.InitialSettings()
	h.window = http2.ConnectionWindow
	h.receipt = http2.NewReceiveWindow(http2.ConnectionWindow)
	h.next, h.asked, h.leaving = 1, 0, false
	h.out = append(h.out[:0], announced...)
	h.out = http2.AppendWindowUpdate(h.out, 0, h.receipt.Grow(windowSize))
	h.flush()
	h.receive() // data that came during a handshake causes no further event
}

// limit returns how many streams there may be at once.
func (h *http2Conn) limit() int {
	return int(min(uint32(h.c.w.run.Streams), h.peer.MaxConcurrentStreams))
}

// room implements protocol.
func (h *http2Conn) room() bool { return !h.leaving && h.c.under < h.limit() }

// at returns the stream under way with an identifier, or nil.
func (h *http2Conn) at(id uint32) *stream {
	s := h.slots[int(id>>1)&(len(h.slots)-1)]
	if s == nil || s.stream != id {
		return nil
	}
	return s
}

// exchange implements protocol. A stream's identifier determines its slot. An identifier whose slot
// is still taken by a slow stream is skipped, as RFC 9113 allows (section 5.1.1). At least half of
// the slots are free, so on average at most one identifier in two is skipped.
func (h *http2Conn) exchange() *exchange {
	for h.slots[int(h.next>>1)&(len(h.slots)-1)] != nil {
		h.next += 2
	}
	s := h.c.w.newStream()
	s.c, s.stream = h.c, h.next
	s.window = http2.SendWindow(h.peer.InitialWindowSize)
	s.receipt = http2.NewReceiveWindow(windowSize)
	s.headed = false
	h.slots[int(h.next>>1)&(len(h.slots)-1)] = s
	h.next += 2
	// There are always enough identifiers left for one more stream.
	h.leaving = h.leaving || h.next > lastStream-2*uint32(len(h.slots))
	return &s.exchange
}

// expire implements protocol. It resets the stream and keeps the connection, unless the connection
// is dead: if not even a PING is answered within a request's timeout.
func (h *http2Conn) expire(x *exchange) {
	w := h.c.w
	dead := h.asked != 0 && w.now-h.asked >= int64(w.run.Timeout)
	if h.asked == 0 {
		h.asked = w.now
		h.out = http2.AppendPing(h.out, false, [8]byte{})
	}
	h.out = http2.AppendRST(h.out, x.stream, http2.Cancel)
	h.flushSoon()
	h.fail(h.at(x.stream), measure.Timeout, "no whole answer within the timeout", nil)
	if dead {
		h.lost(measure.ConnectionLost,
			"nothing came on the connection, not even an answer to PING", nil)
		return
	}
	h.c.reuse(!h.leaving)
}

// cut resets a stream and counts its request as ended with kind.
func (h *http2Conn) cut(s *stream, code http2.Code, kind measure.Kind, why string, err error) {
	h.out = http2.AppendRST(h.out, s.stream, code)
	h.flushSoon()
	h.fail(s, kind, why, err)
	h.c.reuse(!h.leaving)
}

// fail counts the request of a finished stream as ended with kind. why and err are for humans; err
// may be nil.
func (h *http2Conn) fail(s *stream, kind measure.Kind, why string, err error) {
	w := h.c.w
	if w.examples[kind] == "" {
		w.example(kind, why, err)
	}
	w.sessionOver(s.over(kind))
	h.forget(s)
}

// forget removes a stream whose request has ended.
func (h *http2Conn) forget(s *stream) {
	w := h.c.w
	h.slots[int(s.stream>>1)&(len(h.slots)-1)] = nil
	if s.sending {
		s.sending = false
		h.sending--
	}
	if h.fresh == s {
		h.fresh = nil
	}
	w.putHeld(&s.exchange)
	w.dropStream(s)
}

// end implements protocol.
func (h *http2Conn) end(kind measure.Kind) {
	for _, s := range h.slots {
		if s != nil {
			h.c.w.sessionOver(s.over(kind))
			h.forget(s)
		}
	}
}

// release implements protocol.
func (h *http2Conn) release() {
	h.out, h.unsent = h.out[:0], h.unsent[:0]
	h.rest, h.block = h.rest[:0], h.block[:0]
}

// lost ends a connection that is no longer usable, and its requests with kind.
func (h *http2Conn) lost(kind measure.Kind, why string, err error) {
	c := h.c
	switch {
	case c.state == greeting:
		c.giveUp(fmt.Errorf("HTTP/2: %w", err))
	case c.under == 0:
		c.again()
	default:
		c.fail(kind, why, err)
	}
}

// ended handles the end of the target's data.
func (h *http2Conn) ended(err error) {
	if h.c.state == greeting && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)) {
		err = errNoHTTP2
	}
	h.lost(measure.ConnectionLost, "the connection ended before the whole answer was there", err)
}

// violated ends the connection because of what the target sent, and sends the reason.
func (h *http2Conn) violated(reason http2.Reason) {
	h.out = http2.AppendGoAway(h.out, 0, reason.Code(), reason.Error())
	h.flush()
	h.lost(measure.BadHTTP, "what came breaks the rules of HTTP/2", reason)
}

// drained implements protocol.
func (h *http2Conn) drained() { h.pump() }

// receive implements protocol.
func (h *http2Conn) receive() {
	c := h.c
	w := c.w
	for i := range readsAtOnce {
		if i > 0 {
			w.now = reactor.Clock()
		}
		b := w.loop.Scratch()
		kept := copy(b, h.rest)
		n, err := c.read(b[kept:])
		if n == 0 {
			if err != reactor.ErrAgain {
				h.ended(err)
			}
			return
		}
		h.asked = 0
		if w.phase == running {
			w.part.in += uint64(n)
		}
		b = b[:kept+n]
		used := h.frames(b)
		if !h.alive() {
			return
		}
		h.rest = append(h.rest[:0], b[used:]...)
		if !c.mayRead() {
			return
		}
	}
	c.readLater()
}

// alive reports whether the socket is still the one being read.
func (h *http2Conn) alive() bool { return h.c.state == open || h.c.state == greeting }
