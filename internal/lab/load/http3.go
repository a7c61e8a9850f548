package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/http3"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// http3Conn speaks HTTP/3 (RFC 9114) over quic-go. quic-go's goroutines handle the packets: its
// socket is not the loop's. The loop passes a request to quic-go, and the request counts as sent
// then. A goroutine per request reads the answer and hands it over complete.
//
// So an answer counts as received when the loop learns of it. That is later than its last packet,
// by the time two goroutines wait for a processor. As over TCP, the generator's own time is part of
// the measurement, but here it is larger.
type http3Conn struct {
	c       *conn
	q       *quic.Conn // nil while there is none
	cancel  context.CancelFunc
	encoder http3.Encoder
	spare   *quic.Stream // for the next request; nil if none is open
	waits   bool         // a goroutine waits for a spare stream
	leaving bool         // no more requests may begin
	streams map[quic.StreamID]*http3Stream
}

// Our settings: bodies are used as they arrive, so the windows are large enough never to be the
// limit.
var quicConfig = &quic.Config{
	InitialStreamReceiveWindow: 16 << 20, MaxStreamReceiveWindow: 16 << 20,
	InitialConnectionReceiveWindow: 64 << 20, MaxConnectionReceiveWindow: 64 << 20,
	MaxIdleTimeout: 30 * time.Second,
}

func newHTTP3(c *conn) *http3Conn {
	return &http3Conn{c: c, streams: map[quic.StreamID]*http3Stream{}}
}

// listenUDP opens the socket that all connections of a loop share.
func (w *worker) listenUDP() error {
	if w.quic != nil {
		return nil
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return fmt.Errorf("QUIC: %w", err)
	}
	w.quic = &quic.Transport{Conn: conn}
	return nil
}

// closeUDP closes that socket and the remaining connections. The loop has ended.
func (w *worker) closeUDP() {
	if w.quic != nil {
		w.quicClosing.Wait() // every target has been told
		w.quic.Close()
		w.quic.Conn.Close()
	}
}

