package proxy_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/admission"
)

// overloaded is a bed whose loop is far too late in each turn.
func overloaded(t *testing.T, shadow bool) *bed {
	b := newBed(t, nil)
	s := b.snapshot(b.upstream)
	s.Admission = admission.NewPlan(admission.Options{Delay: time.Millisecond, Shadow: shadow, Used: [admission.Classes]bool{true}})
	b.loop.Post(func() { b.acceptor.Worker.Install(s) })
	b.turn()
	return b
}

// lateTurn is a turn that comes after all that was ready has waited for a second.
func (b *bed) lateTurn() {
	b.now += int64(time.Second)
	b.loop.Step(int64(time.Second))
}

const ask = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func TestALoopThatIsTooLateRefuses(t *testing.T) {
	b := overloaded(t, false)
	c := b.client(silence)
	c.in = saying(silence, ask)
	b.tell(c)
	b.lateTurn()
	if got := string(c.out); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "instance_overloaded") ||
		!strings.Contains(got, "\r\nRetry-After: ") || strings.Contains(got, "Connection: close") {
		t.Errorf("the answer is %q", got)
	}
	if len(b.dialed) > 0 || c.closed {
		t.Error("the service is asked all the same, or the connection is closed")
	}
}

func TestInShadowModeNobodyIsRefused(t *testing.T) {
	b := overloaded(t, true)
	c := b.client(silence)
	c.in = saying(silence, ask)
	b.tell(c)
	b.lateTurn()
	b.turn()
	if len(c.out) > 0 || len(b.dialed) == 0 {
		t.Errorf("the client gets %q, and %d connections to the service are made", c.out, len(b.dialed))
	}
}

// What a client sends that does not heed Retry-After is not even read until its rest is over, which
// grows, and has a bound.
func TestWhoComesAgainAtOnceIsReadLater(t *testing.T) {
	b := overloaded(t, false)
	waiting := 0
	c := b.client(silence)
	c.in = func(p []byte) (int, syscall.Errno) {
		if waiting == 0 {
			return silence(p)
		}
		waiting--
		return copy(p, ask), 0
	}
	again := func() { waiting++; b.tell(c) }
	refusals := func() int { return strings.Count(string(c.out), "HTTP/1.1 503 ") }
	again()
	b.lateTurn()
	if refusals() != 1 {
		t.Fatalf("%d refusals, want 1", refusals())
	}
	for n := 2; n < 20; n++ {
		rest := min(31250*time.Microsecond<<(n-2), 250*time.Millisecond)
		reads := c.reads
		again()
		b.now += int64(rest) - int64(5*time.Millisecond)
		b.loop.Step(int64(time.Second))
		if c.reads != reads {
			t.Fatalf("after %d refusals the client is read %v after the last one", n-1, rest-5*time.Millisecond)
		}
		for tick := 0; tick < 10 && refusals() < n; tick++ { // the wheel's
			b.now += int64(5 * time.Millisecond)
			b.loop.Step(int64(time.Second))
		}
		if refusals() != n {
			t.Fatalf("%d refusals after a rest of %v, want %d", refusals(), rest, n)
		}
	}
}
