package proxy_test

import (
	"context"
	"log/slog"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/proxy"
	"plimsoll/internal/reactor"
	"plimsoll/internal/route"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// kernel is a reactor.Kernel for one loop whose peers are scripts. Its clock stands still until the
// test moves it. Calls that no test needs are left to the nil Kernel, and panic. It stands for the
// whole process's kernel, so no test that uses it is parallel.
type kernel struct {
	unacknowledged int // of each socket
	reactor.Kernel
	now    int64
	cpu    int64
	work   int64 // between two looks at cpu
	socks  map[int]*sock
	events []reactor.Event
	dialed []*sock // in the order in which Connect was called
	refuse error   // what Connect fails with
	blind  error   // what Add fails with
}

// sock is a socket as its peer and the test see it.
type sock struct {
	fd     int
	token  uint64
	in     func(p []byte) (int, syscall.Errno) // what the peer sends, read by read
	out    []byte                              // what was sent to a client
	reads  int
	sends  int
	dialed bool
	closed bool
	stuck  bool // its peer reads nothing, and the kernel has no room
	ended  bool // its peer has gone
}

func (k *kernel) socket() *sock {
	s := &sock{fd: 100 + len(k.socks), in: silence}
	k.socks[s.fd] = s
	return s
}

func (k *kernel) Clock() int64    { return k.now }
func (k *kernel) Wall() time.Time { return time.Unix(0, k.now) }

// CPU moves at each look, as if work had been done since the last.
func (k *kernel) CPU() int64 {
	k.cpu += k.work
	return k.cpu
}

func (k *kernel) Socket(reactor.Address) (int, error) { return k.socket().fd, nil }

func (k *kernel) Connect(fd int, _ reactor.Address) error {
	s := k.socks[fd]
	s.dialed = true
	k.dialed = append(k.dialed, s)
	return k.refuse
}

func (k *kernel) Recv(fd int, p []byte) (int, syscall.Errno) {
	k.socks[fd].reads++
	return k.socks[fd].in(p)
}

func (k *kernel) Peek(int) (int, syscall.Errno) { return 0, syscall.EAGAIN }

func (k *kernel) Send(fd int, p []byte) (int, syscall.Errno) {
	s := k.socks[fd]
	s.sends++
	if s.stuck {
		return 0, syscall.EAGAIN
	}
	if !s.dialed {
		s.out = append(s.out, p...)
	}
	return len(p), 0
}

func (k *kernel) PeerEnded(fd int) bool         { return k.socks[fd].ended }
func (k *kernel) Unacknowledged(int) int        { return k.unacknowledged }
func (k *kernel) SocketError(int) syscall.Errno { return 0 }
func (k *kernel) Shutdown(int, int)             {}
func (k *kernel) ResetOnClose(int)              {}
func (k *kernel) Close(fd int)                  { k.socks[fd].closed = true }

func (k *kernel) NewPoller(*reactor.Loop) (reactor.Poller, error) { return (*poller)(k), nil }

// tell has the loop find the socket readable in its next turn.
func (k *kernel) tell(s *sock) {
	k.events = append(k.events, reactor.Event{Token: s.token, Readable: true})
}

// drains has the loop find in its next turn that the socket takes bytes again.
func (k *kernel) drains(s *sock) {
	s.stuck = false
	k.events = append(k.events, reactor.Event{Token: s.token, Writable: true})
}

// poller is the kernel as its loop polls it.
type poller kernel

// Add tells at once that the socket is writable, as epoll does, and of a client's first bytes.
func (p *poller) Add(fd int, token uint64, _ bool) error {
	if p.blind != nil {
		return p.blind
	}
	s := p.socks[fd]
	s.token = token
	p.events = append(p.events, reactor.Event{Token: token, Writable: true, Readable: !s.dialed})
	return nil
}

func (p *poller) Poll(events []reactor.Event) int {
	n := copy(events, p.events)
	p.events = p.events[n:]
	return n
}

func (p *poller) Remove(int) {}
func (p *poller) Wake()      {}
func (p *poller) Close()     {}

func silence([]byte) (int, syscall.Errno) { return 0, syscall.EAGAIN }

// endless fills every buffer it is shown.
func endless(p []byte) (int, syscall.Errno) { return len(p), 0 }

// saying sends the pieces, one a read, then goes on with then.
func saying(then func([]byte) (int, syscall.Errno), pieces ...string) func([]byte) (int, syscall.Errno) {
	return func(p []byte) (int, syscall.Errno) {
		if len(pieces) == 0 {
			return then(p)
		}
		n := copy(p, pieces[0])
		if pieces[0] = pieces[0][n:]; pieces[0] == "" {
			pieces = pieces[1:]
		}
		return n, 0
	}
}

// bed is a worker, its loop and its kernel, all of them moved by the test alone.
type bed struct {
	*kernel
	t        *testing.T
	loop     *reactor.Loop
	acceptor *proxy.Acceptor
	upstream *upstream.Upstream
	snapshot func(...*upstream.Upstream) *proxy.Snapshot // of the same route, to the first
	lines    lines
}

// newUpstream makes an upstream that two loops have: the bed's, and another that the test stands
// for.
func newUpstream(t *testing.T, o upstream.Options, loop *reactor.Loop) *upstream.Upstream {
	t.Helper()
	u, err := upstream.New("s", o, upstream.Env{
		Loops: 2, Now: reactor.Clock, Post: func(i int, f func()) {
			if i == 0 {
				loop.Post(f)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// lines is a slog.Handler that hands out what is logged.
type lines chan slog.Record

func (l lines) Enabled(context.Context, slog.Level) bool      { return true }
func (l lines) Handle(_ context.Context, r slog.Record) error { l <- r; return nil }
func (l lines) WithAttrs([]slog.Attr) slog.Handler            { return l }
func (l lines) WithGroup(string) slog.Handler                 { return l }

// newBed makes a worker whose only route proxies to one target or, with an answer, gives that.
func newBed(t *testing.T, answer exchange.RequestPolicy) *bed {
	t.Helper()
	return newBedFor(t, "127.0.0.1:1", answer)
}

// newBedFor is newBed for a target.
func newBedFor(t *testing.T, target string, answer exchange.RequestPolicy) *bed {
	t.Helper()
	return newBedWith(t, upstream.DefaultOptions(target), answer)
}

// newBedWith is newBed for an upstream with options.
func newBedWith(t *testing.T, o upstream.Options, answer exchange.RequestPolicy) *bed {
	t.Helper()
	k := &kernel{now: 1, socks: map[int]*sock{}}
	reactor.Simulate(k)
	t.Cleanup(func() { reactor.Simulate(nil) })
	logged := make(lines, 1000)
	log := slog.New(logged)
	loops, err := reactor.NewGroup(1, log)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := telemetry.New(telemetry.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, o, loops[0])
	table, wrong := route.Compile([]route.Rule{{Pattern: "/"}})
	if wrong != nil {
		t.Fatal(wrong)
	}
	const long = int64(time.Hour)
	r := proxy.Route{
		Name: "/", Timeout: long, StreamTimeout: long, TunnelTimeout: long, Stat: registry.Route("/"),
	}
	if answer != nil {
		r.Chain.Append(answer)
		r.Upstream = exchange.NoUpstream
	}
	shard := registry.Shard(0)
	shard.Grow(registry.Sizes())
	shared := &proxy.Shared{}
	shared.MaxClients.Store(5000)
	w := proxy.NewWorker(loops[0], shared, shard, log)
	shared.Workers = []*proxy.Worker{w}
	snapshot := func(all ...*upstream.Upstream) *proxy.Snapshot {
		s := &proxy.Snapshot{Table: table, Routes: []proxy.Route{r}, NoRoute: telemetry.NoRoute}
		for _, u := range all {
			s.Upstreams = append(s.Upstreams, proxy.Upstream{
				Upstream: u, ConnectTimeout: long, PendingTimeout: long, Stat: registry.Upstream("s"),
			})
		}
		return s
	}
	w.Install(snapshot(u))
	b := &bed{
		snapshot: snapshot, kernel: k, t: t, lines: logged,
		loop: loops[0], acceptor: &proxy.Acceptor{Worker: w}, upstream: u,
	}
	b.acceptor.Peers = []*proxy.Acceptor{b.acceptor}
	b.acceptor.Listener = &proxy.Listener{
		Head:        http1.Limits{Line: 8 << 10, Head: 16 << 10, Fields: 100, Extension: 4 << 10},
		HeadTimeout: long, IdleTimeout: long, SendTimeout: long, Quota: &proxy.Quota{},
		PingAfter: 15e9,
	}
	return b
}

// client connects a client that sends what in gives.
func (b *bed) client(in func([]byte) (int, syscall.Errno)) *sock {
	b.t.Helper()
	return b.clientFrom("127.0.0.1", in)
}

// clientFrom is client from an address.
func (b *bed) clientFrom(address string, in func([]byte) (int, syscall.Errno)) *sock {
	b.t.Helper()
	s := b.socket()
	s.in = in
	b.accept(s, address)
	return s
}

// accept has the loop accept a client's connection.
func (b *bed) accept(s *sock, address string) {
	b.loop.Post(func() {
		b.acceptor.Accepted(b.loop, reactor.Socket{FD: s.fd, Peer: netip.MustParseAddrPort(address + ":2")})
	})
	b.turn()
}

// turn is one turn of the loop.
func (b *bed) turn() { b.loop.Step(0) }

// memory is how many bytes the buffers have that are in use.
func (b *bed) memory() (bytes int) {
	for class, n := range b.loop.BuffersOut() {
		bytes += n * reactor.Sizes[class]
	}
	return bytes
}

// asked has the loop read a client's first request, connect to the target and send the request
// there.
func (b *bed) asked() (target *sock) {
	b.turn()
	b.turn()
	if len(b.dialed) == 0 {
		return nil
	}
	return b.dialed[len(b.dialed)-1]
}
