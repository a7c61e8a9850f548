package hash_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"plimsoll/internal/hash"
)

type pair struct{ h, g uint64 }

func sum(s *hash.Secret, key []byte) pair {
	h, g := s.Sum(key)
	return pair{h, g}
}

func TestSecretsTellKeysOfEveryLengthApart(t *testing.T) {
	s := hash.NewSecret(rand.New(rand.NewPCG(1, 2)).Uint64)
	seen, halves := map[pair]string{}, map[uint64]bool{}
	note := func(key string) {
		p := sum(s, []byte(key))
		if other, ok := seen[p]; ok && other != key {
			t.Fatalf("%q and %q have the same hash", key, other)
		}
		seen[p] = key
		halves[p.h], halves[p.g] = true, true
	}
	for n := range 70 {
		note(string(make([]byte, n)))
		for i := range n {
			key := make([]byte, n)
			key[i] = 1
			note(string(key))
		}
	}
	for i := range 100_000 {
		note(fmt.Sprint("client-", i))
	}
	if len(halves) != 2*len(seen) {
		t.Errorf("%d keys have %d different halves of hashes", len(seen), len(halves))
	}
}

// Words that cancel the public constants of Bytes make its hash the same for every seed.
func TestKeysMadeToCollideForBytesDoNotForASecret(t *testing.T) {
	s := hash.NewSecret(rand.New(rand.NewPCG(3, 4)).Uint64)
	seen := map[pair]bool{}
	for i := range uint64(1000) {
		key := binary.LittleEndian.AppendUint64(nil, 0xe7037ed1a0b428db)
		seen[sum(s, binary.LittleEndian.AppendUint64(key, i))] = true
	}
	if len(seen) != 1000 {
		t.Errorf("1000 keys have %d hashes", len(seen))
	}
}

func TestSecretsDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a, b := hash.NewSecret(r.Uint64), hash.NewSecret(r.Uint64)
	for i := range 1000 {
		key := fmt.Append(nil, "client-", i)
		if sum(a, key) == sum(b, key) {
			t.Fatalf("two secrets give %q the same hash", key)
		}
	}
}

func BenchmarkSecret(b *testing.B) {
	s := hash.NewSecret(rand.Uint64)
	for _, n := range []int{8, 16, 40} {
		key := make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Sum(key)
			}
		})
	}
}
