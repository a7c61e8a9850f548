// Package quicio is quic-go (RFC 9000, 9001, 9002) as listeners use it: a UDP socket, the
// handshakes on it and their limits, and the resulting connections. It knows QUIC and nothing of
// what is sent on its streams. quic-go runs goroutines of its own; nothing here belongs to an event
// loop.
//
// What quic-go does by itself is not done again: amplification limits, address validation by
// tokens, congestion control, path validation when a client's address changes, stateless resets.
package quicio

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/crash"
)

// Settings are what a reload may change of an endpoint. They count for the connections that come
// later.
type Settings struct {
	TLS           *tls.Config   // with the protocols to offer
	EarlyData     bool          // a client that comes again may send requests with its first packet
	Handshake     time.Duration // that a handshake may take
	MaxHandshakes int           // see Endpoint.refuse
}

// Options are what an endpoint is made with.
type Options struct {
	Socket *Socket
	// Serve is called on a goroutine of its own for each connection, and ends with it. The
	// handshake is complete, or the client has begun with early data.
	Serve func(*quic.Conn)
}

// Stats are an endpoint's figures since it began.
type Stats struct {
	Handshakes int64  // that are under way
	Refused    uint64 // connections that were refused because too many handshakes were under way
	Retries    uint64 // clients that were asked for a token first
	Failed     uint64 // handshakes that came to nothing
	Early      uint64 // connections whose client began with early data
}

// Endpoint accepts connections on a socket.
type Endpoint struct {
	transport *quic.Transport
	listener  *quic.EarlyListener
	socket    *Socket
	serve     func(*quic.Conn)
	settings  atomic.Pointer[Settings]
	running   sync.WaitGroup

	handshakes       atomic.Int64
	connections      atomic.Int64 // that were accepted and are not over
	refused, retries atomic.Uint64
	failed, early    atomic.Uint64
	leaving          atomic.Bool // nobody new is let in
}

// Bounds of one connection.
const (
	// MaxStreams is how many requests of a connection are under way at once; a request that the
	// client has reset counts until its exchange is over.
	MaxStreams = 100
	// maxUniStreams: HTTP/3 has three, and clients send some of unknown types.
	maxUniStreams = 8

	// What a client may send that was not read. quic-go opens the windows as the path's bandwidth
	// asks, up to the greater ones.
	streamWindow        = 64 << 10
	maxStreamWindow     = 512 << 10
	connectionWindow    = 128 << 10
	maxConnectionWindow = 1 << 20

	// silence ends a connection whose client does not answer any more. A client that lives is asked
	// for a sign of it every keepAlive: a service may be silent for longer than NATs remember.
	silence   = 30 * time.Second
	keepAlive = 15 * time.Second
)

// Listen begins to accept on a socket, which belongs to the endpoint from then on.
func Listen(o Options, s Settings) (*Endpoint, error) {
	e := &Endpoint{socket: o.Socket, serve: o.Serve}
	e.settings.Store(&s)
	e.transport = &quic.Transport{
		Conn: o.Socket, ConnectionIDGenerator: o.Socket,
		StatelessResetKey: &o.Socket.keys.Reset, TokenGeneratorKey: &o.Socket.keys.Token,
		VerifySourceAddress: e.mustVerify, ConnContext: e.attempt,
	}
	// It would write to standard error; see Socket.Shortage.
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return e.settings.Load().TLS, nil
		},
	}
	var err error
	e.listener, err = e.transport.ListenEarly(cfg, &quic.Config{
		GetConfigForClient: func(*quic.ClientInfo) (*quic.Config, error) { return e.config(), nil },
	})
	if err != nil {
		e.transport.Close()
		o.Socket.Close()
		return nil, err
	}
	e.running.Go(e.accept)
	return e, nil
}

func (e *Endpoint) config() *quic.Config {
	s := e.settings.Load()
	return &quic.Config{
		HandshakeIdleTimeout: s.Handshake, MaxIdleTimeout: silence, KeepAlivePeriod: keepAlive,
		InitialStreamReceiveWindow: streamWindow, MaxStreamReceiveWindow: maxStreamWindow,
		InitialConnectionReceiveWindow: connectionWindow, MaxConnectionReceiveWindow: maxConnectionWindow,
		MaxIncomingStreams: MaxStreams, MaxIncomingUniStreams: maxUniStreams,
		RequireStreamCreditRelease: true, Allow0RTT: s.EarlyData,
	}
}

// Update changes the settings.
func (e *Endpoint) Update(s Settings) { e.settings.Store(&s) }

// Stats are the figures of this moment.
func (e *Endpoint) Stats() Stats {
	return Stats{
		Handshakes: e.handshakes.Load(), Refused: e.refused.Load(), Retries: e.retries.Load(),
		Failed: e.failed.Load(), Early: e.early.Load(),
	}
}

// attempt is a connection whose handshake is not complete.
type attempt struct {
	e    *Endpoint
	over atomic.Bool
}

