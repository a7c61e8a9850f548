package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/cidr"
	"plimsoll/internal/crash"
	"plimsoll/internal/telemetry"
)

// Bounds on the connections of the admin address. Any client that can reach the address may hold
// connections, because the token is checked only later. Health probes must get through
// nevertheless, even if they share an address with such a client.
const (
	adminConnections = 64  // open at once
	adminPerAddress  = 16  // open at once from one client address; an IPv6 client counts by its /64
	adminWaiting     = 128 // waiting to be admitted, from one client address
	// adminGoroutines bounds the goroutines of net/http, which keeps some for a while after their
	// connection was closed, and those of waiting connections.
	adminGoroutines = 1024

	// adminPatience is how long a connection is not evicted after it was accepted or its state
	// changed, and the longest that a new one waits for that. Without it, a burst of honest
	// requests would evict its own first ones. Connections from one address wait one after the
	// other: if all waited together, they would all at the same time evict those that have just
	// been admitted.
	adminPatience = 100 * time.Millisecond
)

// adminListener accepts the connections of the admin address. A new connection never waits for an
// old one that is of no use: when a bound is reached, the listener closes
//
//  1. the connection that has been silent the longest, with no complete request head yet;
//  2. if there is none, the one that has been idle the longest after a response;
//  3. if there is none, the one whose answered request has left a body unfinished the longest.
//
// A connection whose request is being handled is never closed; if all are like that, the new one is
// closed. Every such closure is counted. Rejected: letting new connections wait (as
// netutil.LimitListener does), because then enough silent ones lock out all others.
type adminListener struct {
	net.Listener
	counts     *adminCounts
	goroutines chan struct{} // has one element for each goroutine, see adminGoroutines
	admitted   chan net.Conn
	failed     chan error
	closed     chan struct{}
	begin      sync.Once
	closeOnce  sync.Once

	mu sync.Mutex
	// open has at most adminConnections, ordered by how long they have been in their states,
	// longest first.
	open    []*adminConn
	waiting map[netip.Addr][]*adminConn // behind the one of their address that is in await
	// changed is closed and replaced when a connection changes its state or goes.
	changed chan struct{}
}

// adminState is the state of a connection of the admin address.
type adminState uint8

const (
	adminSilent   adminState = iota // no complete request head has arrived yet
	adminBusy                       // its request is being handled
	adminAnswered                   // the handler is done; its response is sent, or the body read
	adminIdle                       // waits for its next request
)

// adminConn is a connection of the admin address. net/http owns it; the listener may close it.
type adminConn struct {
	net.Conn
	from   *adminListener
	client netip.Addr

	// Guarded by from.mu.
	state adminState
	since time.Time // when it entered its state
	gone  bool      // no longer in from.open
	late  bool      // its first head did not arrive in time, which is counted
}

// adminCounts counts the connections closed because of a bound of the admin address, by
// adminClosed. It outlives the listener.
type adminCounts [len(adminClosed)]atomic.Uint64

// Why a connection of the admin address was closed. With the first four reasons, an old connection
// was closed to admit a new one or because it took too long; with the last two, the new one was
// closed.
const (
	closedSilent = iota
	closedIdle
	closedUnfinished
	closedHeadTimeout
	closedAddressFull
	closedFull
)

var adminClosed = [...]string{
	closedSilent: "silent", closedIdle: "idle", closedUnfinished: "unfinished",
	closedHeadTimeout: "head_timeout",
	closedAddressFull: "address_full", closedFull: "full",
}

var adminSeries = []telemetry.Series{{Name: "admin_connections_closed_total",
	Help:   "Connections of the admin address that one of its bounds ended, by reason.",
	Labels: []string{"reason"}}}

func (c *adminCounts) read(emit telemetry.Emit) {
	for reason, label := range adminClosed {
		emit(0, float64(c[reason].Load()), label)
	}
}

