package reactor_test

import (
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/reactor"
)

func TestAcceptedSocketsKnowTheirPeer(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(at, func(t *testing.T) {
			l := newLoops(t, 1)[0]
			peer := make(chan netip.AddrPort, 1)
			fd, to := bind(t, at)
			listen(t, l, fd, acceptor{accepted: func(_ *reactor.Loop, s reactor.Socket) {
				peer <- s.Peer
				s.Close()
			}})
			c := dial(t, "tcp", to)
			if got := receive(t, peer, "the connection"); got.String() != c.LocalAddr().String() {
				t.Errorf("peer %s, want %s", got, c.LocalAddr())
			}
		})
	}
}

// What an Acceptor does not take stays in the accept queue, and the listener asks again by itself.
func TestAListenerAsksAgainWhetherToAccept(t *testing.T) {
	l := newLoops(t, 1)[0]
	asked, sockets := 0, make(chan reactor.Socket, 3)
	fd, to := bind(t, "127.0.0.1:0")
	listen(t, l, fd, acceptor{
		accepts: func() bool {
			asked++
			return asked%3 == 0
		},
		accepted: func(_ *reactor.Loop, s reactor.Socket) { sockets <- s },
	})
	for range 3 {
		dial(t, "tcp", to)
	}
	for range 3 {
		receive(t, sockets, "a connection").Close()
	}
	on(t, l, func() {
		if asked < 9 {
			t.Errorf("it was asked %d times about three connections, each taken the third time", asked)
		}
	})
}

// The end is seen before what came before it is read.
func TestAnAcceptedSocketKnowsThatItsPeerHasGone(t *testing.T) {
	l := newLoops(t, 1)[0]
	sockets := make(chan reactor.Socket, 1)
	fd, to := bind(t, "127.0.0.1:0")
	listen(t, l, fd, acceptor{accepted: func(_ *reactor.Loop, s reactor.Socket) { sockets <- s }})
	for _, gone := range []bool{false, true} {
		c := dial(t, "tcp", to)
		if _, err := c.Write([]byte("GET")); err != nil {
			t.Fatal(err)
		}
		if gone { // on the loopback the end has arrived when this returns
			c.Close()
		}
		s := receive(t, sockets, "a connection")
		if got := s.PeerEnded(); got != gone && runtime.GOOS == "linux" {
			t.Errorf("the peer has gone: %t, want %t", got, gone)
		}
		s.Close()
	}
}

func TestEveryLoopAcceptsOnTheSameAddress(t *testing.T) {
	loops := newLoops(t, 2)
	first, to := bind(t, "127.0.0.1:0")
	second, err := reactor.BindListener(address(t, to), 128)
	if err != nil {
		t.Fatal(err)
	}
	echo := echoes(t)
	listen(t, loops[0], first, echo)
	listen(t, loops[1], second, echo)
	clients := make([]net.Conn, 40)
	for i := range clients {
		clients[i] = dial(t, "tcp", to)
		roundTrip(t, clients[i])
	}
	a, b := loops[0].Connections(), loops[1].Connections()
	if a+b != 40 {
		t.Errorf("%d and %d connections, want 40 together", a, b)
	}
	// One at a time, so each is placed in the knowledge of those before it.
	if a-b > 2 || b-a > 2 {
		t.Errorf("%d and %d connections: one loop has clearly more", a, b)
	}
	for _, c := range clients {
		c.Close()
	}
}

// A connection that is on its way to another loop must count there, or a burst goes to one loop
// whole.
func TestABurstThatOneLoopAcceptsIsSpreadOverAll(t *testing.T) {
	loops := newLoops(t, 3)
	fd, to := bind(t, "127.0.0.1:0")
	echo := echoes(t)
	listen(t, loops[0], fd, echo)
	clients := make([]net.Conn, 60)
	on(t, loops[0], func() {
		// The other loops are held too: nothing has arrived there when the last of the burst is
		// placed.
		release := make(chan struct{})
		loops[1].Post(func() { <-release })
		loops[2].Post(func() { <-release })
		for i := range clients {
			clients[i] = dial(t, "tcp", to)
		}
		loops[0].Post(func() { close(release) })
	})
	for _, c := range clients {
		roundTrip(t, c)
	}
	for _, l := range loops {
		if n := l.Connections(); n < 18 || n > 22 {
			t.Errorf("loop %d has %d of 60 connections", l.ID, n)
		}
	}
}

