package reactor_test

import (
	"bytes"
	"io"
	"testing"
)

// What is stored is sent whole, from many places and in their order, to a peer that reads when the
// socket is full already, behind what is in front of it, and nothing of it is queued.
func TestWhatIsStoredIsSentAsFarAsThePeerTakesIt(t *testing.T) {
	stored := make([][]byte, 200)
	for i := range stored {
		stored[i] = bytes.Repeat([]byte{byte(i)}, i*211)
	}
	content := bytes.Join(stored, nil) // 4 MB
	l := newLoops(t, 1)[0]
	near, far := peers(t, true)
	c, _ := reading(t, l, far)
	front, sent, drains := []byte("in front "), int64(0), 0
	// rest is what has not been sent, in the places where it stands.
	rest := func() (parts [][]byte) {
		at := int64(0)
		for _, p := range stored {
			if from := max(0, sent-at); from < int64(len(p)) {
				parts = append(parts, p[from:])
			}
			at += int64(len(p))
		}
		return parts
	}
	pump := func() {
		n, err := c.SendStored(front, rest())
		front, sent = nil, sent+n
		if err != nil || c.Queued() != 0 || c.Congested() != (sent < int64(len(content))) {
			t.Errorf("after %d bytes: %v, %d queued, congested: %v", sent, err, c.Queued(), c.Congested())
		}
	}
	on(t, l, func() {
		c.drained = func() { drains++; pump() }
		pump()
	})
	got := make([]byte, len("in front ")+len(content))
	if _, err := io.ReadFull(near, got); err != nil || string(got[:9]) != "in front " || !bytes.Equal(got[9:], content) {
		t.Errorf("the peer got something else: %v", err)
	}
	on(t, l, func() {
		if drains == 0 || c.Written() != int64(len(got)) {
			t.Errorf("%d times drained, and %d bytes were written", drains, c.Written())
		}
	})
}

// What stands in front is kept when the socket takes nothing, and goes out before what is stored.
func TestWhatIsInFrontOfWhatIsStoredIsQueuedBehindWhatWaits(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, true)
	c, _ := reading(t, l, far)
	on(t, l, func() {
		c.Batch()
		if err := c.Write([]byte("first ")); err != nil {
			t.Error(err)
		}
		c.drained = func() {
			if n, err := c.SendStored(nil, [][]byte{[]byte("third "), []byte("fourth")}); n != 12 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		}
		if n, err := c.SendStored([]byte("second "), [][]byte{[]byte("third ")}); n != 0 || err != nil || !c.Congested() {
			t.Errorf("%d bytes went before what waits, %v", n, err)
		}
	})
	got := make([]byte, len("first second third fourth"))
	if _, err := io.ReadFull(near, got); err != nil || string(got) != "first second third fourth" {
		t.Errorf("the peer got %q: %v", got, err)
	}
}
