// Package proxy is the data plane: it connects the codecs, the connections of clients and
// upstreams, and the policies, and moves bytes between them. It knows nothing of configuration
// files or of how a gateway is started and stopped: it is given compiled Snapshots and Listeners,
// and runs them.
//
// Everything belongs to one Worker, and so to one loop: client connections, the upstream
// connections that they use, the exchanges. The life of a request, file by file:
//
//	client_conn.go    a client's connection, of any protocol version: accepted, lingering, closed
//	handshake.go      a client of TLS: its handshake
//	quota.go          how many connections a listener takes, in all and from each address
//	lines.go          the connections that wait to be read while the loop has more to do than it can
//	stream.go         what an exchange talks to on its client's side
//	http1_client.go   HTTP/1.1: bytes arrive; a head is complete; the next request
//	http1_stream.go   HTTP/1.1: the request's body is read, the response framed
//	http2_client.go   HTTP/2: a connection's frames arrive
//	http2_fields.go   HTTP/2: requests begin
//	http2_trailers.go HTTP/2: the trailers of a stream, and their memory
//	http2_stream.go   HTTP/2: a stream's life, and the request's body
//	http2_send.go     HTTP/2: responses, as far as the client's windows let them
//	http3_conn.go     HTTP/3: a connection of quic-go, and what it announces
//	http3_read.go     HTTP/3: the goroutine that reads a request
//	http3_stream.go   HTTP/3: a stream's life on its loop, and the request's body
//	http3_send.go     HTTP/3: responses, and the goroutine that writes one
//	http2_priority.go HTTP/2: priorities of streams (RFC 9218)
//	http2_tunnel.go   HTTP/2: a WebSocket as a stream
//	http2_counts.go   HTTP/2: how many streams clients have open
//	flow.go           the exchange begins: canonical path, route, policies
//	claims.go         the class and the deadline that a trusted peer may state
//	dispatch.go       a target is picked, a connection found or made, the request sent; retries
//	expect.go         whether the gateway or the upstream tells the client to send its body
//	fields.go         which fields neither side gets, in trailers and interim responses too
//	hold.go           the request's body is received, as far as it is held
//	request.go        the request's body is streamed upstream
//	share.go          a full pool is shared between clients
//	upstream_conn.go  a connection to a target, of any protocol version: dialled, pooled, closed
//	http1_upstream.go HTTP/1.1: the upstream's bytes arrive
//	http2_upstream.go HTTP/2: the upstream's frames arrive
//	http2_request.go  HTTP/2: a request to an upstream, and its response
//	response.go       the response's head and body are streamed to the client
//	answer.go         answers that the gateway gives itself
//	finish.go         the exchange is over: counted, logged, and the client's next request begins
//	objective.go      whether an exchange met the objective of its SLA class
//	pace.go           how slowly a client may read its responses
//	tunnel.go         after a 101: bytes both ways
//	websocket*.go     likewise, where the bytes are frames of WebSocket
//	mirror.go         copies of requests, whose responses are discarded
//	fetch.go          requests of the gateway's own, for a policy
//	encode.go         responses whose content is encoded on its way
//	grpc.go           what is different for gRPC calls
//	grpc_web.go       the translation of gRPC-Web to gRPC and back
//	log.go            the access log's line
//	status.go         what the admin API shows of client connections
//	snapshot.go       what a configuration decides about exchanges, compiled
//	complaint.go      warnings, at a limited rate
//
// Both sides of HTTP/2 share these:
//
//	http2_link.go     frames, windows, header compression, open streams
//	http2_data.go     data that waits, in both directions of a stream
//	http2_intake.go   the windows that peers get
//	http2_turns.go    which stream sends next
//	http2_waiting.go  what the streams of a loop hold
//	http2_write.go    frames are gathered and sent
package proxy

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"plimsoll/internal/admission"
	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/http3"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/telemetry/accesslog"
	"plimsoll/internal/tlsio"
	"plimsoll/internal/upstream"
)

