package limit

// step is the pure core of all algorithms except the log: it applies a request to a state. If the
// request passes, next is the state after it and wait is the time until its turn. If not, wait is
// the time until it would pass, and next is the old state, or the adjusted one after the clock went
// back.
func (p *params) step(w uint64, now, cost int64) (next uint64, pass bool, wait int64) {
	now = countsFrom(w, now)
	switch p.algorithm {
	case FixedWindow:
		return p.stepFixed(w, now, cost)
	case SlidingWindow:
		return p.stepSliding(w, now, cost)
	case LeakyBucket:
		return p.stepLeaky(w, now, cost)
	default:
		return p.stepBucket(w, now, cost)
	}
}

// stepBucket is a token bucket. Its state is the time at which it will be full, which is GCRA's
// theoretical arrival time. Each request moves that time ahead by its cost. The time may not be
// further ahead than the bucket's depth.
func (p *params) stepBucket(w uint64, now, cost int64) (next uint64, pass bool, wait int64) {
	at := now * units
	full, next := p.due(w, at, p.depth)
	if full += cost * p.token; full-at > p.depth {
		return next, false, ceil(full-at-p.depth, units)
	}
	return p.word(full), true, 0
}

// stepLeaky hands out turns one by one: the state is the time of the next turn.
func (p *params) stepLeaky(w uint64, now, cost int64) (next uint64, pass bool, wait int64) {
	at := now * units
	turn, next := p.due(w, at, p.depth+p.most*p.token)
	if turn-at > p.depth {
		return next, false, ceil(turn-at-p.depth, units)
	}
	return p.word(turn + cost*p.token), true, ceil(turn-at, units)
}

// due returns the time in a bucket's word, at least the present, and the word. A time that is
// further ahead than most was written before the clock went back; then due returns most.
func (p *params) due(w uint64, at, most int64) (int64, uint64) {
	if !isLive(w) {
		return at, w
	}
	now := p.current(w)
	time := payload(now)
	if time-at > most+skew*units {
		return at + most, p.word(at + most)
	}
	return max(time, at), w
}

// stepFixed counts in windows that start at whole multiples of their length. An index that is ahead
// was written by another loop, whose clock is a little ahead.
func (p *params) stepFixed(w uint64, now, cost int64) (next uint64, pass bool, wait int64) {
	index, count := now/p.period, int64(0)
	next = w
	if isLive(w) {
		state := payload(p.current(w))
		at := state >> p.countBits
		switch {
		case at*p.period-now > skew:
			count = state & (1<<p.countBits - 1)
			next = p.word(index<<p.countBits | count)
		case at >= index:
			index, count = at, state&(1<<p.countBits-1)
		}
	}
	if count+cost > p.rate.Count {
		return next, false, (index+1)*p.period - now
	}
	return p.word(index<<p.countBits | count + cost), true, 0
}

// window is the layout of a sliding window's payload: the window's index, the count of the window
// before, and the count of this window.
type window struct {
	period int64
	bits   uint
}

func (v window) pack(index, before, count int64) int64 {
	return index<<(2*v.bits) | before<<v.bits | count
}

func (v window) unpack(state int64) (index, before, count int64) {
	mask := int64(1)<<v.bits - 1
	return state >> (2 * v.bits), state >> v.bits & mask, state & mask
}

// at advances a state to the window of a time.
func (v window) at(state, now int64) (index, before, count int64) {
	index, before, count = v.unpack(state)
	switch here := now / v.period; {
	case index >= here:
		return index, before, count
	case index == here-1:
		return here, count, 0
	default:
		return here, 0, 0
	}
}

// weight is what counts at a time: this window's count, plus the part of the one before that is
// less than a period old, as if its requests had come evenly.
func (v window) weight(state, now int64) int64 {
	index, before, count := v.at(state, now)
	into := max(0, now-index*v.period)
	return count + scale(before, v.period-into, v.period)
}

