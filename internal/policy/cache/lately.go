package cache

import (
	"math/rand/v2"
	"sync/atomic"

	"plimsoll/internal/hash"
)

// lately remembers for some seconds which keys had answers that may not be stored, so that requests
// for them do not wait for each other. It is a table of fixed size in which a later key overwrites
// an earlier one. The cost of an overwritten key is that requests wait once. Any goroutine may use
// it.
type lately struct {
	secret *hash.Secret
	// 40 bits of the key's hash, then 24 of the second until which it counts
	slots [latelySlots]atomic.Uint64
}

const (
	latelySlots = 4096
	latelyFor   = 10 // seconds
	latelyMask  = 1<<24 - 1
)

func newLately() *lately { return &lately{secret: hash.NewSecret(rand.Uint64)} }

func (l *lately) slot(key []byte) (slot *atomic.Uint64, mark uint64) {
	a, b := l.secret.Sum(key)
	return &l.slots[a%latelySlots], b &^ latelyMask
}

// refuse records that the answer for the key is not stored. now is monotonic, in nanoseconds.
func (l *lately) refuse(key []byte, now int64) {
	slot, mark := l.slot(key)
	slot.Store(mark | uint64(now/1e9+latelyFor)&latelyMask)
}

// refused reports whether that was recorded in the last latelyFor seconds.
func (l *lately) refused(key []byte, now int64) bool {
	slot, mark := l.slot(key)
	word := slot.Load()
	return word&^latelyMask == mark && (word-uint64(now/1e9))&latelyMask <= latelyFor && word != 0
}
