package hash

import "encoding/binary"

// Secret hashes keys for a table that strangers can fill, such as one entry for each address or API
// key. It is random in each process, so its hashes mean nothing elsewhere. Bytes is no
// substitute: its constants are public, so anybody can make keys that collide whatever the seed.
type Secret struct{ k [6]uint64 }

// NewSecret makes a secret of even random 64-bit numbers.
func NewSecret(random func() uint64) *Secret {
	s := new(Secret)
	for i := range s.k {
		s.k[i] = random() | 1 // never 0, which would make products 0
	}
	return s
}

// Sum is a hash of 128 bits in two words. With n keys, two of them have the same with a chance of
// n²/2^129: a table may take it for the key.
func (s *Secret) Sum(key []byte) (uint64, uint64) {
	h, g := s.k[0]^uint64(len(key)), s.k[1]
	rest := key
	for len(rest) > 16 {
		a, b := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
		h, g = mix(a^s.k[2], b^h), mix(a^g, b^s.k[3])
		rest = rest[16:]
	}
	a, b := tail(rest)
	h, g = mix(a^s.k[2], b^h), mix(a^g, b^s.k[3])
	return mix(h^s.k[4], g^s.k[5]), mix(h^s.k[5], g+s.k[4])
}
