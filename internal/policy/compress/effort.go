package compress

import "time"

// Level is how much work compression may take.
type Level uint8

// The levels.
const (
	Fast Level = iota
	Balanced
	Small
	levels
)

// stepsToNothing is the step at which nothing is encoded.
const stepsToNothing = 3

// The control law, which depends on a loop's smoothed backlog in nanoseconds
// (reactor.Loop.Backlog).
var (
	// stepAt is the backlog from which a loop is at least at each step. Admission, if enabled,
	// begins to refuse requests at a quarter of its delay, which is 2.5 ms. The first step comes
	// before that, and once admission refuses all classes but the highest, nothing is encoded.
	stepAt = [stepsToNothing + 1]int64{0, 2e6, 4e6, 8e6}
)

const (
	// easeAt is the divisor of stepAt below which a loop leaves a step. Encoding is a large part of
	// the loop's work, so without it the backlog is several times smaller.
	easeAt = 4
	// climb is the least time that a loop stays at a step before it goes to the next: one long
	// turn, say during a garbage collection, is not an overload.
	climb = int64(50 * time.Millisecond)
	// ease is the least time that a loop stays at a step before it goes back.
	ease = int64(time.Second)
)

// load is how busy a loop is, in steps. At each step, content is encoded one level lower.
type load struct {
	step  uint8
	since int64 // when the loop reached that step
}

// next returns the load after an observation of the backlog.
func (l load) next(now, backlog int64) load {
	switch stayed := now - l.since; {
	case l.step < stepsToNothing && backlog >= stepAt[l.step+1] && (stayed >= climb || l.since == 0):
		return load{l.step + 1, now}
	case l.step > 0 && backlog < stepAt[l.step]/easeAt && stayed >= ease:
		return load{l.step - 1, now}
	}
	return l
}

// lower returns the level reduced by the loop's step; false if nothing is to be encoded.
func (l load) lower(from Level) (Level, bool) {
	if l.step >= stepsToNothing {
		return 0, false
	}
	return from - min(from, Level(l.step)), true
}
