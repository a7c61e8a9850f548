package reactor_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/reactor"
)

// server is an ordinary listener that hands out what it accepts.
func server(t testing.TB, network, addr string) (net.Listener, <-chan net.Conn) {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				close(accepted)
				return
			}
			c.SetDeadline(time.Now().Add(patience))
			accepted <- c
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		for c := range accepted {
			c.Close()
		}
	})
	return ln, accepted
}

func TestADialTellsThatItHasConnected(t *testing.T) {
	path := unixPath(t)
	for _, c := range []struct{ network, listen, dial string }{
		{"tcp", "127.0.0.1:0", ""}, {"tcp", "[::1]:0", ""}, {"unix", path, "unix:" + path},
	} {
		t.Run(c.listen[:4], func(t *testing.T) {
			l := newLoops(t, 1)[0]
			ln, accepted := server(t, c.network, c.listen)
			if c.dial == "" {
				c.dial = ln.Addr().String()
			}
			outcome := make(chan error, 2)
			d := new(conn).echo()
			d.connected = func(err error) { outcome <- err }
			on(t, l, func() {
				if err := d.Dial(l, address(t, c.dial), d); err != nil {
					outcome <- err
				}
				select {
				case <-outcome:
					t.Error("the outcome came within Dial")
				default:
				}
			})
			d.closeLater(t)
			if err := receive(t, outcome, "the outcome"); err != nil {
				t.Fatal(err)
			}
			far := receive(t, accepted, "the connection")
			defer far.Close()
			roundTrip(t, far)
			if c.network == "tcp" {
				on(t, l, func() {
					if v, err := unix.GetsockoptInt(d.FD(), unix.IPPROTO_TCP, unix.TCP_NODELAY); v == 0 || err != nil {
						t.Errorf("TCP_NODELAY is %d, %v: small requests would wait for acknowledgements", v, err)
					}
				})
			}
		})
	}
}

func TestADialThatIsRefusedSaysSo(t *testing.T) {
	l := newLoops(t, 1)[0]
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	outcome := make(chan error, 1)
	told := 0
	d := &conn{connected: func(err error) { outcome <- err }, readable: func() { told++ }}
	on(t, l, func() {
		if err := d.Dial(l, address(t, ln.Addr().String()), d); err != nil {
			outcome <- err
		}
	})
	d.closeLater(t)
	if err := receive(t, outcome, "the outcome"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("outcome %v, want connection refused", err)
	}
	settle(t, l)
	on(t, l, func() {
		if told != 0 {
			t.Error("a connection that never was is readable")
		}
	})
}

func TestADialToAPathWhereNobodyListensFailsAtOnce(t *testing.T) {
	l := newLoops(t, 1)[0]
	path := unixPath(t)
	on(t, l, func() {
		var d conn
		if err := d.Dial(l, address(t, "unix:"+path), &d); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Dial: %v", err)
		}
		if d.Open() {
			t.Error("it holds a socket")
		}
	})
}

// silent is an address that answers no attempt to connect: a listener whose queue is full.
func silent(t *testing.T) string {
	t.Helper()
	a := address(t, "127.0.0.1:0")
	fd, err := reactor.BindListener(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*unix.SockaddrInet4).Port}
	dial(t, "tcp", addr.String())
	return addr.String()
}

func TestHowLongADialMayTakeIsItsOwnersBusiness(t *testing.T) {
	l := newLoops(t, 1)[0]
	to := silent(t)
	outcome := make(chan error, 1)
	d := &conn{connected: func(err error) { outcome <- err }}
	var limit reactor.Timer
	on(t, l, func() {
		if err := d.Dial(l, address(t, to), d); err != nil {
			t.Error(err)
		}
		l.SetTimer(&limit, expiry(func() {
			d.Close()
			outcome <- nil
		}), l.Now()+int64(50*time.Millisecond))
	})
	if err := receive(t, outcome, "the timer"); err != nil {
		t.Errorf("the dial had an outcome of its own: %v", err)
	}
	settle(t, l)
	if len(outcome) != 0 {
		t.Error("Connected was told after Close")
	}
}

func TestWhatIsWrittenBeforeTheConnectionStandsIsSentWhenItDoes(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l := newLoops(t, 1)[0]
			at := "127.0.0.1:0"
			if network == "unix" {
				at = unixPath(t)
			}
			ln, accepted := server(t, network, at)
			to := ln.Addr().String()
			if network == "unix" {
				to = "unix:" + at
			}
			d := &conn{}
			d.connected = func(err error) {
				if err != nil {
					t.Error(err)
				}
				d.Write([]byte(", then this"))
			}
			on(t, l, func() {
				if err := d.Dial(l, address(t, to), d); err != nil {
					t.Error(err)
				}
				d.Write([]byte("first this"))
				d.CloseWrite()
			})
			d.closeLater(t)
			far := receive(t, accepted, "the connection")
			defer far.Close()
			// The peer says nothing, so no other event helps these bytes out.
			if got, err := io.ReadAll(far); string(got) != "first this, then this" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestBytesThatCameWithTheConnectionAreTold(t *testing.T) {
	l := newLoops(t, 1)[0]
	ln, accepted := server(t, "tcp", "127.0.0.1:0")
	order := make(chan string, 4)
	d := &conn{connected: func(error) { order <- "connected" }, readable: func() { order <- "readable" }}
	on(t, l, func() {
		if err := d.Dial(l, address(t, ln.Addr().String()), d); err != nil {
			t.Error(err)
			return
		}
		// The greeting arrives before the loop asks, so one event carries both.
		far := receive(t, accepted, "the connection")
		far.Write([]byte("220 ready"))
		await(t, d.FD(), unix.POLLIN)
		t.Cleanup(func() { far.Close() })
	})
	d.closeLater(t)
	if got := receive(t, order, "the outcome"); got != "connected" {
		t.Errorf("told %q first", got)
	}
	receive(t, order, "the greeting")
	expectRead(t, d, 100, "220 ready", nil)
}

func TestADialMayBeGivenUpWhenItsOutcomeIsTold(t *testing.T) {
	l := newLoops(t, 1)[0]
	ln, accepted := server(t, "tcp", "127.0.0.1:0")
	done := make(chan struct{})
	d := &conn{readable: func() { t.Error("told after Close") }}
	d.connected = func(error) { d.Close(); close(done) }
	on(t, l, func() {
		d.Dial(l, address(t, ln.Addr().String()), d)
		far := receive(t, accepted, "the connection")
		far.Write([]byte("x"))
		await(t, d.FD(), unix.POLLIN)
		far.Close()
	})
	receive(t, done, "the outcome")
	settle(t, l)
}

func TestAddresses(t *testing.T) {
	for _, good := range []string{"127.0.0.1:80", "[::1]:443", "unix:/run/x", "[fe80::1%lo]:1"} {
		if got := address(t, good).String(); got != good {
			t.Errorf("%s reads back as %s", good, got)
		}
	}
	if got := address(t, "[::ffff:10.0.0.1]:80").String(); got != "10.0.0.1:80" {
		t.Errorf("an IPv4 address in IPv6 form is %s", got)
	}
	for _, bad := range []string{"", "localhost:80", "127.0.0.1", ":80", "unix:", "unix:" + string(make([]byte, 108)), "1.2.3.4:99999"} {
		if a, err := reactor.ParseAddress(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, a)
		}
	}
}
