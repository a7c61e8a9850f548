package breaker

import "math/bits"

// The adaptive mode counts latencies in eight buckets per octave, from 65.5 µs to 68.7 s, so that a
// value read back is off by a sixteenth at most. The lowest bucket holds shorter latencies, the
// highest longer ones.
const (
	subBits = 3
	minBits = 16
	maxBits = 36
	buckets = (maxBits-minBits)<<subBits + 2
)

func bucket(ns int64) int {
	switch {
	case ns < 1<<minBits:
		return 0
	case ns >= 1<<maxBits:
		return buckets - 1
	}
	octave := bits.Len64(uint64(ns)) - 1
	sub := int(ns>>(octave-subBits)) & (1<<subBits - 1)
	return 1 + (octave-minBits)<<subBits + sub
}

// middle is the latency that stands for a bucket.
func middle(i int) float64 {
	switch i {
	case 0:
		return 1 << minBits
	case buckets - 1:
		return 1 << maxBits
	}
	octave, sub := minBits+(i-1)>>subBits, (i-1)&(1<<subBits-1)
	return float64(uint64(1)<<octave) * (1 + (float64(sub)+0.5)/(1<<subBits))
}

func (b *bank) requests() uint64 {
	var n uint64
	for i := range b.latency {
		n += uint64(b.latency[i].Load())
	}
	return n
}

// p99 is the latency that 1 % of n calls, and at least one call, exceeded.
func (b *bank) p99(n uint64) float64 {
	slower := max(1, n/100)
	for i := buckets - 1; i > 0; i-- {
		in := uint64(b.latency[i].Load())
		if in > slower {
			return middle(i)
		}
		slower -= in
	}
	return middle(0)
}

func (b *bank) clear() {
	for i := range b.latency {
		b.latency[i].Store(0)
	}
	b.failures.Store(0)
	b.saturation.Store(0)
}
