package hash_test

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"testing"

	"plimsoll/internal/hash"
)

// Clients stay where they are over restarts and versions only as long as these never change.
func TestHashesNeverChange(t *testing.T) {
	for _, c := range []struct {
		seed uint64
		key  string
		want uint64
	}{
		{0, "", 0x99318b24a3999a6d},
		{0, "a", 0x2802a9778754780c},
		{1, "a", 0xd32f97490560e5b1},
		{0, "10.0.0.1", 0x65416636c52737ee},
		{0, "a session cookie of thirty-odd bytes", 0x5bce5228f696b269},
	} {
		if got := hash.Bytes(c.seed, []byte(c.key)); got != c.want {
			t.Errorf("Bytes(%d, %q) = %#x, want %#x", c.seed, c.key, got, c.want)
		}
	}
}

func TestEveryByteOfEveryLengthCounts(t *testing.T) {
	seen := map[uint64]string{}
	note := func(key []byte) {
		h := hash.Bytes(0, key)
		if other, ok := seen[h]; ok && other != string(key) {
			t.Fatalf("%q and %q have the same hash", key, other)
		}
		seen[h] = string(key)
	}
	for n := range 70 {
		key := bytes.Repeat([]byte{'k'}, n)
		note(key)
		for i := range key {
			changed := bytes.Clone(key)
			changed[i] ^= 1
			note(changed)
		}
	}
	note([]byte{0})
	note([]byte{0, 0})
	note(make([]byte, 16))
	note(make([]byte, 17))
}

func TestOneChangedBitChangesHalfOfTheHash(t *testing.T) {
	for _, n := range []int{1, 3, 4, 8, 13, 16, 17, 40} {
		key, total, trials := make([]byte, n), 0, 0
		for round := range 64 {
			for i := range key {
				key[i] = byte(round*31 + i*7)
			}
			before := hash.Bytes(9, key)
			for bit := range n * 8 {
				key[bit/8] ^= 1 << (bit % 8)
				total += bits.OnesCount64(before ^ hash.Bytes(9, key))
				key[bit/8] ^= 1 << (bit % 8)
				trials++
			}
		}
		if mean := float64(total) / float64(trials); math.Abs(mean-32) > 0.6 {
			t.Errorf("keys of %d bytes: a changed bit changes %.2f bits on average, want about 32", n, mean)
		}
	}
}

func TestAddressesSpreadEvenly(t *testing.T) {
	const keys, slots = 40_000, 100
	counts := make([]int, slots)
	for i := range keys {
		counts[hash.Below(hash.Bytes(0, fmt.Appendf(nil, "10.%d.%d.%d", i>>16, i>>8&255, i&255)), slots)]++
	}
	chi := 0.0
	for _, n := range counts {
		d := float64(n) - keys/slots
		chi += d * d / (keys / slots)
	}
	if chi > 160 { // 99 degrees of freedom: 148 is passed by chance once in a thousand, and these keys are fixed
		t.Errorf("chi² = %.0f over %d slots", chi, slots)
	}
}

func TestSeedsGiveIndependentHashes(t *testing.T) {
	both := 0
	for i := range 10_000 {
		key := fmt.Append(nil, "client-", i)
		if hash.Below(hash.Bytes(1, key), 2) == hash.Below(hash.Bytes(2, key), 2) {
			both++
		}
	}
	if both < 4_800 || both > 5_200 {
		t.Errorf("two seeds chose the same half for %d of 10000 keys, want about half", both)
	}
}

func TestBelowCoversItsRange(t *testing.T) {
	if got := hash.Below(0, 7); got != 0 {
		t.Errorf("Below(0, 7) = %d", got)
	}
	if got := hash.Below(math.MaxUint64, 7); got != 6 {
		t.Errorf("Below(max, 7) = %d", got)
	}
	if got := hash.Below(math.MaxUint64, 1); got != 0 {
		t.Errorf("Below(max, 1) = %d", got)
	}
}

func BenchmarkBytes(b *testing.B) {
	for _, n := range []int{8, 16, 40} {
		key := bytes.Repeat([]byte{'k'}, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			sum := uint64(0)
			for b.Loop() {
				sum += hash.Bytes(0, key)
			}
			_ = sum
		})
	}
}
