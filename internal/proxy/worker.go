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
//	lines.go          who waits to be read while the loop has more to do than it can
//	stream.go         what an exchange talks to on its client's side
//	http1_client.go   HTTP/1.1: bytes arrive; a head is complete; the next request
//	http1_stream.go   HTTP/1.1: the request's body is read, the response framed
//	http2_client.go   HTTP/2: a connection's frames arrive
//	http2_fields.go   HTTP/2: requests begin
//	http2_trailers.go HTTP/2: the trailers of a stream, and their memory
//	http2_stream.go   HTTP/2: a stream's life, and the request's body
//	http2_send.go     HTTP/2: responses, as far as the client's windows let them
//	http3_conn.go     HTTP/3: a connection of quic-go's, and what it says of itself
//	http3_read.go     HTTP/3: the goroutine that reads a request
//	http3_stream.go   HTTP/3: a stream's life on its loop, and the request's body
//	http3_send.go     HTTP/3: responses, and the goroutine that writes one
//	http2_priority.go HTTP/2: priorities of streams (RFC 9218)
//	http2_tunnel.go   HTTP/2: a WebSocket as a stream
//	http2_counts.go   HTTP/2: how many streams clients have open
//	flow.go           the exchange begins: canonical path, route, policies
//	claims.go         the class and the deadline that a trusted peer may state
//	dispatch.go       a target is picked, a connection found or made, the request sent; retries
//	expect.go         who tells the client to send its body
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
//	objective.go      whether it met the objective of its SLA class
//	pace.go           how slow a client may be with what it is given
//	tunnel.go         after a 101: bytes both ways
//	websocket*.go     likewise, where the bytes are frames of WebSocket
//	mirror.go         copies of requests, whose answers nobody waits for
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
	// What is counted of a call; used as record is.
	callStats telemetry.CallStats
	tls       *tlsio.Loop
	logger    *slog.Logger

	// Where heads and small bodies are put together; used between two calls of a handler, never
	// across.
	out []byte
	// content is where answers say what they send of what is stored.
	content [maxContent][]byte
	// The targets that pickAnother does not pick again. It is here because a balancer may keep what it
	// is shown, as far as the compiler knows.
	avoid [2 * maxTries]*upstream.Member

	textUp, textDown []byte // where bodies of gRPC-Web are decoded and encoded; likewise
	encoded          []byte // where content is encoded; likewise

	fields []byte   // where field blocks of HTTP/2 are decoded; used as out is
	digits [20]byte // for numbers, likewise

	freeStreams   *http2Stream  // that can be used again
	freeRequests  *http2Request // likewise
	spareRequests int
	spareStreams  int // how many of them
	freeTrailers  *trailerSection
	spareTrailers int
	trailerPool   http1.TrailerPool
	streamCounts  streamCounts

	calls      *call         // of gRPC, that can be used again
	spareCalls int           // how many of them
	http3      http3Conn     // the list's head: all connections of HTTP/3 of this loop
	encoder3   http3.Encoder // for their field sections
	tail3      []byte        // where trailers are put together
	quick      []byte        // where what goes to quic-go at once is put together
	packer     packer

	flows      *flow       // exchanges that can be used again
	spare      int         // how many of them
	leastSpare int         // how many there were at least since the last sweep
	clients    clientConn  // the list's head: all client connections of this loop
	looked     *clientConn // of them, the last that lookAtHTTP2 has looked at
	webSockets webSocket   // likewise: all tunnels of WebSocket
	old        []*view     // replaced, with exchanges still on them
	retiring   []retiring
	sweep      reactor.Timer
	draining   bool
	closed     bool    // Close has come: who is accepted now is closed at once
	handshakes int     // goroutines that have a socket of this loop's
	mirrors    int     // copies under way, those too that wait for the rest of their request
	copies     []*flow // those that have been sent; each knows its index
	fetches    []*fetchStream
	limiter    admission.Limiter
	order      admission.Order // only with invariant.Sequential
	lines      lines
	holds      int // exchanges that a policy holds; only with invariant.On
	heldBytes  int // bytes of buffers that hold requests' bodies
	mostHeld   int // how many these may be: see maxHeld
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
	// MaxClients is the most client connections over all loops: the descriptors that remain for
	// clients when those that serving them needs are kept back.
	MaxClients atomic.Int64
	Clients    atomic.Int64
	HTTP3      atomic.Int64 // goroutines that serve a connection of HTTP/3
	// HTTP3Held is how many bytes streams of HTTP/3 hold, of requests and responses, and HTTP3Most
	// how many they may: see http3Scarce. 0 is for as many as otherwise.
	HTTP3Held, HTTP3Most atomic.Int64
	Workers              []*Worker // by loop; set before any loop runs
	Seed                 uint64    // of hashes that clients must not foresee; set before any loop runs
	// HeldBodies is how many bytes of requests' bodies a loop holds, 0 for maxHeld; set before any
	// loop runs. A simulation reaches it by less.
	HeldBodies int
}

