package limit

import "sync/atomic"

// A sliding log is exact: it knows the time of each of the last requests that passed, as many as
// may pass in a period, in a ring. The next one passes when the oldest is a period ago.
//
// The value's word holds how many have passed, which names the next entry of the ring, and when the
// last of them will be a period ago. To pass is to move the word on; only then the winner writes
// its entry. An entry is when it is free again, and below that which lap of the ring wrote it: one
// of an earlier lap than expected belongs to a request that has passed and is just being written
// down, so that it is surely less than a period ago.
const (
	lapBits = 6
	lapMask = 1<<lapBits - 1
)

// clearRing makes all entries free for an owner who comes at a time, as if the lap before the first
// had written them: free for a while already, because that owner's loop may be a little behind.
func clearRing(ring []atomic.Uint64, since int64) {
	for i := range ring {
		ring[i].Store(uint64(max(0, since-skew))<<lapBits | lapMask)
	}
}

// logged is a request that a log counted, to be given back.
type logged struct {
	entry     *atomic.Uint64
	was, made uint64
}

// stepLog is step for a log, whose entry it fills in for a request that passes. p's ring may be
// longer than the quota: the rest of it is not used.
func (p *params) stepLog(
	w uint64, ring []atomic.Uint64, now int64,
) (next uint64, pass bool, wait int64, entry logged) {
	now = countsFrom(w, now)
	count, end := int64(0), int64(0)
	if isLive(w) {
		state := payload(p.current(w))
		count, end = state&(1<<sequence-1), state>>sequence
	}
	lap := count / p.quota
	entry.entry = &ring[count%p.quota]
	entry.was = entry.entry.Load()
	if entry.was&lapMask != uint64(lap-1)&lapMask {
		return w, false, p.period, entry
	}
	until := int64(entry.was >> lapBits)
	if until-now > p.period+skew { // the clock went back
		bringBack(ring, now+p.period)
		return w, false, p.period, entry
	}
	if until > now {
		return w, false, until - now, entry
	}
	until = now + p.period
	entry.made = uint64(until)<<lapBits | uint64(lap)&lapMask
	end = max(end, ceil(until, 1<<logTick))
	if end<<logTick-until > skew+1<<logTick {
		end = ceil(until, 1<<logTick)
	}
	if count++; count == laps*p.quota {
		count = 0
	}
	return p.word(end<<sequence | count), true, 0, entry
}

// bringBack lets entries be free at most at a time that are busy for longer, after the clock went
// back.
func bringBack(ring []atomic.Uint64, most int64) {
	for i := range ring {
		if w := ring[i].Load(); int64(w>>lapBits) > most+skew {
			ring[i].CompareAndSwap(w, uint64(most)<<lapBits|w&lapMask)
		}
	}
}

// write puts the request down.
func (l *logged) write() { l.entry.CompareAndSwap(l.was, l.made) }

// erase gives the request back whose word was given back. Where others have passed since, the word
// stays; then its entry is free at once, but not used before its turn comes again.
func (l *logged) erase(undone bool, now int64) {
	if undone {
		l.entry.CompareAndSwap(l.made, l.was)
		return
	}
	l.entry.CompareAndSwap(l.made, uint64(now)<<lapBits|l.made&lapMask)
}

// leftInLog is how many entries of a log are free at a time, and when all are.
func (p *params) leftInLog(ring []atomic.Uint64, now int64) (tokens, until int64) {
	for i := range ring[:p.quota] {
		free := int64(ring[i].Load()>>lapBits) - now
		if free <= 0 {
			tokens++
		}
		until = max(until, free)
	}
	return tokens * p.cost, until
}
