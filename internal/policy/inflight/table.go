package inflight

import (
	"sync/atomic"

	"plimsoll/internal/hash"
	"plimsoll/internal/invariant"
)

// A table counts requests by value, in memory that does not grow. A value belongs to one set, which
// its hash names, and a set is one word with room for two values: 16 more bits of the value's hash
// and 16 of its count each. Two values that have all these bits in common count as one. So whatever
// happens to a value is one compare-and-swap of its set, every decision is exact, and a place is free
// when its count is 0: nothing has to be evicted, and nobody gets rid of a count but by ending
// requests.
//
// Where both places of a set are in use by others, the value shares one of them until they are free
// (its further requests may then have a place of their own beside the shared one, so such a value's
// bound is not exact). With n values under way of N that have room it happens to a new one with a
// probability of about 2(n/N)²: one in 500 with 2,000 of 65,536. Which values meet, nobody can
// foresee: the hash has a secret.
//
// A table with longer chains would share less, but needs more than one word for a value's coming
// and going, and with that the protocol of policy/limit's table; the room that it saves is 4 bytes
// a value.
type table struct {
	sets   []atomic.Uint64
	secret *hash.Secret
}

const (
	countBits = 16
	wayBits   = 32
	countMask = 1<<countBits - 1
	wayMask   = 1<<wayBits - 1
)

func newTable(values int, secret *hash.Secret) *table {
	sets := 1
	for 2*sets < values {
		sets *= 2
	}
	return &table{make([]atomic.Uint64, sets), secret}
}

// way returns the count and the tag of the place at a shift of 0 or wayBits in a set's word.
func way(word uint64, shift uint64) (count, tag uint64) {
	return word >> shift & countMask, word >> (shift + countBits) & countMask
}

// take counts a request of a value that has fewer than most; otherwise ok is false. place is to be
// passed to give. sharing says that the value has no place of its own.
func (t *table) take(value []byte, most uint64) (place uint64, sharing, ok bool) {
	h, _ := t.secret.Sum(value)
	index, tag := h&uint64(len(t.sets)-1), h>>(64-countBits)
	set := &t.sets[index]
	for {
		word := set.Load()
		shift, sharing := choose(word, h, tag)
		count, _ := way(word, shift)
		if count >= most {
			return 0, sharing, false
		}
		next := word + 1<<shift
		if count == 0 {
			next |= tag << (shift + countBits)
		}
		if set.CompareAndSwap(word, next) {
			return index<<1 | shift/wayBits, sharing, true
		}
	}
}

// choose returns the value's own place, or a free one, or one that it shares.
func choose(word, h, tag uint64) (shift uint64, sharing bool) {
	count0, tag0 := way(word, 0)
	count1, tag1 := way(word, wayBits)
	switch {
	case count0 > 0 && tag0 == tag:
		return 0, false
	case count1 > 0 && tag1 == tag:
		return wayBits, false
	case count0 == 0:
		return 0, false
	case count1 == 0:
		return wayBits, false
	}
	return h >> (64 - countBits - 1) & 1 * wayBits, true
}

// give ends a request that take counted.
func (t *table) give(place uint64) {
	set, shift := &t.sets[place>>1], place&1*wayBits
	for {
		word := set.Load()
		count, _ := way(word, shift)
		if invariant.On && count == 0 {
			panic("inflight: more requests of a value were given back than counted")
		}
		next := word - 1<<shift
		if count == 1 {
			next = word &^ (wayMask << shift)
		}
		if set.CompareAndSwap(word, next) {
			return
		}
	}
}

// used is how many places are in use. It reads all of them, on any goroutine.
func (t *table) used() (n int) {
	for i := range t.sets {
		if word := t.sets[i].Load(); word != 0 {
			for shift := uint64(0); shift <= wayBits; shift += wayBits {
				if count, _ := way(word, shift); count > 0 {
					n++
				}
			}
		}
	}
	return n
}
