package proxy_test

import (
	"strings"
	"testing"
	"time"
)

// newcomers connects clients with a request each until the listener takes no more, and says how many
// came. The loop stays as late as it was, and no time passes.
func (c *crowd) newcomers(gone bool) (n int) {
	for ; n < 100 && c.takesOne(int64(time.Second)); n++ {
		s := c.socket()
		s.ended = gone
		c.accept(s, "127.0.0.1")
		c.asks(s, "new")
		for range 3 {
			c.loop.Step(int64(time.Second))
		}
	}
	return n
}

// newcomersAt is newcomers of which none sends a request, while the loop is as late as that.
func (c *crowd) newcomersAt(late int64) (n int) {
	for ; n < 100 && c.takesOne(late); n++ {
		c.accept(c.socket(), "127.0.0.1")
		c.loop.Step(late)
	}
	return n
}

// takesOne says whether the listener takes one more.
func (c *crowd) takesOne(late int64) (takes bool) {
	c.loop.Post(func() { takes = c.acceptor.Accepts(c.loop) })
	c.loop.Step(late)
	return takes
}

// late is a crowd whose loop is so far behind that the lowest class is refused, and the highest not.
func late(t *testing.T) *crowd {
	c := newCrowd(t)
	c.delay = time.Second
	c.known("refused", 2)
	return c
}

func TestInAnOverloadConnectionsThatAreRefusedWaitToBeAccepted(t *testing.T) {
	c := late(t)
	c.newcomers(false) // up to what it takes at once
	if n := c.newcomers(false); n != 0 {
		t.Errorf("%d more are accepted without any time for it", n)
	}
	for range 4 {
		c.now += int64(3 * time.Millisecond)
		if n := c.newcomers(false); n != 1 {
			t.Errorf("%d are accepted in 3 ms, want 1", n)
		}
	}
}

func TestInAnOverloadConnectionsThatAreServedAreAllAccepted(t *testing.T) {
	c := late(t)
	c.newcomers(false)
	c.install(0)
	c.now += int64(3 * time.Millisecond)
	if n := c.newcomers(false); n != 100 {
		t.Errorf("%d of 100 are accepted, although all are served", n)
	}
}

func TestInShadowModeConnectionsDoNotWait(t *testing.T) {
	c := &crowd{overloaded(t, true), time.Millisecond, new([]string)}
	c.lateTurn()
	for _, gone := range []bool{false, true} {
		if n := c.newcomers(gone); n != 100 || len(*c.order) != n {
			t.Errorf("%d of 100 are accepted, and %d read", n, len(*c.order))
		}
		c.read()
	}
}

func TestWithoutAnOverloadConnectionsDoNotWait(t *testing.T) {
	c := newCrowd(t)
	c.install(2)
	if n := c.newcomers(false); n != 100 {
		t.Errorf("%d of 100 are accepted", n)
	}
}

// Between its bursts an overload leaves a loop with little to do.
func TestForASecondAfterARefusalConnectionsWaitToBeAccepted(t *testing.T) {
	c := late(t)
	c.newcomers(false)
	c.now += int64(900 * time.Millisecond)
	c.loop.Step(0) // nothing to do, so not behind
	if n := c.newcomersAt(0); n >= 100 {
		t.Error("all are accepted 0.9 s after a refusal")
	}
	c.now += int64(1200 * time.Millisecond)
	c.loop.Step(0)
	if n := c.newcomersAt(0); n != 100 {
		t.Errorf("%d of 100 are accepted 1.2 s later", n)
	}
}

// It costs little to see that they are gone, and who comes after them has a turn sooner.
func TestInAnOverloadConnectionsWhoseClientsHaveGoneAreNotRead(t *testing.T) {
	c := late(t)
	c.newcomers(false)
	c.read()
	c.now += int64(6 * time.Millisecond)
	before := len(c.socks)
	if n := c.newcomers(true); n != 3 {
		t.Errorf("%d are accepted in 6 ms, want the two that one costs, and one", n)
	}
	for fd := 100 + before; fd < 100+len(c.socks); fd++ {
		if s := c.socks[fd]; !s.closed || s.reads > 0 {
			t.Errorf("closed %t after %d reads", s.closed, s.reads)
		}
	}
	if names := c.read(); strings.Contains(names, "new") {
		t.Errorf("read: %s", names)
	}
}
