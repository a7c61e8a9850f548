package upstream

import "math/bits"

// rng is a random number generator (xorshift64*) with one word of state, no lock, and numbers that
// are repeatable from its seed. Nothing secret may depend on it.
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

// below returns a random number in [0, n). The bias of the multiplication is under n/2⁶⁴.
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

// HashKey returns the key for Pick from the text that a request is hashed by. The key is the same
// in every process, so that several gateways agree, and is never 0. HashKey does not allocate.
func HashKey(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(mix(h), 1)
}
