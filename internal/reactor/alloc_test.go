//go:build !race

package reactor_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"plimsoll/internal/reactor"
)

// exchange sends p and waits until as much has come back.
func exchange(t testing.TB, fd int, p, back []byte) {
	if n, err := unix.Write(fd, p); n != len(p) {
		t.Fatal(n, err)
	}
	for got := 0; got < len(p); {
		n, err := unix.Read(fd, back[got:])
		if n <= 0 {
			t.Fatal(n, err)
		}
		got += n
	}
}

func TestEchoingAllocatesNothing(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := socketPair(t)
	c := new(conn).echo()
	attach(t, l, c, far)
	p, back := noise(128), make([]byte, 128)
	if n := testing.AllocsPerRun(2000, func() { exchange(t, near, p, back) }); n != 0 {
		t.Errorf("%v allocations for each round trip", n)
	}
}

func TestQueueingAllocatesNothing(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := socketPair(t)
	c := &conn{}
	attach(t, l, c, far)
	on(t, l, func() { unix.SetsockoptInt(c.FD(), unix.SOL_SOCKET, unix.SO_SNDBUF, 4096) })
	p, back := noise(100_000), make([]byte, 100_000)
	queued, written := 0, make(chan struct{})
	write := func() {
		if err := c.Write(p); err != nil {
			t.Error(err)
		}
		queued += c.Queued()
		written <- struct{}{}
	}
	run := func() {
		l.Post(write)
		<-written
		for got := 0; got < len(p); {
			n, err := unix.Read(near, back[got:])
			if n <= 0 {
				t.Fatal(n, err)
			}
			got += n
		}
	}
	if n := testing.AllocsPerRun(200, run); n != 0 {
		t.Errorf("%v allocations for each write that was queued", n)
	}
	if queued == 0 {
		t.Error("nothing was queued")
	}
}

func TestTimersAllocateNothing(t *testing.T) {
	l := newLoops(t, 1)[0]
	var timer reactor.Timer
	fired := make(chan struct{}, 1)
	var tell reactor.Expirer = expiry(func() { fired <- struct{}{} })
	set := func() { l.SetTimer(&timer, tell, l.Now()) }
	if n := testing.AllocsPerRun(50, func() {
		l.Post(set)
		<-fired
	}); n != 0 {
		t.Errorf("%v allocations for each timer that fired", n)
	}
}

func BenchmarkEchoRoundTrip(b *testing.B) {
	b.ReportAllocs()
	l := newLoops(b, 1)[0]
	near, far := socketPair(b)
	c := new(conn).echo()
	attach(b, l, c, far)
	p, back := noise(128), make([]byte, 128)
	for b.Loop() {
		exchange(b, near, p, back)
	}
}

func BenchmarkPost(b *testing.B) {
	b.ReportAllocs()
	l := newLoops(b, 1)[0]
	ran := make(chan struct{}, 1)
	f := func() { ran <- struct{}{} }
	for b.Loop() {
		l.Post(f)
		<-ran
	}
}
