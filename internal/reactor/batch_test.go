package reactor_test

import (
	"bytes"
	"io"
	"testing"

	"plimsoll/internal/reactor"
)

func TestWhatIsBatchedGoesOutOnceAndInOrder(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, _ := reading(t, l, far)
	after := &ran{c: c}
	on(t, l, func() {
		c.Batch()
		for _, piece := range []string{"one ", "two ", "three"} {
			if err := c.Write([]byte(piece)); err != nil {
				t.Error(err)
			}
		}
		if c.Queued() != 0 || c.Sent() != 0 {
			t.Errorf("before the batch is sent %d bytes wait for the peer and some went out at %d, want neither", c.Queued(), c.Sent())
		}
		l.AfterBatch(after)
	})
	got := make([]byte, len("one two three"))
	if _, err := io.ReadFull(near, got); err != nil || string(got) != "one two three" {
		t.Fatalf("the peer got %q, %v", got, err)
	}
	on(t, l, func() {
		if after.times != 1 || after.sent == 0 {
			t.Errorf("what waited for the batch ran %d times, with bytes sent at %d", after.times, after.sent)
		}
	})
}

func TestABatchThatFailsIsToldAsReadable(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	near.SetLinger(0)
	near.Close()
	receive(t, told, "the reset")
	on(t, l, func() {
		c.Batch()
		if err := c.Write([]byte("x")); err != nil {
			t.Errorf("Write into a batch: %v", err)
		}
	})
	receive(t, told, "the batch's failure")
	on(t, l, func() {
		if !c.Failed() {
			t.Error("Failed is false")
		}
	})
}

func TestABatchOfAClosedConnectionIsForgotten(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, _ := reading(t, l, far)
	on(t, l, func() {
		c.Batch()
		c.Write([]byte("x"))
		c.Close()
	})
	if got, err := io.ReadAll(near); err != nil || len(got) != 0 {
		t.Errorf("the peer got %q, %v, want nothing and an orderly end", got, err)
	}
	on(t, l, func() {
		if out := l.BuffersOut(); out != [len(reactor.Sizes)]int{} {
			t.Errorf("buffers stayed out: %v", out)
		}
	})
}

func TestTheEndOfWritingComesBehindTheBatch(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, _ := reading(t, l, far)
	sent := noise(3000)
	on(t, l, func() {
		c.Batch()
		c.Write(sent)
		c.CloseWrite()
	})
	if got, err := io.ReadAll(near); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the peer got %d bytes, %v, want %d and the end", len(got), err, len(sent))
	}
}

// A peer on the same machine may run, and answer, before the call that sends returns: Sent has to
// be the time before it.
func TestSentIsBeforeThePeerCanHaveReadIt(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, _ := reading(t, l, far)
	got := make([]byte, 1)
	for i := range 500 {
		l.Post(func() {
			if i%2 == 0 {
				c.Batch()
			}
			if err := c.Write([]byte("x")); err != nil {
				t.Error(err)
			}
		})
		if _, err := io.ReadFull(near, got); err != nil {
			t.Fatal(err)
		}
		read := reactor.Clock()
		on(t, l, func() {
			if c.Sent() > read {
				t.Errorf("message %d went out at %d, and the peer had read it at %d", i, c.Sent(), read)
			}
		})
	}
}
