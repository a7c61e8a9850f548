package proxy

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/crash"
	"plimsoll/internal/exchange"
	"plimsoll/internal/http2"
	"plimsoll/internal/http3"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
	"plimsoll/internal/upstream"
)

// http3Conn is a client's HTTP/3 connection (RFC 9114). quic-go deals with the packets, on its
// goroutines. The exchanges of all streams of a connection are on one loop. What passes between the
// two goes through Loop.Post, and is bounded:
//
//   - Each stream has a goroutine that reads it until the request is whole: see http3_read.go. It
//     hands over the head, and then pieces of the body, each when the loop has taken the one
//     before.
//   - A response goes into the stream's queue. A goroutine, which lives as long as the queue is not
//     empty, passes it to quic-go. A small one goes to quic-go at once: see http3_send.go.
//   - The connection's own goroutine accepts streams, and another one unidirectional streams.
//
// Everything but q belongs to the loop.
type http3Conn struct {
	origin
	w       *Worker
	q       *quic.Conn
	control *quic.SendStream // our control stream; nil until it is open
	// The listener at the last request, for the goroutines that read.
	current    atomic.Pointer[Listener]
	reading    sync.WaitGroup // goroutines of the connection and its streams
	next, prev *http3Conn     // in the worker's list

	head    http2.RequestHead
	budget  http2.Budget
	first   *http3Stream // all streams whose request has begun, oldest first
	newest  *http3Stream
	timer   reactor.Timer
	counted netip.Addr // the address for which the quota counts the connection
	since   int64
	leaveAt int64
	last    quic.StreamID // the highest stream that a request came on
	open    int           // how many streams are open
	leaving leaving
	began   bool // a request has come, so last is valid
	quota   bool // the quota counts the connection
	adopted bool
	dead    bool // it is closed, or about to be
}

const (
	// http3Linger is for how many round trips a connection stays open after its last response was
	// sent: packets that were lost must be sent again before it is closed. Clients usually close it
	// earlier.
	http3Linger    = 8
	http3LingerMin = lingerTime / 20
)

// ServeHTTP3 serves a connection whose handshake is complete, or whose client has begun with early
// data. It returns when the connection and all of its streams are over. It blocks, so loops must
// not call it.
func ServeHTTP3(a *Acceptor, q *quic.Conn) {
	h := &http3Conn{w: a.Worker, q: q}
	w := h.w
	w.shared.HTTP3.Add(1)
	defer w.shared.HTTP3.Add(-1)
	h.origin = origin{acceptor: a, peer: addrPort(q.RemoteAddr()), highest: upstream.Classes}
	state := tlsio.StateOf(q.ConnectionState().TLS)
	h.tlsInfo = &exchange.TLS{
		Version: state.Version, ServerName: state.ServerName, Subject: state.Subject, Resumed: state.Resumed,
	}
	ready := make(chan bool, 1)
	w.loop.Post(func() { ready <- h.adopt(state.Resumed) })
	select {
	case ok := <-ready:
		if !ok {
			q.CloseWithError(code(http3.ExcessiveLoad), "")
			return
		}
	case <-q.Context().Done(): // the loop may be gone too
	}
	h.reading.Go(h.acceptUni)
	h.acceptRequests()
	h.reading.Wait()
	w.loop.Post(h.gone)
}

func code(c http3.Code) quic.ApplicationErrorCode { return quic.ApplicationErrorCode(c) }

func streamCode(c http3.Code) quic.StreamErrorCode { return quic.StreamErrorCode(c) }