func TestConnectionsAreCountedUntilTheyAreClosed(t *testing.T) {
	loops := newLoops(t, 2)
	fd, to := bind(t, "127.0.0.1:0")
	sockets := make(chan reactor.Socket, 2)
	listen(t, loops[0], fd, acceptor{accepted: func(_ *reactor.Loop, s reactor.Socket) { sockets <- s }})
	count := func(a, b int64) {
		t.Helper()
		if got, other := loops[0].Connections(), loops[1].Connections(); got != a || other != b {
			t.Errorf("%d and %d connections, want %d and %d", got, other, a, b)
		}
	}
	dial(t, "tcp", to)
	refused := receive(t, sockets, "a connection")
	count(1, 0)
	refused.Close()
	count(0, 0)

	dial(t, "tcp", to)
	var c conn
	attach(t, loops[0], &c, receive(t, sockets, "a connection"))
	count(1, 0)
	var moved reactor.Socket
	on(t, loops[0], func() { moved = c.Detach() })
	attach(t, loops[1], &c, moved)
	count(0, 1)
	on(t, loops[1], c.Close)
	count(0, 0)

	// A dialled connection is not a client of the loop's.
	_, far := peers(t, false)
	attach(t, loops[0], &c, far)
	count(0, 0)
}

// pair is two loops, of which the test has to stop both. The returned functions run a loop, and
// wait for its end.
func pair(t *testing.T) (loops []*reactor.Loop, run func(i int), stop func(i int)) {
	loops, err := reactor.NewGroup(2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var ended [2]chan struct{}
	run = func(i int) {
		ended[i] = make(chan struct{})
		go func() {
			loops[i].Run()
			close(ended[i])
		}()
	}
	stop = func(i int) {
		loops[i].Post(loops[i].Stop)
		receive(t, ended[i], "the loop's end")
	}
	return loops, run, stop
}

func TestALoopKeepsWhatItWouldHandToOneThatHasStopped(t *testing.T) {
	loops, run, stop := pair(t)
	run(0)
	t.Cleanup(func() { stop(0) }) // after those of echoes
	run(1)
	stop(1)
	fd, to := bind(t, "127.0.0.1:0")
	listen(t, loops[0], fd, echoes(t))
	for range 8 {
		roundTrip(t, dial(t, "tcp", to))
	}
	if n := loops[1].Connections(); n != 0 {
		t.Errorf("the loop that has stopped holds %d connections", n)
	}
}

func TestALoopThatStopsClosesWhatIsOnItsWayToIt(t *testing.T) {
	loops, run, stop := pair(t)
	run(0)
	t.Cleanup(func() { stop(0) })
	run(1)
	held, release := make(chan struct{}), make(chan struct{})
	loops[1].Post(func() {
		close(held)
		<-release
		loops[1].Stop()
	})
	<-held
	fd, to := bind(t, "127.0.0.1:0")
	listen(t, loops[0], fd, echoes(t))
	var clients []net.Conn
	for range 8 {
		clients = append(clients, dial(t, "tcp", to))
	}
	settle(t, loops[0])
	var there int64
	on(t, loops[0], func() { there = loops[1].Connections() })
	if there == 0 {
		t.Fatal("no connection is on its way to the loop")
	}
	close(release)
	stop(1)
	for _, c := range clients {
		c.Write([]byte("x"))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			there-- // it is closed
		}
	}
	if there != 0 || loops[1].Connections() != 0 {
		t.Errorf("%d connections are left open, and the loop that has stopped holds %d", there, loops[1].Connections())
	}
}

func TestClosingAListenerServesItsQueueFirst(t *testing.T) {
	l := newLoops(t, 1)[0]
	fd, to := bind(t, "127.0.0.1:0")
	ln := listen(t, l, fd, echoes(t))
	clients := make([]net.Conn, 100)
	on(t, l, func() {
		for i := range clients {
			clients[i] = dial(t, "tcp", to)
		}
		ln.Close(false)
		ln.Close(false)
	})
	for _, c := range clients {
		roundTrip(t, c)
	}
	if c, err := net.Dial("tcp", to); err == nil {
		c.Close()
		t.Error("a closed listener still accepts")
	}
}