// Worker is one loop's part of the data plane. Its methods are for that loop.
type Worker struct {
	loop   *reactor.Loop
	shared *Shared
	view   *view
	shard  *telemetry.Shard
	log    *accesslog.Ring // nil for no access log
	record accesslog.Record
	// The counts of a call; used as record is.
	callStats telemetry.CallStats
	tls       *tlsio.Loop
	logger    *slog.Logger

	// out is where heads and small bodies are put together. It is valid only within one call of a
	// handler.
	out []byte
	// content lists the parts of stored content that an answer sends.
	content [maxContent][]byte
	// avoid holds the targets that pickAnother does not pick again. It is a field because, for all
	// the compiler knows, a balancer may keep its argument: a local variable would be allocated.
	avoid [2 * maxTries]*upstream.Member

	textUp, textDown []byte // where bodies of gRPC-Web are decoded and encoded; used as out is
	encoded          []byte // where content is encoded; likewise

	fields []byte   // where field blocks of HTTP/2 are decoded; used as out is
	digits [20]byte // for numbers, likewise

	freeStreams   *http2Stream  // the list of those that can be used again
	freeRequests  *http2Request // likewise
	spareRequests int           // the length of freeRequests
	spareStreams  int           // the length of freeStreams
	freeTrailers  *trailerSection
	spareTrailers int
	trailerPool   http1.TrailerPool
	streamCounts  streamCounts

	calls      *call         // the list of gRPC calls that can be used again
	spareCalls int           // its length
	http3      http3Conn     // the head of the list of all HTTP/3 connections of this loop
	encoder3   http3.Encoder // for their field sections
	tail3      []byte        // where trailers are put together
	quick      []byte        // where what goes to quic-go at once is put together
	packer     packer

	flows      *flow       // the list of flows that can be used again
	spare      int         // its length
	leastSpare int         // its least length since the last sweep
	clients    clientConn  // the head of the list of all client connections of this loop
	looked     *clientConn // of them, the last that lookAtHTTP2 has looked at
	webSockets webSocket   // the head of the list of all tunnels of WebSocket
	old        []*view     // replaced views that still have exchanges
	retiring   []retiring
	sweep      reactor.Timer
	draining   bool
	closed     bool    // Close was called: a connection accepted now is closed at once
	handshakes int     // goroutines that have a socket of this loop
	mirrors    int     // copies under way, including those that wait for the rest of their request
	copies     []*flow // copies that have been sent; each knows its index
	fetches    []*fetchStream
	limiter    admission.Limiter
	order      admission.Order // only with invariant.Sequential
	lines      lines
	holds      int // exchanges that a policy holds; only with invariant.On
	heldBytes  int // bytes of buffers that hold requests' bodies
	mostHeld   int // the bound on heldBytes: see maxHeld
	beginnings beginnings
	waiting    waiting

	noDescriptors complaint
	noDials       complaint
	noWatches     complaint

	date   [29]byte // the Date field's value, made once a second
	dateOf int64    // when it was made
}

// Shared is what the workers of a process share.
type Shared struct {
	// MaxClients bounds the client connections over all loops: it is the number of descriptors less
	// those that are needed to serve the clients.
	MaxClients atomic.Int64
	Clients    atomic.Int64 // client connections over all loops
	HTTP3      atomic.Int64 // goroutines that serve a connection of HTTP/3
	// HTTP3Held is how many bytes of requests and responses the streams of HTTP/3 hold, and
	// HTTP3Most how many they may hold, 0 for loopHeldMost for each loop: see http3Scarce.
	HTTP3Held, HTTP3Most atomic.Int64
	Workers              []*Worker // by loop; set before any loop runs
	Seed                 uint64    // of hashes that clients must not foresee; set before any loop runs
	// HeldBodies is how many bytes of requests' bodies a loop may hold, 0 for maxHeld; set before
	// any loop runs. A simulation sets a lower bound, so as to reach it.
	HeldBodies int
}

// view is a snapshot as one loop uses it.
type view struct {
	*Snapshot
	locals []*upstream.Local
	flows  int // how many flows use it

	tlsTrouble []complaint // by upstream

	names map[string]bool // the names of its routes; made by the first call of has
}

// gone tells the snapshot's owner that this loop has no exchange left on it.
func (v *view) gone() {
	if v.Gone != nil {
		v.Gone()
	}
}

// MaxHead is how many bytes a head may have: it must fit into a loop's largest buffer, with some
// room to read on.
const MaxHead = 63 << 10

// scratchRoom is how many bytes are left free in front of a response that is read into the loop's
// scratch memory. So a head longer than the upstream's can be put in front of the body, and both
// sent in one call, without copying the body.
const scratchRoom = 4 << 10

