package accesslog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// put writes one line of n bytes that says its number, reserving more room than it takes, as
// encoders do.
func put(r *ringBuffer, number, n, spare int) bool {
	room, ok := r.reserve(n + spare)
	if !ok {
		return false
	}
	line := fmt.Appendf(room, "%d ", number)
	for len(line) < n-1 {
		line = append(line, 'x')
	}
	r.commit(len(append(line, '\n')))
	return true
}

// checker reads lines and complains when one is missing, doubled, torn or out of order.
type checker struct {
	t    *testing.T
	next int
}

func (c *checker) take(chunk []byte) {
	for line := range bytes.Lines(chunk) {
		var number int
		if _, err := fmt.Sscanf(string(line), "%d x", &number); err != nil || number != c.next || line[len(line)-1] != '\n' {
			c.t.Fatalf("got line %q where number %d was due", line, c.next)
		}
		c.next++
	}
}

func TestRingGivesBackEveryLineWholeAndInOrderOverManyLaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	r := newRingBuffer(1 << 10)
	c := checker{t: t}
	sent, full := 0, 0
	for range 20_000 {
		if rng.IntN(3) > 0 {
			if put(r, sent, 12+rng.IntN(200), rng.IntN(300)) {
				sent++
			} else {
				full++
			}
			continue
		}
		chunk := r.readable()
		n := len(chunk)
		if rng.IntN(2) == 0 { // the taker may give back single lines
			n = bytes.IndexByte(chunk, '\n') + 1
		}
		c.take(chunk[:n])
		r.release(n)
	}
	for range 2 {
		chunk := r.readable()
		c.take(chunk)
		r.release(len(chunk))
	}
	if c.next != sent || full == 0 || sent < 5_000 {
		t.Errorf("%d of %d lines came out, %d found the ring full", c.next, sent, full)
	}
}

func TestRingThatLinesFillExactlyLosesNothing(t *testing.T) {
	r := newRingBuffer(1 << 10)
	c := checker{t: t}
	for number := range 64 * 5 {
		if !put(r, number, 16, 0) {
			t.Fatalf("line %d found the ring full", number)
		}
		if number%64 == 63 {
			if put(r, -1, 16, 0) {
				t.Fatal("a full ring took a line")
			}
			chunk := r.readable()
			c.take(chunk)
			r.release(len(chunk))
		}
	}
	if c.next != 64*5 {
		t.Errorf("%d lines came out", c.next)
	}
}

func TestRingCarriesLinesBetweenTwoGoroutines(t *testing.T) {
	const lines = 20_000
	r := newRingBuffer(1 << 12)
	done := make(chan struct{})
	go func() {
		defer close(done)
		rng := rand.New(rand.NewPCG(7, 8))
		for sent := 0; sent < lines; {
			if put(r, sent, 12+rng.IntN(500), rng.IntN(1000)) {
				sent++
			} else {
				runtime.Gosched()
			}
		}
	}()
	c := checker{t: t}
	for c.next < lines {
		chunk := r.readable()
		if len(chunk) == 0 {
			runtime.Gosched()
		}
		c.take(chunk)
		r.release(len(chunk))
	}
	<-done
}

func TestRingAsksForTheWriterOnceWhenHalfFull(t *testing.T) {
	r := newRingBuffer(1 << 10)
	asked := func(lines int) (times int) {
		for range lines {
			put(r, 0, 64, 0)
			if r.wantsWriter() {
				times++
			}
		}
		return times
	}
	for round := range 4 {
		if n := asked(8); n != 0 {
			t.Errorf("round %d: asked %d times before half full", round, n)
		}
		if n := asked(4); n != 1 {
			t.Errorf("round %d: asked %d times above half full", round, n)
		}
		for range 2 {
			r.release(len(r.readable()))
		}
	}
}
