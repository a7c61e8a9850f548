package breaker

import "sync/atomic"

// trials are the slots of half-open and the results of its trials.
//
// A free slot holds the generation. A taken slot holds a stamp: the highest bit, the time at which
// it was taken, and a serial number, so that no two trials have the same stamp. Every change of a
// slot is one compare-and-swap from the exact value that was read. So a goroutine that was delayed
// until another generation began, or until its slot was given away, changes nothing.
type trials struct {
	slots  []atomic.Uint64
	serial atomic.Uint64
	result atomic.Uint64 // generation, whether a trial failed, and how many succeeded
}

const (
	taken      = 1 << 63
	serialBits = 8
	timeBits   = 63 - serialBits

	resultFailed = 1 << 31
	resultWon    = resultFailed - 1
)

func (t *trials) stamp(now int64) uint64 {
	return taken | uint64(now)<<serialBits&(taken-1) | t.serial.Add(1)&(1<<serialBits-1)
}

// stampAge is how many nanoseconds ago a stamp was made. It is right for up to half the range of
// the stamp's time.
func stampAge(stamp uint64, now int64) int64 {
	then := stamp << 1 >> (serialBits + 1)
	return int64((uint64(now)-then)<<(64-timeBits)) >> (64 - timeBits)
}

// try gives the caller a trial if a slot is free, or has been kept for longer than TrialFor. A
// caller may have been delayed since it read w, for so long that a trial of a later generation has
// overstayed. It then takes that trial's slot with a ticket that does not count, and the slot is
// free again after TrialFor.
func (b *Breaker) try(w word, now int64) Ticket {
	t := &b.m.trials
	for i := range t.slots {
		seen := t.slots[i].Load()
		free := seen == uint64(w.generation())
		if !free && (seen&taken == 0 || b.left(seen, now) > 0) {
			continue
		}
		stamp := t.stamp(now)
		if t.slots[i].CompareAndSwap(seen, stamp) {
			return Ticket{Kind: Trial, generation: w.generation(), slot: uint8(i), stamp: stamp}
		}
	}
	return Ticket{}
}

// left is for how many nanoseconds a trial may still keep its slot; 0 when its time is over. If a
// stamp lies in the future, the clock was set back, and the time is over too.
func (b *Breaker) left(stamp uint64, now int64) int64 {
	age := stampAge(stamp, now)
	if age < -skew {
		return 0
	}
	return min(b.rules.trialFor, max(0, b.rules.trialFor-age))
}

// tried ends a trial. It frees the slot first: a trial that has lost its slot does not count.
func (b *Breaker) tried(now int64, t Ticket, o Outcome, latency int64) {
	w := b.m.load()
	if w.generation() != t.generation || w.state() != HalfOpen {
		return
	}
	if !b.m.trials.slots[t.slot].CompareAndSwap(t.stamp, uint64(t.generation)) {
		return
	}
	if o > Failure {
		return
	}
	slow := b.rules.slowIsSlow && latency > b.rules.slowOver ||
		b.m.gauge != nil && b.m.gauge.tooSlow(&b.rules.law, latency)
	b.m.trials.note(t.generation, o == Failure || slow)
	b.look(now)
}

// note adds a trial's outcome to the result, unless another generation has begun.
func (t *trials) note(generation uint32, failed bool) {
	for {
		seen := t.result.Load()
		if uint32(seen>>32) != generation {
			return
		}
		next := seen | resultFailed
		if !failed {
			next = seen + 1
		}
		if !failed && seen&resultWon == resultWon || t.result.CompareAndSwap(seen, next) {
			return
		}
	}
}

// verdict is how many trials of a generation have succeeded, and whether one has failed.
func (t *trials) verdict(generation uint32) (won uint64, failed bool) {
	seen := t.result.Load()
	if uint32(seen>>32) != generation {
		return 0, false
	}
	return seen & resultWon, seen&resultFailed != 0
}

// outstanding is how many slots are taken.
func (t *trials) outstanding() int {
	n := 0
	for i := range t.slots {
		if t.slots[i].Load()&taken != 0 {
			n++
		}
	}
	return n
}

// reset frees all slots for a new generation. Only the holder of the pen calls it.
func (t *trials) reset(generation uint32) {
	t.result.Store(uint64(generation) << 32)
	for i := range t.slots {
		t.slots[i].Store(uint64(generation))
	}
}