func addrPort(a net.Addr) netip.AddrPort {
	p := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// adopt makes the connection belong to the loop. It returns false if it is one connection too many.
func (h *http3Conn) adopt(resumed bool) bool {
	w, a := h.w, h.acceptor
	h.listener = a.Listener
	h.current.Store(h.listener)
	h.counted = h.peer.Addr()
	if w.closed || !h.admit() {
		return false
	}
	h.adopted, h.since = true, w.loop.Now()
	h.next, h.prev = w.http3.next, &w.http3
	h.next.prev, h.prev.next = h, h
	w.shard.Accepted++
	w.countHandshake(&tlsio.State{Version: h.tlsInfo.Version, Resumed: resumed})
	if !h.greet() {
		h.close(http3.StreamCreationError)
		return true
	}
	w.loop.SetTimer(&h.timer, h, w.loop.Now()+h.listener.IdleTimeout)
	if w.draining || a.Closed || !a.Listener.HTTP3 {
		h.leave(warned)
	}
	return true
}

// admit counts the connection against the bounds on connections, and reports whether they allow it.
func (h *http3Conn) admit() bool {
	w := h.w
	if w.shared.Clients.Add(1) > w.shared.MaxClients.Load() {
		w.shared.Clients.Add(-1)
		w.shed()
		return false
	}
	r, counted := h.listener.Quota.take(h.counted)
	h.quota = counted
	switch r {
	case tooMany:
		w.shard.RefusedConnections[telemetry.ListenerFull]++
	case tooManyOfAddress:
		w.shard.RefusedConnections[telemetry.AddressFull]++
	default:
		return true
	}
	w.shared.Clients.Add(-1)
	return false
}

// greet opens our control stream and sends our SETTINGS.
func (h *http3Conn) greet() bool {
	control, err := h.q.OpenUniStream()
	if err != nil {
		return false // the client must allow one, and does not
	}
	h.control = control
	return control.TryWriteAll(http3.AppendControl(nil,
		http3.Setting{ID: http3.MaxFieldSectionSize, Value: uint64(h.listener.HTTP2.Head)},
		http3.Setting{ID: http3.EnableConnectProtocol, Value: 1})) == nil
}

// acceptRequests begins to read each request, until the connection ends.
func (h *http3Conn) acceptRequests() {
	for {
		q, err := h.q.AcceptStream(h.q.Context())
		if err != nil {
			return
		}
		h.reading.Go(func() { readHTTP3(h, q) })
	}
}

// acceptUni reads the client's unidirectional streams, until the connection ends.
func (h *http3Conn) acceptUni() {
	var kinds uniKinds
	for {
		s, err := h.q.AcceptUniStream(h.q.Context())
		if err != nil {
			return
		}
		h.reading.Go(func() { h.readUni(s, &kinds) })
	}
}

// uniKinds notes which of the streams that a connection may have only one of were opened.
type uniKinds struct {
	mu   sync.Mutex
	seen [4]bool
}

// add notes a stream, and reports whether it is the first of its kind.
func (k *uniKinds) add(t http3.StreamType) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen[t] {
		return false
	}
	k.seen[t] = true
	return true
}

// readUni reads a unidirectional stream to its end. A stream of a known type must not end.
func (h *http3Conn) readUni(s *quic.ReceiveStream, kinds *uniKinds) {
	defer crash.Guard("where a stream of an HTTP/3 connection is read")
	defer s.ReleaseStreamCredit()
	var u http3.Uni
	buf := make([]byte, 512)
	known := false
	for {
		n, err := s.Read(buf)
		for in := buf[:n]; len(in) > 0; {
			used, change, why := u.Take(in)
			in = in[used:]
			if t, ok := u.Type(); ok && !known && why == http3.OK {
				known = true
				switch {
				case t > http3.DecoderStream:
					h.spendUnknown()
					s.CancelRead(streamCode(http3.StreamCreationError))
					return
				case !kinds.add(t):
					why = http3.BadStream
				}
			}
			if why == http3.OK && change.GoAway {
				h.w.loop.Post(func() { h.leave(left) })
			}
			if why != http3.OK {
				h.w.loop.Post(func() { h.fail(why) })
				return
			}
		}
		if err != nil {
			switch {
			case h.q.Context().Err() != nil:
			case known:
				h.w.loop.Post(func() { h.fail(http3.CriticalStreamEnd) })
			default: // it ended before its type came
				h.spendUnknown()
			}
			return
		}
	}
}

// spendUnknown counts a unidirectional stream of no use. Clients open one now and then to check
// that it is ignored.
func (h *http3Conn) spendUnknown() {
	h.w.loop.Post(func() {
		if !h.dead {
			h.spend(http2.UnknownKind, http3.TooMuchUnknown)
		}
	})
}

// fail ends the connection because of a fault of the client.
func (h *http3Conn) fail(why http3.Reason) {
	if h.dead {
		return
	}
	h.w.shard.RefusedHTTP3[why]++
	h.close(why.Code())
}

// close ends the connection and every exchange of it.
func (h *http3Conn) close(c http3.Code) {
	if h.dead {
		return
	}
	h.dead = true
	q := h.q
	go q.CloseWithError(code(c), "") // on a goroutine, because it waits for quic-go
	h.giveUpAll(exchange.NoReason)
}

// abort ends the connection from our side.
func (h *http3Conn) abort(reason exchange.Reason) {
	h.giveUpAll(reason)
	h.close(http3.NoError)
}

// gone is called when the connection has ended and its goroutines have returned.
func (h *http3Conn) gone() {
	h.dead = true
	h.giveUpAll(exchange.NoReason)
	if !h.adopted {
		return
	}
	h.adopted = false
	w := h.w
	w.loop.ReleaseTimer(&h.timer)
	h.next.prev, h.prev.next = h.prev, h.next
	h.next, h.prev = nil, nil
	h.listener.Quota.give(h.counted, h.quota)
	w.shared.Clients.Add(-1)
	w.shard.Closed++
}

