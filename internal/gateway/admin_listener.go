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

// Bounds on the connections of the admin address. Anybody who reaches it may hold some, the token
// is seen only later; health probes must get through nevertheless, also when they share an address
// with the one that holds them.
const (
	adminConnections = 64  // open at once
	adminPerAddress  = 16  // of these, of one client address; an IPv6 client counts by its /64
	adminWaiting     = 128 // that wait to be let in, of one client address
	// adminGoroutines are those of net/http, which keeps some for a while after their connection was
	// closed, and of connections that wait.
	adminGoroutines = 1024

	// adminPatience is how long a connection is spared after it came, or its state changed, and how
	// long a new one waits for that at most. Without it a burst of honest requests would push its
	// own first ones out. Those of one address wait one after the other: together they would push
	// out, when their patience is over, those that have just been let in.
	adminPatience = 100 * time.Millisecond
)

// adminListener accepts the connections of the admin address. It never makes a new one wait for an
// old one that is of no use: when a bound is reached it closes
//
//  1. the connection that has been silent the longest, with no complete request head yet;
//  2. if there is none, the one that has been idle the longest after a response;
//  3. if there is none, the one whose answered request has left a body unfinished the longest.
//
// A connection whose request a handler has in hand is never closed; where all are like that the new
// one is. Every such end is counted. Rejected: to let new connections wait (as
// netutil.LimitListener does), because as many silent ones shut everybody out.
type adminListener struct {
	net.Listener
	counts     *adminCounts
	goroutines chan struct{} // holds one for each goroutine, see adminGoroutines
	admitted   chan net.Conn
	failed     chan error
	closed     chan struct{}
	begin      sync.Once
	closeOnce  sync.Once

	mu sync.Mutex
	// open are at most adminConnections; the one that has been in its state the longest comes first.
	open    []*adminConn
	waiting map[netip.Addr][]*adminConn // behind the one of their address that await has in hand
	// Closed, and made again, when a connection changes its state or goes.
	changed chan struct{}
}

// adminState is what a connection of the admin address is at.
type adminState uint8

const (
	adminSilent   adminState = iota // no complete request head has arrived yet
	adminBusy                       // a handler has its request
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
	since time.Time // that it has been in its state
	gone  bool      // no longer in from.open
	late  bool      // its first head did not arrive in time, which is counted
}

// adminCounts counts the connections that a bound of the admin address ended, by adminClosed. It
// outlives the listener.
type adminCounts [len(adminClosed)]atomic.Uint64

// Why a connection of the admin address was closed. The first four are closed for the sake of a new
// one, or because they took too long; the last two are new ones themselves.
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

// acceptAll accepts until the listener is closed. It waits for nobody who waits for room: else one
// address, with a few hundred connections a second, would keep everybody in the accept queue.
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

// waitsBehind queues a connection behind others of its address, if any wait. Where too many do, the
// one that has been silent the longest goes.
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

// awaitAll lets the waiting connections of an address in, or refuses them, one after the other.
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

// await waits for at most adminPatience until there is room for a connection, and says whether
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

// clientOf is what a client is counted by.
func clientOf(c net.Conn) netip.Addr {
	// Nil, which has no address, when the client is gone already.
	remote, _ := c.RemoteAddr().(*net.TCPAddr)
	return cidr.Client(remote.AddrPort().Addr())
}

// adminAnswer is what becomes of a new connection.
type adminAnswer uint8

const (
	adminAdmitted adminAnswer = iota
	adminRefused
	adminWaits // for a connection that is spared now
)

// admit makes room for a connection and notes it, or says that there is none, or none yet. With
// spare it closes none for which adminPatience is not over. After changed is closed there may be
// room.
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

// full says whether a bound keeps a client from another connection, and which. l.mu is held.
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

// dispensable is the connection to close for a new one, of the same client or of any; nil when
// there is none. With spare it passes over those for which adminPatience is not over, and says
// whether there were any. l.mu is held.
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

// evicted is why a connection in that state is closed for another.
func (s adminState) evicted() int {
	switch s {
	case adminSilent:
		return closedSilent
	case adminIdle:
		return closedIdle
	}
	return closedUnfinished
}

// move notes a connection's new state and says whether it is still open.
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

// remove takes a connection out of the books, once. l.mu is held.
func (l *adminListener) remove(c *adminConn) {
	if c.gone {
		return
	}
	c.gone = true
	if i := slices.Index(l.open, c); i >= 0 { // one that was never admitted is not there
		l.open = slices.Delete(l.open, i, i+1)
		l.note()
	}
}

// note wakes those who wait for room. l.mu is held.
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

// attach makes a server tell the listener what its connections are at. A complete head is known by
// the handler being called: http.StateActive may mean a first byte only.
func (l *adminListener) attach(s *http.Server) {
	next := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, adminConnKey{}, c)
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(adminConnKey{}).(*adminConn)
		if !l.move(c, adminBusy) {
			return // it was closed for another in this moment: nobody would learn what became of the request
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