// stepSliding weights the window before by the part of it that is less than a period old.
func (p *params) stepSliding(w uint64, now, cost int64) (next uint64, pass bool, wait int64) {
	v := window{p.period, p.countBits}
	index, before, count := now/p.period, int64(0), int64(0)
	next = w
	if isLive(w) {
		state := payload(p.current(w))
		if at, b, c := v.unpack(state); at*p.period-now > skew {
			before, count = b, c
			next = p.word(v.pack(index, before, count))
		} else {
			index, before, count = v.at(state, now)
		}
	}
	into := max(0, now-index*p.period)
	room := p.rate.Count - cost
	if count+scale(before, p.period-into, p.period) <= room {
		return p.word(v.pack(index, before, count+cost)), true, 0
	}
	start := index * p.period
	if count > room { // not before the next window, when this one becomes the one before
		start, before, count = start+p.period, count, 0
	}
	// The window before must have shrunk to room-count.
	return next, false, start + scale(p.period, before-(room-count), before) - now
}

// idle reports whether a state is the same as if nothing had ever been counted.
func (p *params) idle(w uint64, now int64) bool {
	if !isLive(w) {
		return true
	}
	state := payload(p.current(w))
	switch p.algorithm {
	case FixedWindow:
		return state>>p.countBits < now/p.period
	case SlidingWindow:
		_, before, count := window{p.period, p.countBits}.at(state, now)
		return before == 0 && count == 0
	case SlidingLog:
		return state>>sequence<<logTick <= now
	case leaseWords:
		return unpackLease(w).until <= now
	default:
		return state <= now*units
	}
}

// left is how many tokens are available at a time, and how long until all are.
func (p *params) left(w uint64, now int64) (tokens, until int64) {
	now = countsFrom(w, now)
	switch p.algorithm {
	case FixedWindow:
		index, count := now/p.period, int64(0)
		if isLive(w) {
			if state := payload(p.current(w)); state>>p.countBits >= index {
				index, count = state>>p.countBits, state&(1<<p.countBits-1)
			}
		}
		return max(0, p.rate.Count-count), (index+1)*p.period - now
	case SlidingWindow:
		used := int64(0)
		if isLive(w) {
			used = window{p.period, p.countBits}.weight(payload(p.current(w)), now)
		}
		return max(0, p.rate.Count-used), p.period
	default:
		at := now * units
		due, _ := p.due(w, at, p.depth+p.most*p.token)
		return max(0, p.depth-(due-at)) / p.token, ceil(due-at, units)
	}
}

// giveBack is the state without a request that was counted and then refused by another limit.
// before and after are the words of its counting, and w is the present word. now must not be before
// the time of any other decision. It never makes a token: if a bucket has filled up meanwhile, it
// is just full.
func (p *params) giveBack(before, after, w uint64, now, cost int64) uint64 {
	if w == after && (p.algorithm != TokenBucket && p.algorithm != GCRA) {
		return before
	}
	if !isLive(w) || generation(w) != generation(after) || generation(w) != p.generation {
		return w // the numbers changed in between
	}
	state, mask := payload(w), int64(1)<<p.countBits-1
	switch p.algorithm {
	case FixedWindow:
		if state>>p.countBits == payload(after)>>p.countBits && state&mask >= cost {
			return p.word(state - cost)
		}
	case SlidingWindow:
		v := window{p.period, p.countBits}
		index, earlier, count := v.unpack(state)
		counted, _, _ := v.unpack(payload(after))
		switch {
		case index == counted && count >= cost:
			return p.word(v.pack(index, earlier, count-cost))
		case index == counted+1 && earlier >= cost:
			return p.word(v.pack(index, earlier-cost, count))
		}
	case TokenBucket, GCRA:
		// Without the request the bucket would be full at this time or sooner, plus what others
		// took since. No more than that is given back: if the bucket was full, the token has
		// already come back by itself.
		full := now * units
		if isLive(before) {
			full = max(full, payload(p.current(before)))
		}
		return p.word(min(state, full+state-payload(after)))
	}
	return w
}
