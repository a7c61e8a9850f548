package load

import (
	"testing"

	"plimsoll/internal/http1"
)

func TestTheBodiesThatALoopHoldsAreBoundedTogether(t *testing.T) {
	const others = mostBodies - 3
	w := &worker{}
	w.bodyBytes.Store(others)
	h := &http1Conn{inBody: true, only: exchange{c: &conn{w: w}, held: new(held), request: Request{Body: true}}}
	h.body.Start(http1.Length, 20, &limits)
	c := &h.only
	for range 2 {
		if !h.takeBody([]byte("abcdef")) {
			t.Fatal("the body is not over")
		}
	}
	if string(c.held.body) != "abc" || !c.held.cut || w.bodyBytes.Load() != mostBodies {
		t.Errorf("held: %q, cut %v, %d bytes of %d", c.held.body, c.held.cut, w.bodyBytes.Load(), mostBodies)
	}
	w.putHeld(c)
	if w.bodyBytes.Load() != others {
		t.Errorf("%d bytes are held, want %d", w.bodyBytes.Load(), others)
	}
}

// Answers of HTTP/3 are read by goroutines, a thousand streams at once.
func TestBodiesOfHTTP3AreHeldWithinTheSameBound(t *testing.T) {
	w := &worker{}
	w.bodyBytes.Store(mostBodies - 3)
	a := &answer3{w: w}
	a.addBody([]byte("abcdef"), true)
	if string(a.body) != "abc" || !a.cut || w.bodyBytes.Load() != mostBodies {
		t.Errorf("held: %q, cut %v, %d bytes", a.body, a.cut, w.bodyBytes.Load())
	}
	(&http3Conn{c: &conn{w: w}}).answered(nil, &http3Stream{}, a)
	if left := w.bodyBytes.Load(); left != mostBodies-3 {
		t.Errorf("%d bytes are held when it was judged, want %d", left, mostBodies-3)
	}
}