// HAZARDS: work without a bound in one turn. A full accept queue is emptied over several turns, in
// which the loop serves others too.
func TestHazardAListenerThatClosesDoesNotHaveTheLoopForItself(t *testing.T) {
	l := newLoops(t, 1)[0]
	fd, to := bind(t, "127.0.0.1:0")
	const queued, aTurn = 120, 64
	accepted := make(chan struct{}, queued)
	ln := listen(t, l, fd, acceptor{accepted: func(_ *reactor.Loop, s reactor.Socket) {
		s.Close()
		accepted <- struct{}{}
	}})
	on(t, l, func() {
		for range queued {
			dial(t, "tcp", to)
		}
		ln.Close(false)
		if n := len(accepted); n > aTurn || l.Closing() != 1 {
			t.Errorf("%d connections were accepted at once, want at most %d; %d listeners are closing", n, aTurn, l.Closing())
		}
	})
	for range queued {
		receive(t, accepted, "a connection that was in the queue")
	}
	settle(t, l)
	on(t, l, func() {
		if n := l.Closing(); n != 0 {
			t.Errorf("%d listeners are closing although their queue is empty", n)
		}
	})
}

// What a loop that stops would still have accepted it refuses.
func TestAListenerThatIsClosingEndsWithItsLoop(t *testing.T) {
	loops, run, stop := pair(t)
	fd, to := bind(t, "127.0.0.1:0")
	ln, err := loops[0].Listen(fd, acceptor{accepted: func(_ *reactor.Loop, s reactor.Socket) { s.Close() }})
	if err != nil {
		t.Fatal(err)
	}
	for range 120 {
		dial(t, "tcp", to)
	}
	run(1)
	stop(1)
	loops[0].Post(func() {
		ln.Close(false)
		loops[0].Stop()
	})
	run(0)
	stop(0)
	if c, err := net.Dial("tcp", to); err == nil {
		c.Close()
		t.Error("a listener outlives its loop")
	}
}

func TestAListenerThatIsKeptLeavesWhoComesLaterToAnotherHolder(t *testing.T) {
	l := newLoops(t, 1)[0]
	fd, to := bind(t, "127.0.0.1:0")
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	ln := listen(t, l, fd, acceptor{accepted: func(_ *reactor.Loop, s reactor.Socket) {
		accepted++
		s.Close()
	}})
	var client net.Conn
	var before, after uint64
	on(t, l, func() {
		dial(t, "tcp", to) // the other holder may have given the address up, so this one is not left
		ln.Close(true)
		client = dial(t, "tcp", to)
		before = l.Stats().Turns
	})
	settle(t, l)
	// The second connection waits in the shared queue. A loop that still watched it would turn
	// without end.
	waitOn(t, l, 30*time.Millisecond)
	on(t, l, func() { after = l.Stats().Turns })
	if accepted != 1 {
		t.Errorf("the loop accepted %d connections, want the one that was there before it gave the listener up", accepted)
	}
	if after-before > 50 {
		t.Errorf("%d turns with nothing to do", after-before)
	}
	next := newLoops(t, 1)[0]
	listen(t, next, other, echoes(t))
	roundTrip(t, client)
}

// waitOn lets the loop be idle for so long, by a timer of its own.
func waitOn(t testing.TB, l *reactor.Loop, long time.Duration) {
	t.Helper()
	over := make(chan struct{})
	var timer reactor.Timer
	on(t, l, func() { l.SetTimer(&timer, expiry(func() { close(over) }), l.Now()+int64(long)) })
	receive(t, over, "a timer")
}

func TestAListenerThatSomebodyShutDownDoesNotKeepTheLoopBusy(t *testing.T) {
	l := newLoops(t, 1)[0]
	fd, _ := bind(t, "127.0.0.1:0")
	ln := listen(t, l, fd, acceptor{})
	var before, after uint64
	on(t, l, func() {
		before = l.Stats().Turns
		unix.Shutdown(fd, unix.SHUT_RDWR)
	})
	// Long enough for the listener to be tried again.
	waitOn(t, l, 150*time.Millisecond)
	on(t, l, func() { after = l.Stats().Turns; ln.Close(false) })
	if after-before > 50 {
		t.Errorf("%d turns for a dead listener", after-before)
	}
}

