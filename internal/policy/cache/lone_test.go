package cache

import (
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/exchange/exchangetest"
)

// A client that always leaves a little of what has come has no more kept for it than that.
func TestAReaderThatIsNeverQuiteDoneHoldsWhatItHasNotRead(t *testing.T) {
	x := &exchange.Exchange{}
	x.Begin(exchangetest.Engine{})
	l := &lone{client: x.Waker(), feeder: x.Waker()}
	const piece = 16 << 10
	l.append(make([]byte, 1))
	for n := range 1000 {
		if _, err := l.append(make([]byte, piece)); err != nil {
			t.Fatal(err)
		}
		if data, err := l.Next(piece); len(data) != piece || err != nil {
			t.Fatalf("piece %d has %d bytes: %v", n, len(data), err)
		}
	}
	if most := 8 * piece; cap(l.body) > most {
		t.Errorf("%d bytes are kept for a client that has left one; at most %d may be", cap(l.body), most)
	}
}