func newAdminListener(ln net.Listener, counts *adminCounts) *adminListener {
	return &adminListener{
		Listener:   ln,
		counts:     counts,
		goroutines: make(chan struct{}, adminGoroutines),
		admitted:   make(chan net.Conn),
		failed:     make(chan error),
		closed:     make(chan struct{}),
		waiting:    make(map[netip.Addr][]*adminConn),
		changed:    make(chan struct{}),
	}
}

// Accept implements net.Listener. It returns a connection for which there is room.
func (l *adminListener) Accept() (net.Conn, error) {
	l.begin.Do(func() { go l.acceptAll() })
	select {
	case c := <-l.admitted:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// acceptAll accepts until the listener is closed. It does not wait for connections that wait for
// room. Otherwise one address, with a few hundred connections a second, would keep all others in
// the accept queue.
func (l *adminListener) acceptAll() {
	defer crash.Guard("in the listener of the admin address")
	for {
		select {
		case l.goroutines <- struct{}{}: // given back by refuse or at http.StateClosed
		case <-l.closed:
			return
		}
		conn, err := l.Listener.Accept()
		if err != nil {
			<-l.goroutines
			select {
			case l.failed <- err:
				continue
			case <-l.closed:
				return
			}
		}
		c := &adminConn{Conn: conn, from: l, client: clientOf(conn)}
		if l.waitsBehind(c) {
			continue
		}
		switch answer, _ := l.admit(c, true); answer {
		case adminAdmitted:
			l.handOver(c)
		case adminRefused:
			l.refuse(c)
		case adminWaits:
			l.mu.Lock()
			l.waiting[c.client] = nil
			l.mu.Unlock()
			go l.awaitAll(c)
		}
	}
}

// waitsBehind queues a connection behind others of its address, if any wait. If there are too many,
// the one that has been silent the longest is closed.
func (l *adminListener) waitsBehind(c *adminConn) bool {
	l.mu.Lock()
	queue, ok := l.waiting[c.client]
	if !ok {
		l.mu.Unlock()
		return false
	}
	queue = append(queue, c)
	var first *adminConn
	if len(queue) > adminWaiting {
		first, queue = queue[0], queue[1:]
		l.counts[closedSilent].Add(1)
	}
	l.waiting[c.client] = queue
	l.mu.Unlock()
	if first != nil {
		l.refuse(first)
	}
	return true
}

// awaitAll admits or refuses the waiting connections of an address, one after the other.
func (l *adminListener) awaitAll(c *adminConn) {
	defer crash.Guard("in the listener of the admin address")
	for c != nil {
		if l.await(c) {
			l.handOver(c)
		} else {
			l.refuse(c)
		}
		c = l.nextWaiting(c.client)
	}
}

func (l *adminListener) nextWaiting(client netip.Addr) (c *adminConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.waiting[client]
	if len(queue) == 0 {
		delete(l.waiting, client)
		return nil
	}
	l.waiting[client] = queue[1:]
	return queue[0]
}

// await waits until there is room for a connection, for at most adminPatience. It reports whether
// there is.
func (l *adminListener) await(c *adminConn) bool {
	patience := time.NewTimer(adminPatience)
	defer patience.Stop()
	spare := true
	for {
		answer, changed := l.admit(c, spare)
		if answer != adminWaits {
			return answer == adminAdmitted
		}
		select {
		case <-changed:
		case <-patience.C:
			spare = false
		case <-l.closed:
			return false
		}
	}
}

// handOver gives a connection to net/http.
func (l *adminListener) handOver(c *adminConn) {
	select {
	case l.admitted <- c:
	case <-l.closed:
		l.refuse(c)
	}
}

// refuse closes a connection that net/http never gets.
func (l *adminListener) refuse(c *adminConn) {
	c.Close()
	<-l.goroutines
}

// Close implements net.Listener.
func (l *adminListener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// clientOf is the address by which a client is counted.
func clientOf(c net.Conn) netip.Addr {
	// remote is nil, and has no address, if the client has already gone.
	remote, _ := c.RemoteAddr().(*net.TCPAddr)
	return cidr.Client(remote.AddrPort().Addr())
}

// adminAnswer is what happens to a new connection.
type adminAnswer uint8

const (
	adminAdmitted adminAnswer = iota
	adminRefused
	adminWaits // until a connection may be evicted
)

// admit makes room for a connection and records it, or reports that there is no room, or none yet.
// With spare, it does not close connections whose adminPatience is not over. There may be room once
// changed is closed.
func (l *adminListener) admit(c *adminConn, spare bool) (answer adminAnswer, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		full, reason := l.full(c.client)
		if !full {
			c.since = time.Now()
			l.open = append(l.open, c)
			return adminAdmitted, nil
		}
		old, spared := l.dispensable(c.client, reason == closedAddressFull, spare)
		switch {
		case old != nil:
			l.remove(old)
			l.counts[old.state.evicted()].Add(1)
			old.Conn.Close()
		case spared:
			return adminWaits, l.changed
		default:
			l.counts[reason].Add(1)
			return adminRefused, nil
		}
	}
}

// full reports whether a bound keeps a client from another connection, and which bound. The caller
// holds l.mu.
func (l *adminListener) full(client netip.Addr) (full bool, reason int) {
	n := 0
	for _, c := range l.open {
		if c.client == client {
			n++
		}
	}
	if n >= adminPerAddress {
		return true, closedAddressFull
	}
	return len(l.open) >= adminConnections, closedFull
}

// dispensable is the connection to close for a new one, of the same client or of any; nil if there
// is none. With spare, it skips connections whose adminPatience is not over, and spared reports
// whether there were any. The caller holds l.mu.
func (l *adminListener) dispensable(client netip.Addr, same, spare bool) (old *adminConn, spared bool) {
	now := time.Now()
	for _, state := range []adminState{adminSilent, adminIdle, adminAnswered} {
		for _, c := range l.open {
			if c.state != state || same && c.client != client {
				continue
			}
			if spare && now.Sub(c.since) < adminPatience {
				spared = true
				continue
			}
			return c, false
		}
	}
	return nil, spared
}

// evicted is the reason with which a connection in state s is closed to admit another.
func (s adminState) evicted() int {
	switch s {
	case adminSilent:
		return closedSilent
	case adminIdle:
		return closedIdle
	}
	return closedUnfinished
}

// move records a connection's new state, and reports whether the connection is still open.
func (l *adminListener) move(c *adminConn, to adminState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return false
	}
	i := slices.Index(l.open, c)
	l.open = append(slices.Delete(l.open, i, i+1), c)
	c.state, c.since = to, time.Now()
	l.note()
	return true
}

// remove removes a connection from the records, once. The caller holds l.mu.
func (l *adminListener) remove(c *adminConn) {
	if c.gone {
		return
	}
	c.gone = true
	if i := slices.Index(l.open, c); i >= 0 { // a connection that was never admitted is not in it
		l.open = slices.Delete(l.open, i, i+1)
		l.note()
	}
}

// note wakes connections that wait for room. The caller holds l.mu.
func (l *adminListener) note() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Close implements net.Conn.
func (c *adminConn) Close() error {
	c.from.mu.Lock()
	c.from.remove(c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// Read implements net.Conn. It counts a first head that did not arrive in time; net/http closes the
// connection then, perhaps after another Read.
func (c *adminConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.from.mu.Lock()
		if c.state == adminSilent && !c.gone && !c.late {
			c.late = true
			c.from.counts[closedHeadTimeout].Add(1)
		}
		c.from.mu.Unlock()
	}
	return n, err
}

type adminConnKey struct{}

// attach makes a server report the states of its connections to the listener. The call of the
// handler shows that a head is complete; http.StateActive may mean only that a first byte has
// arrived.
func (l *adminListener) attach(s *http.Server) {
	next := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, adminConnKey{}, c)
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(adminConnKey{}).(*adminConn)
		if !l.move(c, adminBusy) {
			return // it has just been closed to admit another: no client would get the answer
		}
		defer l.move(c, adminAnswered)
		next.ServeHTTP(w, r)
	})
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateIdle:
			l.move(c.(*adminConn), adminIdle)
		case http.StateClosed:
			<-l.goroutines
		}
	}
}
