package reactor

import "math/bits"

// Timer is one deadline, embedded in the value that it limits. The zero value is a stopped timer.
//
// Most deadlines are moved many times before they pass: once or more per request. So setting a
// later deadline only records it. The timer stays in the slot of the earlier deadline and is moved
// to the right slot when the wheel reaches it.
type Timer struct {
	next, prev *Timer
	owner      Expirer
	deadline   int64 // when it fires; 0 when stopped
	slot       int64 // the tick whose slot it is in; meaningful while next is not nil
}

// Deadline is when the timer fires, on the loop's clock; 0 when it is stopped. Loop only.
func (t *Timer) Deadline() int64 { return t.deadline }

// Expirer owns a Timer. The loop calls Expire when the timer's deadline has passed. The timer is
// stopped by then and may be set again.
type Expirer interface {
	Expire(t *Timer, now int64)
}

// The wheel has four levels of 256 slots. A tick is 2^22 ns (4.2 ms), so the levels reach 1.07 s,
// 4.6 min, 19.5 h and 208 days; later deadlines wait in the last level and are moved on. A timer
// fires up to one tick late, never early.
const (
	tickShift  = 22
	levelBits  = 8
	levelSlots = 1 << levelBits
	levels     = 4
)

type wheel struct {
	tick   int64 // all slots up to this tick have fired
	slots  [levels][levelSlots]Timer
	filled [levels][levelSlots / 64]uint64 // a bit for each slot that may hold something
	// head of the list that serve works on; a field because a local variable would escape to the
	// heap
	firing Timer
	count  int
}

func (w *wheel) init(now int64) {
	w.tick = now >> tickShift
	w.firing.next, w.firing.prev = &w.firing, &w.firing
	for l := range w.slots {
		for s := range w.slots[l] {
			head := &w.slots[l][s]
			head.next, head.prev = head, head
		}
	}
}

// SetTimer makes t fire for owner at the time given. Setting a timer that is set moves it.
func (l *Loop) SetTimer(t *Timer, owner Expirer, at int64) {
	l.check()
	t.owner, t.deadline = owner, at
	tick := dueTick(at)
	if t.next != nil {
		if t.slot <= tick {
			return
		}
		l.timers.unlink(t)
	}
	l.timers.insert(t, tick)
}

// StopTimer keeps t from firing. The timer stays in its slot until the wheel reaches that slot or
// the timer is set again; ReleaseTimer takes it out.
func (l *Loop) StopTimer(t *Timer) {
	l.check()
	t.deadline = 0
}

// ReleaseTimer stops t and takes it out of the wheel, so that its owner can be freed or reused.
func (l *Loop) ReleaseTimer(t *Timer) {
	l.check()
	t.deadline = 0
	if t.next != nil {
		l.timers.unlink(t)
	}
	t.owner = nil
}

// dueTick is the first tick that begins after the time at.
func dueTick(at int64) int64 { return at>>tickShift + 1 }

// Timers is how many timers are set. It visits every slot, so it is for tests and simulations. It
// may be called on the loop or between two Steps.
func (l *Loop) Timers() (n int) {
	for level := range l.timers.slots {
		for s := range l.timers.slots[level] {
			head := &l.timers.slots[level][s]
			for t := head.next; t != head; t = t.next {
				if t.deadline != 0 {
					n++
				}
			}
		}
	}
	return n
}

func (w *wheel) insert(t *Timer, tick int64) {
	if tick <= w.tick {
		tick = w.tick + 1
	}
	t.slot = tick
	level := 0
	for level < levels-1 && tick-w.tick >= 1<<(levelBits*(level+1)) {
		level++
	}
	if tick-w.tick >= 1<<(levelBits*levels) {
		tick = w.tick + 1<<(levelBits*levels) - 1
	}
	s := int(tick>>(levelBits*level)) & (levelSlots - 1)
	head := &w.slots[level][s]
	t.prev, t.next = head.prev, head
	head.prev.next, head.prev = t, t
	w.filled[level][s>>6] |= 1 << (s & 63)
	w.count++
}

func (w *wheel) unlink(t *Timer) {
	t.prev.next, t.next.prev = t.next, t.prev
	t.next, t.prev = nil, nil
	w.count--
}

// advance fires every timer whose deadline is not after now.
func (w *wheel) advance(now int64) {
	target := now >> tickShift
	if w.count == 0 {
		w.tick = max(w.tick, target)
		return
	}
	for w.tick < target {
		if skip := w.quiet(target); skip > 0 {
			w.tick += skip
			continue
		}
		w.tick++
		for level := 1; level < levels && w.tick&(1<<(levelBits*level)-1) == 0; level++ {
			w.serve(level, int(w.tick>>(levelBits*level))&(levelSlots-1), now)
		}
		w.serve(0, int(w.tick)&(levelSlots-1), now)
	}
}

// quiet is for how many ticks, up to target, no timer can fire and no slot of a higher level is
// due. Skipping them keeps a loop that slept long from stepping through empty slots.
func (w *wheel) quiet(target int64) int64 {
	next := w.nextTick()
	return min(target, next-1) - w.tick
}

// nextTick is the next tick at which a slot of the first level may fire or a slot of a higher level
// is due.
func (w *wheel) nextTick() int64 {
	from := int(w.tick+1) & (levelSlots - 1)
	boundary := w.tick + int64(levelSlots-from) + 1 // the next tick at which level 1 comes round
	if from == 0 {
		return w.tick + 1
	}
	for word, bit := from>>6, from&63; word < levelSlots/64; word, bit = word+1, 0 {
		if m := w.filled[0][word] >> bit << bit; m != 0 {
			slot := word<<6 + bits.TrailingZeros64(m)
			return w.tick + 1 + int64(slot-from)
		}
	}
	return boundary
}

// serve empties one slot. It fires the timers that are due and moves the others, which were set
// later or belong to a lower level, to their slots.
func (w *wheel) serve(level, s int, now int64) {
	if w.filled[level][s>>6]&(1<<(s&63)) == 0 {
		return
	}
	w.filled[level][s>>6] &^= 1 << (s & 63)
	head := &w.slots[level][s]
	if head.next == head {
		return
	}
	list := &w.firing
	list.next, list.prev = head.next, head.prev
	list.next.prev, list.prev.next = list, list
	head.next, head.prev = head, head
	for list.next != list {
		t := list.next
		w.unlink(t)
		switch {
		case t.deadline == 0:
		case dueTick(t.deadline) <= w.tick:
			t.deadline = 0
			t.owner.Expire(t, now)
		default:
			w.insert(t, dueTick(t.deadline))
		}
	}
}

// until is how many nanoseconds the loop may sleep; negative means for ever.
func (w *wheel) until(now int64) int64 {
	if w.count == 0 {
		return -1
	}
	return max(0, w.nextTick()<<tickShift-now)
}
