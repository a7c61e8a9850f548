package load

import (
	"testing"

	"plimsoll/internal/http1"
)

func TestTheBodiesThatALoopHoldsAreBoundedTogether(t *testing.T) {
	const others = mostBodies - 3
	w := &worker{bodyBytes: others}
	h := &http1Conn{inBody: true, only: exchange{c: &conn{w: w}, held: new(held), request: Request{Body: true}}}
	h.body.Start(http1.Length, 20, &limits)
	c := &h.only
	for range 2 {
		if !h.takeBody([]byte("abcdef")) {
			t.Fatal("the body is not over")
		}
	}
	if string(c.held.body) != "abc" || !c.held.cut || w.bodyBytes != mostBodies {
		t.Errorf("held: %q, cut %v, %d bytes of %d", c.held.body, c.held.cut, w.bodyBytes, mostBodies)
	}
	w.putHeld(c)
	if w.bodyBytes != others {
		t.Errorf("%d bytes are held, want %d", w.bodyBytes, others)
	}
}