func TestAListenerThatCannotBeWatchedIsClosed(t *testing.T) {
	l := newLoops(t, 1)[0]
	r, w := pipe(t)
	on(t, l, func() {
		// Registering the same descriptor twice fails.
		ln, err := l.Listen(r, acceptor{accepted: func(*reactor.Loop, reactor.Socket) {}})
		if err != nil {
			t.Error(err)
			return
		}
		before := descriptors(t)
		if _, err := l.Listen(r, acceptor{}); err == nil {
			t.Error("one descriptor is watched twice")
		}
		// It owned the descriptor, so that is gone; its reserve too.
		if n := descriptors(t); n != before-1 {
			t.Errorf("%d descriptors after the failure, want %d", n, before-1)
		}
		ln.Close(true)
	})
	unix.Close(w)
}

func pipe(t *testing.T) (r, w int) {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

func TestBindSaysWhatIsInTheWay(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	path := unixPath(t)
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for to, want := range map[string]string{
		ln.Addr().String():  "taken by another program",
		"unix:" + path:      "the file exists",
		"192.0.2.1:1":       "no interface of this machine has that address",
		"unix:/no/such/dir": "bind",
	} {
		fd, err := reactor.BindListener(address(t, to), 1)
		if err == nil {
			unix.Close(fd)
			t.Errorf("%s can be bound", to)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), to) {
			t.Errorf("%s: %v, want it to say %q", to, err, want)
		}
	}
}

func TestOnlyTheFirstSocketOfAnAddressFindsOutThatItIsTaken(t *testing.T) {
	first, err := reactor.BindFirst(address(t, "127.0.0.1:0"), 128)
	if err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(first)
	if err != nil {
		t.Fatal(err)
	}
	to := net.JoinHostPort("127.0.0.1", strconv.Itoa(sa.(*unix.SockaddrInet4).Port))
	if fd, err := reactor.BindFirst(address(t, to), 128); err == nil {
		unix.Close(fd)
		t.Error("two programs could take turns with the connections of one address")
	}
	second, err := reactor.BindListener(address(t, to), 128)
	if err != nil {
		t.Fatalf("the next loop's socket: %v", err)
	}
	// Two groups, so that what each accepts is what the kernel gave it.
	var accepted [2]atomic.Int64
	for i, fd := range []int{first, second} {
		echo := echoes(t)
		listen(t, newLoops(t, 1)[0], fd, acceptor{accepted: func(l *reactor.Loop, s reactor.Socket) {
			accepted[i].Add(1)
			echo.accepted(l, s)
		}})
	}
	for range 40 {
		roundTrip(t, dial(t, "tcp", to))
	}
	if a, b := accepted[0].Load(), accepted[1].Load(); a == 0 || b == 0 {
		t.Errorf("the sockets got %d and %d connections: the kernel does not spread them", a, b)
	}
}

func TestAWildcardIPv6ListenerTakesIPv4Too(t *testing.T) {
	l := newLoops(t, 1)[0]
	fd, to := bind(t, "[::]:0")
	var peer atomic.Value
	echo := echoes(t)
	listen(t, l, fd, acceptor{accepted: func(l *reactor.Loop, s reactor.Socket) {
		peer.Store(s.Peer.Addr())
		echo.accepted(l, s)
	}})
	_, port, _ := net.SplitHostPort(to)
	roundTrip(t, dial(t, "tcp", net.JoinHostPort("127.0.0.1", port)))
	if got := peer.Load().(netip.Addr); !got.Is4() {
		t.Errorf("an IPv4 client is known as %s: it would match no IPv4 rule", got)
	}
}

func TestAStormIsServedOverManyTurns(t *testing.T) {
	l := newLoops(t, 1)[0]
	fd, to := bind(t, "127.0.0.1:0")
	echo := echoes(t)
	accepted := 0
	listen(t, l, fd, acceptor{accepted: func(l *reactor.Loop, s reactor.Socket) {
		accepted++
		echo.accepted(l, s)
	}})
	clients := make([]net.Conn, 100)
	most := 0
	on(t, l, func() {
		for i := range clients {
			clients[i] = dial(t, "tcp", to)
		}
		l.Post(func() { most = accepted })
	})
	for _, c := range clients {
		roundTrip(t, c)
	}
	if most == 0 || most == len(clients) {
		t.Errorf("%d of %d were accepted in the first turn, want some", most, len(clients))
	}
}
