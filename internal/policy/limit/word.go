package limit

import (
	"math"
	"math/bits"
)

// The state of a value is one word, so that a decision is one compare-and-swap:
//
//	1 gg payload        in use; gg is the generation of the params that the payload was written under
//	0 00 time           free: the entry belongs to no value
//	0 01 time           fresh: it belongs to a value that has nothing counted yet
//	0 10 time           taken: its owner writes the value's hash; others skip it
//	0 11 time           proposed: the hash is written; its owner looks for another entry of the value
//
// The time is when the entry came into that state. It grows with every new owner, and an owner's
// counts start at that time. So no word comes back after an entry changed its owner, and a
// compare-and-swap with a word read earlier proves that the owner is still the same. The zero word
// is a free entry.
const (
	live            = 1 << 63
	generationShift = 61
	generations     = 4
	payloadBits     = 61
	payloadMask     = 1<<payloadBits - 1

	free     = 0 << payloadBits
	fresh    = 1 << payloadBits
	taken    = 2 << payloadBits
	proposed = 3 << payloadBits
	kindMask = 3 << payloadBits
)

// Times are nanoseconds of a clock that starts with the process. The payloads have room for nine
// years.
const (
	maxTime = 1<<58 - 1
	// units is the number of parts of a nanosecond in buckets. A request's share of a bucket is a
	// whole number of units, rounded up. So no bucket is faster than it should be, and one of a
	// million a second is at most 0.02 % slower.
	units = 8
	// skew is more than the clocks of two loops can differ. A state further in the future shows
	// that the clock went back, and is moved to the present.
	skew = int64(1e9)
)

func isLive(w uint64) bool { return w&live != 0 }

// counts reports whether the word is the state of a value.
func counts(w uint64) bool { return isLive(w) || w&kindMask == fresh }

// in reports whether the entry is in the given one of the states that are not in use.
func in(w, kind uint64) bool { return !isLive(w) && w&kindMask == kind }

func payload(w uint64) int64 { return int64(w & payloadMask) }

func generation(w uint64) uint64 { return w >> generationShift & (generations - 1) }

// countsFrom is the time that counts for a decision on w: not before the entry got its owner,
// unless the clock went back.
func countsFrom(w uint64, now int64) int64 {
	if since := payload(w); !isLive(w) && since > now && since-now < skew {
		return since
	}
	return now
}

// scale is a*b/c, rounded up, or the largest number if the result is larger.
func scale(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c-1), 0)
	if high += carry; high >= uint64(c) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, uint64(c))
	return int64(min(quotient, math.MaxInt64))
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }
