package compress

import "testing"

// The law of the effort as a table: what a loop on a step makes of a backlog.
func TestALoopClimbsAndEasesByItsBacklog(t *testing.T) {
	const ms = int64(1e6)
	for _, c := range []struct {
		name            string
		step            uint8
		stayed, backlog int64
		want            uint8
	}{
		{"quiet", 0, 1000 * ms, 0, 0},
		{"not busy enough", 0, 1000 * ms, 2*ms - 1, 0},
		{"busy", 0, 1000 * ms, 2 * ms, 1},
		{"one step at a time", 0, 1000 * ms, 100 * ms, 1},
		{"not before the step has shown what it does", 1, 50*ms - 1, 100 * ms, 1},
		{"still too busy", 1, 50 * ms, 4 * ms, 2},
		{"busy as it may be on its step", 1, 5000 * ms, 2 * ms, 1},
		{"between easing and climbing", 1, 5000 * ms, ms, 1},
		{"not eased enough", 1, 5000 * ms, ms / 2, 1},
		{"eased", 1, 1000 * ms, ms/2 - 1, 0},
		{"eased for too short a time", 1, 1000*ms - 1, 0, 1},
		{"to nothing", 2, 50 * ms, 8 * ms, 3},
		{"no further", 3, 5000 * ms, 1000 * ms, 3},
		{"back from nothing", 3, 1000 * ms, 2*ms - 1, 2},
		{"back to the first", 2, 1000 * ms, ms - 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			const now = int64(1e12)
			l := load{c.step, now - c.stayed}
			got := l.next(now, c.backlog)
			if got.step != c.want {
				t.Errorf("step %d, want %d", got.step, c.want)
			}
			if moved := got.step != c.step; moved && got.since != now || !moved && got != l {
				t.Errorf("it is there since %d", got.since)
			}
		})
	}
}

func TestLevelsOnEachStep(t *testing.T) {
	for step, want := range [][3]Level{{Fast, Balanced, Small}, {Fast, Fast, Balanced}, {Fast, Fast, Fast}} {
		for from := range levels {
			if got, ok := (load{step: uint8(step)}).lower(from); got != want[from] || !ok {
				t.Errorf("step %d makes %d of level %d, want %d", step, got, from, want[from])
			}
		}
	}
	if _, ok := (load{step: stepsToNothing}).lower(Small); ok {
		t.Error("on the last step something is encoded")
	}
}
