package reactor_test

import (
	"io"
	"testing"

	"plimsoll/internal/reactor"
)

func TestWhoBorrowsASocketHearsOfRoomToWrite(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	on(t, l, c.Lend)
	// The loop's own queue is empty, so only Lend makes it report room.
	piece, sent := noise(64<<10), 0
	for {
		n, err := c.RawWrite(piece)
		if err == reactor.ErrAgain {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sent += n
	}
	on(t, l, func() { // what was told before is of no interest
		for len(told) > 0 {
			<-told
		}
	})
	go io.CopyN(io.Discard, near, int64(sent))
	receive(t, told, "room to write")
}
