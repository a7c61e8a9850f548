package breaker

import "sync/atomic"

const slices = 10

// ring is the sliding window: ten slices, of which the head is being filled. All goroutines count
// into the head. The holder of the pen empties the next slices and then moves the head, so that no
// call is lost. A goroutine that is delayed between reading the head and counting counts its call
// in a slice that is older by that delay.
//
// The sum of the nine older slices is computed when the head moves, because every call needs it. A
// call that is counted in an older slice at that moment is missing from the sum until the head
// moves again. A caller that reads the sum while the head moves may count one slice twice, but
// cannot act on it: a transition needs the pen, and the rule is checked again by its holder.
type ring struct {
	length int64 // of a slice, in nanoseconds; never changes
	head   atomic.Uint32
	start  atomic.Int64          // when the head began
	calls  [slices]atomic.Uint64 // calls in the upper 32 bits, failures in the lower
	slow   [slices]atomic.Uint32

	olderCalls, olderFailures, olderSlow atomic.Uint64
}

// tally is the counts of a window.
type tally struct{ requests, failures, slow uint64 }

func (r *ring) init(window, now int64) {
	r.length = window / slices
	r.start.Store(now)
}

func (r *ring) count(failed, slow bool) {
	i := r.head.Load()
	n := uint64(1) << 32
	if failed {
		n++
	}
	if slow {
		r.slow[i].Add(1)
	}
	r.calls[i].Add(n)
}

func (r *ring) sum() tally {
	i := r.head.Load()
	c := r.calls[i].Load()
	return tally{
		requests: r.olderCalls.Load() + c>>32,
		failures: r.olderFailures.Load() + c&(1<<32-1),
		slow:     r.olderSlow.Load() + uint64(r.slow[i].Load()),
	}
}

// youngest adds up the n youngest of the slices up to the head.
func (r *ring) youngest(head uint32, n int) tally {
	var t tally
	for k := range n {
		i := (int(head) + slices - k) % slices
		c := r.calls[i].Load()
		t.requests += c >> 32
		t.failures += c & (1<<32 - 1)
		t.slow += uint64(r.slow[i].Load())
	}
	return t
}

// at adds up the slices that are in the window at now, even if the head has not been moved yet.
func (r *ring) at(now int64) tally {
	passed := max(0, elapsed(now, r.start.Load())) / r.length
	return r.youngest(r.head.Load(), slices-int(min(passed, slices)))
}

func (r *ring) due(now int64) bool { return outside(now, r.start.Load(), r.length) }

// turn moves the head to the slice of now. If the clock was set back, turn begins one new slice at
// now, so the counts still expire, one slice at a time.
func (r *ring) turn(now int64) {
	start := r.start.Load()
	d := elapsed(now, start)
	passed := max(0, d/r.length)
	start += passed * r.length
	if d < -skew {
		passed, start = 1, now
	}
	if passed == 0 {
		return
	}
	head := r.head.Load()
	for range min(passed, slices) {
		head = (head + 1) % slices
		r.calls[head].Store(0)
		r.slow[head].Store(0)
	}
	r.setOlder(r.youngest(head, slices))
	r.head.Store(head)
	r.start.Store(start)
}

func (r *ring) setOlder(t tally) {
	r.olderCalls.Store(t.requests)
	r.olderFailures.Store(t.failures)
	r.olderSlow.Store(t.slow)
}

func (r *ring) reset(now int64) {
	for i := range slices {
		r.calls[i].Store(0)
		r.slow[i].Store(0)
	}
	r.setOlder(tally{})
	r.start.Store(now)
}
