package compress

import "time"

// Level is how much work goes into making content small.
type Level uint8

// The levels.
const (
	Fast Level = iota
	Balanced
	Small
	levels
)

// stepsToNothing is the step on which nothing is encoded.
const stepsToNothing = 3

// The law, as figures of a loop's backlog in nanoseconds (reactor.Loop.Backlog, smoothed).
var (
	// stepAt is the backlog from which a loop is on a step at least. Admission, where it is on, begins
	// to refuse requests at a quarter of its delay, which is 2.5 ms: the first step is before that,
	// and nothing is encoded any more when it refuses all classes but the highest.
	stepAt = [stepsToNothing + 1]int64{0, 2e6, 4e6, 8e6}
)

const (
	// easeAt is the share of stepAt below which a loop leaves a step: encoding is most of the work that
	// it stops doing, so what it sees afterwards is a backlog several times smaller.
	easeAt = 4
	// climb is how long a loop stays on a step at least before the next: one long turn, of a garbage
	// collection say, is not an overload.
	climb = int64(50 * time.Millisecond)
	// ease is likewise how long it stays before it goes back.
	ease = int64(time.Second)
)

// load is how busy a loop is, in steps: on each, content is encoded a level lower.
type load struct {
	step  uint8
	since int64 // when it came to that step
}

// next is the load after a look at the backlog.
func (l load) next(now, backlog int64) load {
	switch stayed := now - l.since; {
	case l.step < stepsToNothing && backlog >= stepAt[l.step+1] && (stayed >= climb || l.since == 0):
		return load{l.step + 1, now}
	case l.step > 0 && backlog < stepAt[l.step]/easeAt && stayed >= ease:
		return load{l.step - 1, now}
	}
	return l
}

// lower is the level that remains of one; false for nothing.
func (l load) lower(from Level) (Level, bool) {
	if l.step >= stepsToNothing {
		return 0, false
	}
	return from - min(from, Level(l.step)), true
}