// NewWorker makes the worker of a loop that does not run yet.
func NewWorker(l *reactor.Loop, shared *Shared, shard *telemetry.Shard, logger *slog.Logger) *Worker {
	w := &Worker{
		loop: l, shared: shared, shard: shard, logger: logger, tls: tlsio.NewLoop(),
		out: make([]byte, 0, 2*reactor.ScratchSize), mostHeld: cmp.Or(shared.HeldBodies, maxHeld),
	}
	w.clients.next, w.clients.prev = &w.clients, &w.clients
	w.looked = &w.clients
	w.webSockets.next, w.webSockets.prev = &w.webSockets, &w.webSockets
	w.http3.next, w.http3.prev = &w.http3, &w.http3
	w.lines.w, w.waiting.w = w, w
	return w
}

// Install makes s the snapshot of the exchanges that begin from now on.
func (w *Worker) Install(s *Snapshot) {
	v := &view{Snapshot: s, locals: make([]*upstream.Local, len(s.Upstreams)),
		tlsTrouble: make([]complaint, len(s.Upstreams))}
	for i := range s.Upstreams {
		v.locals[i] = s.Upstreams[i].Local(w.loop.ID)
	}
	if w.view == nil {
		w.Expire(nil, w.loop.Now()) // the first sweep; each arms the next
	} else {
		w.old = append(w.old, w.view)
	}
	w.view = v
	w.leaveTunnels(telemetry.ByRemoval, func(f *flow) bool {
		return f.view != v && !v.has(f.route.Name)
	})
	w.retireViews()
}

// Retire gives up this loop's part of an upstream once no exchange can need it any more, and then
// calls done. Call it after installing the snapshot that no longer has the upstream.
func (w *Worker) Retire(u *upstream.Upstream, done func()) {
	w.retiring = append(w.retiring, retiring{u.Local(w.loop.ID), done})
	w.retireViews()
}

type retiring struct {
	local *upstream.Local
	done  func()
}

// retireViews forgets the snapshots that no exchange uses any more, and then gives up the upstreams
// that no other snapshot has. Giving up an upstream may end exchanges, and so call retireViews
// again: so each upstream is removed from the list before it is closed.
func (w *Worker) retireViews() {
	w.old = slices.DeleteFunc(w.old, func(v *view) bool {
		if v.flows == 0 {
			v.gone()
		}
		return v.flows == 0
	})
	for i := 0; i < len(w.retiring); {
		r := w.retiring[i]
		if slices.ContainsFunc(w.old, func(v *view) bool { return slices.Contains(v.locals, r.local) }) {
			i++
			continue
		}
		w.retiring = slices.Delete(w.retiring, i, i+1)
		r.local.Close(w.loop.Now())
		r.done()
		i = 0
	}
}

// Expire implements reactor.Expirer. About once a second it sweeps the pools and drops what is
// spare.
func (w *Worker) Expire(_ *reactor.Timer, now int64) {
	if w.view != nil {
		for _, local := range w.view.locals {
			local.Sweep(now)
		}
	}
	// A sweep may end the last exchange of a snapshot, and with it the list's entries.
	for _, r := range slices.Clone(w.retiring) {
		r.local.Sweep(now)
	}
	if w.view != nil {
		w.shareFull(now)
		w.lookAtHTTP2(now)
	}
	w.dropSpareFlows()
	w.loop.DropSpareBuffers()
	w.complainOfDescriptors(0)
	w.loop.SetTimer(&w.sweep, w, now+int64(time.Second))
}

// SetAccessLog sets the access log to which lines are written from now on, nil for none.
func (w *Worker) SetAccessLog(log *accesslog.Ring) { w.log = log }

// Shard is where this loop counts.
func (w *Worker) Shard() *telemetry.Shard { return w.shard }

// Loop is the loop that the worker lives on.
func (w *Worker) Loop() *reactor.Loop { return w.loop }

// Drain lets exchanges under way finish, each as the last one of its connection. It closes the
// tunnels of WebSocket. Connections that wait for a request may send one more within drainGrace.
func (w *Worker) Drain() {
	w.draining = true
	w.leaveTunnels(telemetry.ByDrain, func(*flow) bool { return true })
	for c := w.clients.next; c != &w.clients; c = c.next {
		if c.state == clientHTTP2 {
			c.http2.leave(warned)
		}
		if c.state == clientHead && c.flow == nil && !c.begun {
			soon := w.loop.Now() + drainGrace
			w.loop.SetTimer(&c.timer, c, min(soon, c.timer.Deadline()))
		}
	}
	w.eachHTTP3(func(h *http3Conn) { h.leave(warned) })
}

