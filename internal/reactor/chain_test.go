//go:build !race

package reactor

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// The model of a chain is a slice of bytes.
func TestAChainAgainstAModel(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		l, c := &Loop{}, &Chain{}
		var want []byte
		var seen byte
		for range 400 {
			switch random.IntN(5) {
			case 0, 1:
				data := make([]byte, random.IntN(1+1<<random.IntN(18)))
				for i := range data {
					seen++
					data[i] = seen
				}
				c.Append(l, data)
				want = append(want, data...)
			case 2, 3:
				most := 1 + random.IntN(1<<random.IntN(18))
				buf, from, to := c.Take(l, most)
				if n := to - from; n > most || n == 0 && len(want) > 0 {
					t.Fatalf("seed %d: took %d of at most %d bytes, with %d there", seed, n, most, len(want))
				}
				if !bytes.Equal(buf[from:to], want[:to-from]) {
					t.Fatalf("seed %d: took other bytes than came first", seed)
				}
				clear(buf[:from]) // it is free
				want = want[to-from:]
			case 4:
				if random.IntN(20) == 0 {
					c.Drop(l)
					want = nil
				}
			}
			out := 0
			for class, n := range l.BuffersOut() {
				out += n * Sizes[class]
			}
			if c.Len() != len(want) || c.Memory() != out {
				t.Fatalf("seed %d: %d bytes in %d of memory, in truth %d in %d", seed, c.Len(), c.Memory(),
					len(want), out)
			}
			// The first buffer may be nearly used up, and the last nearly empty.
			if most := 2*len(want) + 2*ScratchSize; c.Memory() > most {
				t.Fatalf("seed %d: %d bytes of memory for %d", seed, c.Memory(), len(want))
			}
		}
		c.Drop(l)
		if l.BuffersOut() != [len(Sizes)]int{} || c.Memory() != 0 {
			t.Fatalf("seed %d: buffers are lost: %v", seed, l.BuffersOut())
		}
	}
}

func TestAChainOfLittleHasLittleMemory(t *testing.T) {
	l := &Loop{}
	for _, n := range []int{1, 100, 513, 5000, 16 << 10, 20_000, 64 << 10} {
		var c Chain
		c.Append(l, make([]byte, n))
		if most := max(512, 2*n, n+chainBuffer); c.Memory() > most {
			t.Errorf("%d bytes take %d", n, c.Memory())
		}
		c.Drop(l)
	}
}

func TestAChainAllocatesNothingOnceItsBuffersAreThere(t *testing.T) {
	l, c := &Loop{}, &Chain{}
	data := make([]byte, 100_000)
	run := func() {
		for range 3 {
			c.Append(l, data)
		}
		for c.Len() > 0 {
			c.Take(l, 70_000)
		}
		c.Drop(l)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is taken at once may become one system call, so small pieces must not be handed out one by
// one.
func TestSmallPiecesAreTakenTogether(t *testing.T) {
	for _, piece := range []int{1, 100, 700, 3000} {
		l, c := &Loop{}, &Chain{}
		for n := piece; n <= chainBuffer; n += piece {
			c.Append(l, make([]byte, piece))
		}
		all := c.Len()
		if _, from, to := c.Take(l, ScratchSize); to-from != all {
			t.Errorf("of %d bytes in pieces of %d, %d are taken at once", all, piece, to-from)
		}
		c.Drop(l)
	}
}