// view is a snapshot as one loop uses it.
type view struct {
	*Snapshot
	locals []*upstream.Local
	flows  int // that use it

	tlsTrouble []complaint // by upstream

	names map[string]bool // of its routes, once has was asked
}

// gone says that this loop has no exchange left on the snapshot.
func (v *view) gone() {
	if v.Gone != nil {
		v.Gone()
	}
}

// MaxHead is the most bytes that a head may have: it must fit a loop's largest buffer, with some
// room to read on.
const MaxHead = 63 << 10

// scratchRoom is what is left free in front of a response that is read into the loop's scratch
// memory, so that a longer head than the upstream's can be put in front of its body and both sent
// in one call, without copying the body.
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

// Retire gives this loop's part of an upstream up once no exchange can need it any more, and then
// calls done. It is called after the snapshot that no longer has the upstream was installed.
func (w *Worker) Retire(u *upstream.Upstream, done func()) {
	w.retiring = append(w.retiring, retiring{u.Local(w.loop.ID), done})
	w.retireViews()
}

type retiring struct {
	local *upstream.Local
	done  func()
}

// retireViews forgets the snapshots that no exchange is on any more, then the upstreams that none
// of the rest has. Giving an upstream up may end exchanges, which brings the loop here again: so
// each is taken off the list before it is closed.
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

// Expire implements reactor.Expirer: about once a second the pools are looked after.
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

// SetAccessLog makes log take the lines from now on; nil for none.
func (w *Worker) SetAccessLog(log *accesslog.Ring) { w.log = log }

// Shard is where this loop counts.
func (w *Worker) Shard() *telemetry.Shard { return w.shard }

// Loop is the loop that the worker lives on.
func (w *Worker) Loop() *reactor.Loop { return w.loop }

// Drain lets exchanges under way finish, each the last of its connection, closes tunnels of
// WebSocket, and gives connections that wait for a request drainGrace for one more.
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

// Cut ends every client connection that is still there and says how many exchanges and tunnels were
// under way, those whose response waits for its client among them. It goes through a copy of the
// list: an upstream connection that one exchange gives up goes to another that waits, whose dial
// may fail at once and end another client's connection.
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

// Close gives the loop's upstream connections back, before the loop stops: those of mirrors, for
// whose end nobody waits, and those that are idle. It cuts once more, because a listener that closes
// may still have accepted after the cut before, and because handshakes must end before the loop
// does: who was accepted since may have begun one, and nobody is to begin one from now on.
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
		if st.index >= 0 { // else it has ended with another
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

// Stop ends the loop after Close. An exchange whose last bytes waited for the batch when Close came
// has ended since, and its client's connection waits for another request.
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

// Handshakes is how many goroutines still do TLS handshakes on sockets of this loop. They are over
// soon after Close, and the loop must not stop before: their sockets would stay open.
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

// Now and LoopID implement exchange.Engine.

// Now is the time of the loop's turn.
func (w *Worker) Now() int64 { return w.loop.Now() }

// LoopID is the index of the worker's loop.
func (w *Worker) LoopID() int { return w.loop.ID }

// Backlog implements exchange.Engine.
func (w *Worker) Backlog() int64 {
	if now := w.loop.Now(); w.limiter.Due(now) {
		w.limiter.Observe(now, w.loop.Backlog())
	}
	return w.limiter.Backlog()
}

// httpDate is the value of a Date field for now.
func (w *Worker) httpDate() []byte {
	if now := w.loop.Now(); now-w.dateOf >= int64(time.Second) || w.dateOf == 0 {
		w.dateOf = now
		reactor.Wall().UTC().AppendFormat(w.date[:0], "Mon, 02 Jan 2006 15:04:05 GMT")
	}
	return w.date[:]
}