type attemptKey struct{}

var (
	errTooManyHandshakes = errors.New("quicio: too many handshakes are under way")
	errLeaving           = errors.New("quicio: no more connections are accepted")
)

// mustVerify says whether a client that nobody has seen yet must show first that its address is its
// own (RFC 9000, section 8.1.2). It costs a round trip, so it is asked for only where many
// handshakes are under way: from half of MaxHandshakes on, what spoofed addresses leave behind is a
// token and no state.
func (e *Endpoint) mustVerify(_ addr) bool {
	if e.leaving.Load() {
		return false // it is refused at once
	}
	if e.handshakes.Load() < int64(max(1, e.settings.Load().MaxHandshakes/2)) {
		return false
	}
	e.retries.Add(1)
	return true
}

// attempt counts a handshake that begins, or refuses it: twice MaxHandshakes may be under way,
// those that wait for their clients included.
func (e *Endpoint) attempt(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	if e.leaving.Load() {
		return nil, errLeaving
	}
	if e.handshakes.Add(1) > int64(2*e.settings.Load().MaxHandshakes) {
		e.handshakes.Add(-1)
		e.refused.Add(1)
		return nil, errTooManyHandshakes
	}
	a := &attempt{e: e}
	context.AfterFunc(ctx, func() { a.end(false) })
	return context.WithValue(ctx, attemptKey{}, a), nil
}

// end counts a handshake off, once.
func (a *attempt) end(well bool) {
	if !a.over.CompareAndSwap(false, true) {
		return
	}
	a.e.handshakes.Add(-1)
	if !well {
		a.e.failed.Add(1)
	}
}

// accept takes the connections until the listener closes.
func (e *Endpoint) accept() {
	defer crash.Guard("where QUIC connections are accepted")
	for {
		q, err := e.listener.Accept(context.Background())
		if err != nil {
			return
		}
		e.connections.Add(1)
		e.running.Go(func() { e.begin(q) })
	}
}

// begin waits for the end of the handshake, which a client with early data need not wait for.
func (e *Endpoint) begin(q *quic.Conn) {
	defer crash.Guard("on a QUIC connection")
	defer e.connections.Add(-1)
	a := q.Context().Value(attemptKey{}).(*attempt)
	if q.ConnectionState().Used0RTT {
		e.early.Add(1)
		e.running.Go(func() { await(q, a) })
	} else if !await(q, a) {
		return
	}
	e.serve(q)
	<-q.Context().Done()
}

// await waits until the handshake is complete; false means that it failed.
func await(q *quic.Conn, a *attempt) bool {
	select {
	case <-q.HandshakeComplete():
		a.end(true)
		return true
	case <-q.Context().Done():
		return false
	}
}

// Refuse has no new connection begin from now on: quic-go answers the first packet of each with
// CONNECTION_REFUSED.
func (e *Endpoint) Refuse() { e.leaving.Store(true) }

// Finish refuses new connections, waits until those that there are have ended, and closes the
// socket.
//
// Handshakes that are under way come to their end too: the client of one may have been told already
// that it is complete. The listener closes last: without it nobody answers a first packet, and
// clients would wait for their time-outs.
func (e *Endpoint) Finish() {
	e.Refuse()
	tick := time.NewTicker(finishTick)
	defer tick.Stop()
	for e.handshakes.Load()+e.connections.Load() > 0 {
		<-tick.C
	}
	e.listener.Close()
	e.running.Wait()
	e.Close()
}

// finishTick is how often Finish looks whether anything is under way.
const finishTick = 10 * time.Millisecond

// Shortage is how many bytes the kernel gives the socket for packets that wait to be read, where
// that is less than quic-go asks for; else 0. What does not fit is lost, and sent again.
func (e *Endpoint) Shortage() int {
	raw, err := e.socket.SyscallConn()
	if err != nil {
		return 0
	}
	size := 0
	raw.Control(func(fd uintptr) {
		size, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	})
	if size >= wantedBuffer {
		return 0
	}
	return size
}

// wantedBuffer is what quic-go asks for, and Linux reports double.
const wantedBuffer = 7 << 20

// Successor and TakenOver hand the endpoint's socket over: see Socket.
func (e *Endpoint) Successor() (socket, end int, p *Pipe, err error) { return e.socket.Successor() }

// TakenOver has another read the socket. The endpoint should Finish.
func (e *Endpoint) TakenOver(p *Pipe) { e.socket.TakenOver(p) }

// Close ends every connection and the socket, and returns when all that was called by the endpoint
// has returned.
func (e *Endpoint) Close() {
	e.listener.Close()
	e.transport.Close()
	e.running.Wait()
	e.socket.Close()
}

// Keys are what a client may hold of an endpoint: tokens, and how it knows that the endpoint has
// forgotten its connection.
type Keys struct {
	Reset quic.StatelessResetKey
	Token quic.TokenGeneratorKey
}
