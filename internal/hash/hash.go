// Package hash spreads keys evenly over 64 bits for sticky choices: which upstream a client stays
// on, which target owns a key. It knows nothing of what the keys mean.
//
// The same key has the same hash in every process, on every machine and in every later version,
// because several gateways in front of one service must choose alike, and a restart must not move
// anyone. That is why this is not hash/maphash. It is not a defence against keys that are made to
// collide, and not a place for secrets. It must not be the hash function of a table that strangers
// can fill: use Secret for that. (A Go map that has such hashes as keys hashes them again.)
package hash

import (
	"encoding/binary"
	"math/bits"
)

// The constants are wyhash's: odd, with as many ones as zeros, so that a product mixes all bits of
// a word.
const (
	m0 = 0xa0761d6478bd642f
	m1 = 0xe7037ed1a0b428db
	m2 = 0x8ebc6af09c88c6e3
)

// mix folds the 128-bit product of a and b to 64 bits: every bit of either reaches about half of
// the result's bits.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// Bytes is the hash of key. Different seeds give independent hashes of the same key, so that two
// choices by one key do not always fall together. It takes 16 bytes a step, and reads any shorter
// rest as two words that may overlap.
func Bytes(seed uint64, key []byte) uint64 {
	h := mix(seed^m0, m1)
	rest := key
	for len(rest) > 16 {
		h = mix(binary.LittleEndian.Uint64(rest)^m1, binary.LittleEndian.Uint64(rest[8:])^h)
		rest = rest[16:]
	}
	a, b := tail(rest)
	h = mix(a^m1, b^h)
	return mix(h^m2, uint64(len(key))^m1)
}

// tail reads up to 16 bytes as two words that may overlap. The length distinguishes what looks alike.
func tail(rest []byte) (a, b uint64) {
	switch n := len(rest); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(rest)), uint64(binary.LittleEndian.Uint32(rest[n-4:]))
	case n > 0:
		a = uint64(rest[0]) | uint64(rest[n/2])<<8 | uint64(rest[n-1])<<16
	}
	return a, b
}

// Below maps a hash, or any even 64-bit number, to 0 … n-1 with equal shares. n is at least 1.
func Below(h, n uint64) uint64 {
	high, _ := bits.Mul64(h, n)
	return high
}
