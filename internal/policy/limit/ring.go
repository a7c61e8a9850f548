package limit

import "sync/atomic"

// A sliding log is exact. A ring holds the time of each of the last requests that passed, as many
// as may pass in a period. The next request passes when the oldest entry is a period old.
//
// The value's word holds how many requests have passed, which selects the next entry of the ring,
// and when the last of them will be a period old. A request passes by advancing the word; only the
// winner then writes its entry. An entry holds the time at which it is free again and, in its low
// bits, the ring's lap that wrote it. If the lap is older than expected, the entry belongs to a
// request that has passed and is just being written, so it is surely less than a period old.
const (
	lapBits = 6
	lapMask = 1<<lapBits - 1
)

// clearRing frees all entries for an owner that arrives at the given time, as if the lap before the
// first had written them. They are free from a little earlier, because the owner's loop may be
// behind.
func clearRing(ring []atomic.Uint64, since int64) {
	for i := range ring {
		ring[i].Store(uint64(max(0, since-skew))<<lapBits | lapMask)
	}
}

// logged is a request that a log counted, so that it can be given back.
type logged struct {
	entry     *atomic.Uint64
	was, made uint64
}

// stepLog is step for a log. It fills in the entry for a request that passes. The ring may be
// longer than the quota; the rest of it is unused.
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

// bringBack shortens entries that are busy beyond the time most, after the clock went back.
func bringBack(ring []atomic.Uint64, most int64) {
	for i := range ring {
		if w := ring[i].Load(); int64(w>>lapBits) > most+skew {
			ring[i].CompareAndSwap(w, uint64(most)<<lapBits|w&lapMask)
		}
	}
}

// write stores the request's entry.
func (l *logged) write() { l.entry.CompareAndSwap(l.was, l.made) }

// erase gives a request back. undone says whether its word was restored. If others passed since,
// the word stays; then the entry is free at once, but not used before its turn comes again.
func (l *logged) erase(undone bool, now int64) {
	if undone {
		l.entry.CompareAndSwap(l.made, l.was)
		return
	}
	l.entry.CompareAndSwap(l.made, uint64(now)<<lapBits|l.made&lapMask)
}

// leftInLog is how many tokens of a log are free at a time, and how long until all are.
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