// dial starts a handshake on a goroutine.
func (h *http3Conn) dial(to reactor.Address) error {
	w := h.c.w
	if err := w.listenUDP(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.c.state = shaking
	w.shaking++
	go func() {
		q, err := w.quic.Dial(ctx, net.UDPAddrFromAddrPort(to.IP), w.run.Target.TLS, quicConfig)
		cancel()
		w.loop.Post(func() { h.dialled(q, err) })
	}()
	return nil
}

// dialled takes the connection over from the goroutine.
func (h *http3Conn) dialled(q *quic.Conn, err error) {
	c := h.c
	w := c.w
	w.shaking--
	if w.phase == closing || c.state == aborting {
		if err == nil {
			w.closeQUIC(q, http3.NoError)
		}
		if w.phase == closing {
			c.shut()
			w.stopWhenClosed()
			return
		}
		err = errOpenTimeout
	}
	if err != nil {
		c.giveUp(fmt.Errorf("QUIC: %w", err))
		return
	}
	h.q = q
	if q.ConnectionState().TLS.DidResume {
		w.resumed++
	}
	c.state = greeting
	h.start()
}

// start implements protocol.
func (h *http3Conn) start() {
	h.leaving = false
	control, err := h.q.OpenUniStream()
	if err == nil {
		err = control.TryWriteAll(http3.AppendControl(nil,
			http3.Setting{ID: http3.MaxFieldSectionSize, Value: uint64(headLimits.Head)}))
	}
	if err != nil {
		h.c.giveUp(fmt.Errorf("HTTP/3: %w", err))
		return
	}
	q := h.q
	context.AfterFunc(q.Context(), func() {
		h.c.w.loop.Post(func() { h.ended(q, context.Cause(q.Context())) })
	})
	go h.listen(q)
	h.c.ready()
}

// listen accepts the target's unidirectional streams. It is a goroutine that ends with the
// connection.
func (h *http3Conn) listen(q *quic.Conn) {
	for {
		s, err := q.AcceptUniStream(q.Context())
		if err != nil {
			return
		}
		go h.readUni(q, s)
	}
}

func (h *http3Conn) readUni(q *quic.Conn, s *quic.ReceiveStream) {
	loop := h.c.w.loop
	u := http3.Uni{Server: true}
	buf := make([]byte, 512)
	for {
		n, err := s.Read(buf)
		for in := buf[:n]; len(in) > 0; {
			used, change, why := u.Take(in)
			in = in[used:]
			if change.GoAway {
				loop.Post(func() { h.goAway(q, quic.StreamID(change.ID)) })
			}
			if t, known := u.Type(); known && t == http3.PushStream && why == http3.OK {
				why = http3.BadStream // we do not allow pushes
			}
			if why != http3.OK {
				loop.Post(func() { h.violated(q, why) })
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// room implements protocol. If the target allows no more streams, a goroutine waits for one.
func (h *http3Conn) room() bool {
	if h.q == nil || h.leaving || h.c.under >= h.c.w.run.Streams {
		return false
	}
	if h.spare == nil && !h.waits {
		h.spare, _ = h.q.OpenStream()
		if h.spare == nil {
			h.waits = true
			go h.awaitStream(h.q)
		}
	}
	return h.spare != nil
}

func (h *http3Conn) awaitStream(q *quic.Conn) {
	s, err := q.OpenStreamSync(q.Context())
	h.c.w.loop.Post(func() {
		if h.q != q {
			return
		}
		h.waits = false
		if err == nil {
			h.spare = s
			h.c.w.now = reactor.Clock()
			h.c.reuse(!h.leaving)
			h.c.w.afterEvent()
		}
	})
}

// exchange implements protocol.
func (h *http3Conn) exchange() *exchange {
	s := &http3Stream{q: h.spare}
	s.c, s.number = h.c, h.spare.StreamID()
	h.spare = nil
	h.streams[s.number] = s
	s.exchange.stream = uint32(s.number / 4)
	return &s.exchange
}

// of returns the stream of an exchange.
func (h *http3Conn) of(x *exchange) *http3Stream { return h.streams[4*quic.StreamID(x.stream)] }

// receive implements protocol. There is no socket to read.
func (h *http3Conn) receive() {}

// drained implements protocol.
func (h *http3Conn) drained() {}

// expire implements protocol. It resets the stream and keeps the connection. A dead connection ends
// by quic-go's own timeout.
func (h *http3Conn) expire(x *exchange) {
	s := h.of(x)
	s.abandon()
	h.fail(s, measure.Timeout, "no whole answer within the timeout", nil)
	h.c.reuse(!h.leaving)
}

// fail counts the request of a finished stream as ended with kind. why and err are for humans; err
// may be nil.
func (h *http3Conn) fail(s *http3Stream, kind measure.Kind, why string, err error) {
	w := h.c.w
	if w.examples[kind] == "" {
		w.example(kind, why, err)
	}
	w.sessionOver(s.over(kind))
	delete(h.streams, s.number)
}

// end implements protocol.
func (h *http3Conn) end(kind measure.Kind) {
	for _, s := range h.streams {
		s.abandon()
		h.c.w.sessionOver(s.over(kind))
		delete(h.streams, s.number)
	}
}

// release implements protocol.
func (h *http3Conn) release() {
	q := h.q
	h.q, h.spare, h.waits = nil, nil, false
	if q != nil {
		h.c.w.closeQUIC(q, http3.NoError)
	}
}

// closeQUIC closes a connection on a goroutine, because closing waits for quic-go.
func (w *worker) closeQUIC(q *quic.Conn, code http3.Code) {
	w.quicClosing.Go(func() { q.CloseWithError(quic.ApplicationErrorCode(code), "") })
}

// ended handles the end of the connection.
func (h *http3Conn) ended(q *quic.Conn, err error) {
	c := h.c
	if h.q != q || c.w.phase == closing {
		return
	}
	c.w.now = reactor.Clock()
	if c.under == 0 {
		c.again()
	} else {
		c.fail(measure.ConnectionLost, "the connection ended before the whole answer was there", err)
	}
	c.w.afterEvent()
}

// violated ends the connection because of what the target sent.
func (h *http3Conn) violated(q *quic.Conn, why http3.Reason) {
	c := h.c
	if h.q != q || c.w.phase == closing {
		return
	}
	c.w.now = reactor.Clock()
	h.q = nil
	c.w.closeQUIC(q, why.Code())
	if c.under == 0 {
		c.again()
	} else {
		c.fail(measure.BadHTTP, "what came breaks the rules of HTTP/3", why)
	}
	c.w.afterEvent()
}

// goAway handles GOAWAY: no more requests begin, and those that the target will not process end.
func (h *http3Conn) goAway(q *quic.Conn, first quic.StreamID) {
	c := h.c
	if h.q != q || c.state != open {
		return
	}
	c.w.now = reactor.Clock()
	h.leaving = true
	c.w.leaveIdle(c)
	for id, s := range h.streams {
		if id >= first {
			s.abandon()
			h.fail(s, measure.Refused, "the target goes away and did not take the stream", nil)
		}
	}
	c.reuse(false)
	c.w.afterEvent()
}

// refused reports whether the target rejected a stream before processing it.
func refused(err error) bool {
	reset, ok := errors.AsType[*quic.StreamError](err)
	return ok && http3.Code(reset.ErrorCode) == http3.RequestRejected
}
