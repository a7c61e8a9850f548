package http2_test

import (
	"math/rand/v2"
	"testing"

	"plimsoll/internal/http2"
)

func TestSendWindows(t *testing.T) {
	w := http2.SendWindow(http2.ConnectionWindow)
	w.Take(65535)
	if w.Available() != 0 {
		t.Errorf("%d bytes left", w)
	}
	if r := w.Shift(-65535); r != http2.OK || w != -65535 || w.Available() != 0 {
		t.Errorf("shrunk to %d, %v", w, r)
	}
	if r := w.Add(1<<31 - 1); r != http2.OK || w != 1<<31-1-65535 {
		t.Errorf("grown to %d, %v", w, r)
	}
	if r := w.Add(65536); r != http2.WindowOverflow || w != 1<<31-1-65535 {
		t.Errorf("overflowed to %d, %v", w, r)
	}
	if r := w.Add(65535); r != http2.OK {
		t.Errorf("not full: %v", r)
	}
	if r := w.Shift(1); r != http2.WindowOverflow {
		t.Errorf("full: %v", r)
	}
}

// The model of a window to send in is a wide number; of one to receive in, what each side knows:
// the peer adds up what it sent and what was announced to it.
func TestWindowsAgainstModels(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		initial := int64(random.Uint32N(1 << 31))
		send, wide := http2.SendWindow(initial), initial
		for range 100 {
			switch by := int64(random.Uint32N(1<<31-1) >> random.IntN(31)); random.IntN(3) {
			case 0:
				n := random.IntN(send.Available()/2 + 1)
				send.Take(n)
				wide -= int64(n)
			case 1:
				if r := send.Add(uint32(by) + 1); (r == http2.OK) != (wide+by+1 < 1<<31) {
					t.Fatalf("%d and %d: %v", wide, by+1, r)
				} else if r == http2.OK {
					wide += by + 1
				}
			case 2:
				changed := int64(random.Uint32N(1 << 31))
				if r := send.Shift(int32(changed - initial)); (r == http2.OK) != (wide+changed-initial < 1<<31) {
					t.Fatalf("%d from %d to %d: %v", wide, initial, changed, r)
				} else if r == http2.OK {
					wide, initial = wide+changed-initial, changed
				}
			}
			if int64(send) != wide || send.Available() != int(max(wide, 0)) {
				t.Fatalf("the window is %d, in truth %d", send, wide)
			}
		}

		size := int64(random.Uint32N(1 << 31 >> random.IntN(31)))
		w := http2.NewReceiveWindow(uint32(size))
		credit, held := size, int64(0)
		for range 100 {
			switch random.IntN(5) {
			case 4:
				n := random.Int64N(held + 1)
				to := 1 + random.Int64N(1<<31-1)
				before := int64(w.Size())
				held -= n
				credit += int64(w.ReleaseTo(int(to), int(n)))
				size = int64(w.Size())
				if size > before || size < min(before, to) || size > to && credit+held < size {
					t.Fatalf("from %d to %d: %d, with %d and %d", before, to, size, credit, held)
				}
			case 0, 1:
				n := random.Int64N(credit + 3)
				if r := w.Consume(int(n)); (r == http2.OK) != (n <= credit) {
					t.Fatalf("%d of %d: %v", n, credit, r)
				} else if r == http2.OK {
					credit, held = credit-n, held+n
				}
			case 2:
				n := random.Int64N(held + 1)
				held -= n
				credit += int64(w.Release(int(n)))
			case 3:
				grown := int64(random.Uint32N(1 << 31 >> random.IntN(31)))
				credit += int64(w.Grow(uint32(grown)))
				if size < grown && credit+held != grown {
					t.Fatalf("grown from %d to %d: %d and %d", size, grown, credit, held)
				}
				size = max(size, grown)
			}
			if int64(w.Left()) != credit || int64(w.Held()) != held || credit+held > size {
				t.Fatalf("%d left and %d held, in truth %d and %d of %d", w.Left(), w.Held(), credit, held, size)
			}
			if held == 0 && size > 1 && credit <= size/2 {
				t.Fatalf("nothing is held, and the peer may send %d of %d", credit, size)
			}
		}
	}
}

func TestReceiveWindowsAreAnnouncedByHalves(t *testing.T) {
	w := http2.NewReceiveWindow(1000)
	updates := 0
	for range 100 {
		if w.Consume(100) != http2.OK {
			t.Fatal("the peer has to wait for nothing")
		}
		if w.Release(100) > 0 {
			updates++
		}
	}
	if updates != 20 {
		t.Errorf("%d updates for ten windows", updates)
	}
	if w.Grow(1000) != 0 || w.Release(0) != 0 {
		t.Error("nothing is announced")
	}
}
