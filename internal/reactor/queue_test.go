package reactor_test

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/reactor"
)

func TestAWriteQueueHasMarks(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, true)
	drained := make(chan int, 8)
	c := &conn{}
	c.drained = func() {
		if c.Congested() {
			t.Error("Congested when Drained is told")
		}
		drained <- c.Queued()
	}
	attach(t, l, c, far)
	var sent []byte
	write := func(n int) {
		p := noise(n)
		if err := c.Write(p); err != nil {
			t.Error(err)
		}
		sent = append(sent, p...)
	}
	on(t, l, func() {
		for c.Queued() == 0 {
			write(10_000)
		}
		if c.Congested() {
			t.Error("congested below the high water mark")
		}
		write(reactor.HighWater - c.Queued())
		if c.Congested() {
			t.Errorf("congested with %d bytes", c.Queued())
		}
		write(1)
		if !c.Congested() || c.Queued() != reactor.HighWater+1 {
			t.Errorf("not congested with %d bytes", c.Queued())
		}
		c.CloseWrite()
	})
	got, err := io.ReadAll(near)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the peer got %d bytes of %d, %v", len(got), len(sent), err)
	}
	if left := receive(t, drained, "Drained"); left > reactor.LowWater {
		t.Errorf("Drained with %d bytes queued", left)
	}
	settle(t, l)
	if len(drained) != 0 {
		t.Error("Drained was told twice")
	}
}

func TestAQueueThatNeverWasHighTellsNothing(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, true)
	c := &conn{drained: func() { t.Error("Drained without congestion") }}
	attach(t, l, c, far)
	total := 0
	on(t, l, func() {
		for c.Queued() == 0 {
			c.Write(noise(10_000))
			total += 10_000
		}
		c.CloseWrite()
	})
	if got, err := io.ReadAll(near); len(got) != total || err != nil {
		t.Errorf("the peer got %d bytes of %d, %v", len(got), total, err)
	}
	settle(t, l)
}

func TestReadingGoesOnAfterCloseWrite(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	on(t, l, c.CloseWrite)
	if got, err := io.ReadAll(near); len(got) != 0 || err != nil {
		t.Errorf("the peer got %q, %v", got, err)
	}
	near.Write([]byte("answer"))
	receive(t, told, "the answer")
	expectRead(t, c, 100, "answer", nil)
}

func TestClosingGivesQueuedBuffersBack(t *testing.T) {
	for name, end := range map[string]func(*conn){"Close": func(c *conn) { c.Close() }, "Reset": func(c *conn) { c.Reset() }} {
		t.Run(name, func(t *testing.T) {
			l := newLoops(t, 1)[0]
			_, far := peers(t, true)
			c := &conn{}
			attach(t, l, c, far)
			on(t, l, func() {
				for range 10 {
					c.Write(noise(100_000))
				}
				if l.BuffersOut() == [len(reactor.Sizes)]int{} {
					t.Error("nothing is queued")
				}
				end(c)
				if out := l.BuffersOut(); out != [len(reactor.Sizes)]int{} {
					t.Errorf("buffers out after it: %v", out)
				}
			})
		})
	}
}

func TestThePeerOfAResetSeesAnErrorAndThatOfACloseAnEnd(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c := &conn{}
	attach(t, l, c, far)
	on(t, l, c.Reset)
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after Reset the peer reads %v", err)
	}
	near, far = peers(t, false)
	c = &conn{}
	attach(t, l, c, far)
	on(t, l, c.Close)
	if _, err := near.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after Close the peer reads %v", err)
	}
}

// The model of a connection's queue is the list of bytes written so far.
func TestWhatIsWrittenArrivesInOrderAndWholeWhateverThePeerTakes(t *testing.T) {
	l := newLoops(t, 1)[0]
	stream := noise(1 << 22)
	rapid.Check(t, func(rt *rapid.T) {
		near, far := peers(t, true)
		c := &conn{}
		if !l.Call(patience, func() {
			if err := c.Attach(l, far, c); err != nil {
				rt.Error(err)
			}
		}) {
			rt.Fatal("the loop did not answer")
		}
		written, got := 0, 0
		take := func(n int) {
			p := make([]byte, n)
			n, err := io.ReadFull(near, p)
			if !bytes.Equal(p[:n], stream[got:got+n]) || err != nil {
				rt.Fatalf("bytes %d to %d are not those that were written, or %v", got, got+n, err)
			}
			got += n
		}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "write") {
				n := rapid.SampledFrom([]int{1, 100, 1023, 1024, 1025, 5000, 16 << 10, 64 << 10, 70_000, 150_000}).Draw(rt, "bytes")
				l.Call(patience, func() {
					if err := c.Write(stream[written : written+n]); err != nil {
						rt.Error(err)
					}
				})
				written += n
			} else if written > got {
				take(rapid.IntRange(1, written-got).Draw(rt, "taken"))
			}
		}
		l.Call(patience, c.CloseWrite)
		take(written - got)
		if n, err := near.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			rt.Fatalf("after the last byte: %d, %v", n, err)
		}
		near.Close()
		l.Call(patience, func() {
			if c.Queued() != 0 {
				rt.Errorf("%d bytes are queued after all have arrived", c.Queued())
			}
			c.Close()
		})
	})
}
