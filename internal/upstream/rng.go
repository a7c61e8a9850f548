package upstream

import "math/bits"

// rng is a loop's own generator (xorshift64*): one word of state, no lock, repeatable from its
// seed. Nothing secret hangs on it.
type rng struct{ state uint64 }

func newRNG(seed uint64) rng {
	if seed = mix(seed); seed == 0 {
		seed = 1
	}
	return rng{seed}
}

func (r *rng) next() uint64 {
	x := r.state
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	r.state = x
	return x * 0x2545f4914f6cdd1d
}

// below draws from [0, n). The bias of the multiplication is under n/2⁶⁴.
func (r *rng) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

// mix spreads every bit of x over the whole word (splitmix64's finaliser).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// HashKey is the key for Pick of what a request is hashed by. It is the same in every process, so
// that several gateways agree, and is never 0. It does not allocate.
func HashKey(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(mix(h), 1)
}