// Cut ends every client connection that is left, and returns how many exchanges and tunnels were
// under way, including exchanges whose response waits for the client. It goes through a copy of the
// list: when an exchange gives up its upstream connection, another one that waits may dial, fail at
// once, and end its own client's connection.
func (w *Worker) Cut() (cut int) {
	var all []*clientConn
	for c := w.clients.next; c != &w.clients; c = c.next {
		all = append(all, c)
	}
	for _, c := range all {
		if c.state == clientClosed {
			continue
		}
		switch {
		case c.state == clientHTTP2:
			cut += c.http2.open
		case c.state == clientBusy || c.state == clientTunnel || c.conn.Queued() > 0:
			cut++
		}
		c.abort(exchange.Draining)
	}
	w.eachHTTP3(func(h *http3Conn) {
		cut += h.open
		h.abort(exchange.Draining)
	})
	return cut
}

// Close gives back the loop's upstream connections before the loop stops: those of mirrors' copies,
// whose end is not waited for, and the idle ones. It calls Cut again, because a listener that
// closes may still have accepted connections after the Cut before. They may have begun handshakes,
// which must end before the loop does; none can begin from now on.
func (w *Worker) Close() {
	w.closed = true
	if w.view == nil {
		return
	}
	w.Cut()
	for len(w.copies) > 0 {
		w.copies[len(w.copies)-1].endMirror()
	}
	for _, st := range slices.Clone(w.fetches) {
		if st.index >= 0 { // else it has ended along with another one
			st.flow.abort(exchange.Draining)
		}
	}
	if invariant.On && (w.heldBytes != 0 || w.mirrors != 0) {
		panic(fmt.Sprintf("proxy: at a loop's end %d bytes of request bodies are still counted "+
			"as held, and %d copies as under way",
			w.heldBytes, w.mirrors))
	}
	if invariant.On && w.holds != 0 {
		panic(fmt.Sprintf("proxy: at a loop's end %d holds of policies have not ended", w.holds))
	}
	for _, local := range w.view.locals {
		local.Close(w.loop.Now())
	}
	w.loop.ReleaseTimer(&w.sweep)
}

// Stop ends the loop after Close. It calls Cut again: an exchange whose last bytes waited for the
// batch when Close was called has ended since, and its client's connection waits for another
// request.
func (w *Worker) Stop() {
	w.Cut()
	if invariant.On && w.waiting != (waiting{w: w, due: w.waiting.due}) {
		panic(fmt.Sprintf("proxy: at a loop's end HTTP/2 streams still hold %d bytes", w.waiting.memory))
	}
	if w.view != nil {
		w.view.gone()
	}
	w.loop.Stop()
}

// Handshakes returns how many goroutines still do TLS handshakes on sockets of this loop. They end
// soon after Close, and the loop must not stop before, or their sockets would stay open.
func (w *Worker) Handshakes() int { return w.handshakes }

// Resume implements exchange.Engine.
func (w *Worker) Resume(x *exchange.Exchange, life uint64,
	then func(*exchange.Exchange) exchange.PolicyVerdict) {
	w.loop.Post(func() {
		if x.Life() == life {
			w.flowOf(x).resume(then)
		}
	})
}

// Now implements exchange.Engine: it returns the time of the loop's turn, in nanoseconds.
func (w *Worker) Now() int64 { return w.loop.Now() }

// LoopID implements exchange.Engine: it returns the index of the worker's loop.
func (w *Worker) LoopID() int { return w.loop.ID }

// Backlog implements exchange.Engine.
func (w *Worker) Backlog() int64 {
	if now := w.loop.Now(); w.limiter.Due(now) {
		w.limiter.Observe(now, w.loop.Backlog())
	}
	return w.limiter.Backlog()
}

// httpDate returns the value of a Date field for now.
func (w *Worker) httpDate() []byte {
	if now := w.loop.Now(); now-w.dateOf >= int64(time.Second) || w.dateOf == 0 {
		w.dateOf = now
		reactor.Wall().UTC().AppendFormat(w.date[:0], "Mon, 02 Jan 2006 15:04:05 GMT")
	}
	return w.date[:]
}