// giveUpAll ends the exchanges of all streams. The upstream connection that one gives up may go to
// another, and that may end at once. So giveUpAll begins again at the head of the list after each.
func (h *http3Conn) giveUpAll(reason exchange.Reason) {
	for {
		st := h.first
		for st != nil && st.how == peerReset {
			st = st.after
		}
		if st == nil {
			return
		}
		st.how = peerReset
		st.giveUp(reason)
	}
}

// leave tells the client that the connection ends, in two steps if there is time. Requests that are
// on their way when the first GOAWAY arrives are still served (RFC 9114, section 5.2).
func (h *http3Conn) leave(how leaving) {
	if h.dead || h.leaving >= how || !h.adopted {
		return
	}
	h.leaving = how
	id := http3.LastStream
	if how == warned {
		h.leaveAt = h.w.loop.Now() + min(drainGrace, h.listener.IdleTimeout)
		h.w.loop.SetTimer(&h.timer, h, h.leaveAt)
	} else {
		id = h.nextStream()
	}
	if h.control.TryWriteAll(http3.AppendGoAway(nil, id)) != nil && h.open == 0 {
		h.close(http3.NoError)
		return
	}
	h.lingerIfIdle()
}

// nextStream returns the identifier of the first stream on which no request has come.
func (h *http3Conn) nextStream() uint64 {
	if !h.began {
		return 0
	}
	return uint64(h.last) + 4
}

// lingerIfIdle gives a connection that has no stream left, and accepts no further one, time for
// what is on its way to the client.
func (h *http3Conn) lingerIfIdle() {
	if h.leaving != left || h.open > 0 || h.dead {
		return
	}
	trip := int64(h.q.ConnectionStats().SmoothedRTT)
	wait := min(max(http3Linger*trip, http3LingerMin), lingerTime)
	h.w.loop.SetTimer(&h.timer, h, h.w.loop.Now()+wait)
}

// Expire implements reactor.Expirer: there was no request for too long, or the time between the two
// GOAWAYs is over, or the time after the last response is.
func (h *http3Conn) Expire(*reactor.Timer, int64) {
	switch {
	case h.leaving == warned:
		h.leave(left)
	case h.open > 0:
	case h.leaving == left:
		h.close(http3.NoError)
	default:
		h.leave(left)
	}
}

// streamEnded decides how the connection goes on when one of its streams is over.
func (h *http3Conn) streamEnded() {
	switch {
	case h.dead:
	case h.leaving == left:
		h.lingerIfIdle()
	case h.leaving == warned: // the timer ends it
	case h.acceptor.Closed || h.w.draining || h.outworn():
		h.leave(warned)
	case h.open == 0:
		h.w.loop.SetTimer(&h.timer, h, h.w.loop.Now()+h.listener.IdleTimeout)
	}
}

// outworn reports whether the connection has had as many requests as it may.
func (h *http3Conn) outworn() bool {
	return h.listener.MaxRequests > 0 && h.requests >= h.listener.MaxRequests
}

// spend counts an act of the client that costs the gateway work and serves no purpose. It returns
// false if it was one too many; the connection is over then.
func (h *http3Conn) spend(kind http2.Kind, why http3.Reason) bool {
	if h.budget.Spend(kind, h.w.loop.Now()) == http2.OK {
		return true
	}
	h.fail(why)
	return false
}

// LeaveHTTP3 makes the HTTP/3 connections of an acceptor end after their present exchanges. Tunnels
// of WebSocket would keep them open, so it closes these.
func (w *Worker) LeaveHTTP3(a *Acceptor) {
	w.leaveTunnels(telemetry.ByRemoval, func(f *flow) bool {
		return f.origin.acceptor == a && f.losesHTTP3()
	})
	w.eachHTTP3(func(h *http3Conn) {
		if h.acceptor == a {
			h.leave(warned)
		}
	})
}

// losesHTTP3 reports whether the exchange came over HTTP/3 and its listener no longer offers that.
func (f *flow) losesHTTP3() bool { return f.version == http30 && !f.origin.acceptor.Listener.HTTP3 }

// eachHTTP3 calls f with every HTTP/3 connection that there is now; f may end connections.
func (w *Worker) eachHTTP3(f func(*http3Conn)) {
	var all []*http3Conn
	for h := w.http3.next; h != &w.http3; h = h.next {
		all = append(all, h)
	}
	for _, h := range all {
		f(h)
	}
}

// status describes the connection for the admin API.
func (h *http3Conn) status() ClientStatus {
	s := ClientStatus{
		Peer: h.peer, Listener: h.listener.Name, Since: h.since, State: "http3", Requests: h.requests,
		TLS: h.tlsInfo.Version, Name: short(h.tlsInfo.ServerName),
	}
	for st := h.first; st != nil; st = st.after {
		s.Queued += st.out.waiting()
	}
	return s
}
