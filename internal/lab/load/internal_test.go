package load

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
)

func TestTheBacklogIsFirstInFirstOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := backlog{limit: rapid.IntRange(1, 2000).Draw(t, "limit")}
		var model []int64
		for i, push := range rapid.SliceOfN(rapid.IntRange(0, 9), 0, 3000).Draw(t, "pushes") {
			if b.full() != (len(model) == b.limit) || b.count != len(model) {
				t.Fatalf("%d wait of at most %d, and full is %v", len(model), b.limit, b.full())
			}
			if push > 2 && !b.full() {
				b.push(waiting{due: int64(i)})
				model = append(model, int64(i))
			} else if len(model) > 0 {
				if got := b.oldest().due; got != model[0] || b.pop().due != got {
					t.Fatalf("the oldest is %d, got %d", model[0], got)
				}
				model = model[1:]
			}
		}
	})
}

func TestThoughtsComeInTheOrderOfTheirTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var th thoughts
		var model []int64
		for _, due := range rapid.SliceOfN(rapid.Int64Range(-50, 200), 0, 300).Draw(t, "dues") {
			if due >= 0 {
				th.Push(waiting{due: due})
				model = append(model, due)
				slices.Sort(model)
			} else if len(model) > 0 {
				if got := th.due(); got != model[0] || th.Pop().due != got {
					t.Fatalf("the first is due at %d, got %d", model[0], got)
				}
				model = model[1:]
			}
		}
		if len(model) == 0 && th.due() != never {
			t.Fatal("nobody thinks, and somebody is due")
		}
	})
}

func TestConnectionsLeaveAQueueFromAnyPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var model []*conn
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 20), 0, 100).Draw(t, "steps") {
			switch {
			case step < 10:
				c := new(conn)
				q.push(c)
				model = append(model, c)
			case step < 14:
				var want *conn
				if len(model) > 0 {
					want, model = model[0], model[1:]
				}
				if q.pop() != want {
					t.Fatal("not the first")
				}
			case len(model) > 0:
				i := step % len(model)
				q.remove(model[i])
				model = slices.Delete(model, i, i+1)
			}
			if q.count != len(model) {
				t.Fatalf("%d are in the queue, and it counts %d", len(model), q.count)
			}
		}
	})
}

// piece is a loop's part that covers windows from a number up to another.
func piece(loop int, from, to int64, due uint64) *part {
	p := &part{loop: loop, from: from, to: to, due: due, waiting: int(to % 10)}
	p.response.Record(int64(due))
	return p
}

func TestWindowsAreOfAllLoopsAndAsLongAsTheSlowestMakesThem(t *testing.T) {
	full := make(chan *part, 20)
	var got []measure.Window
	c := &collector{
		full: full, spare: []chan *part{make(chan *part, 20), make(chan *part, 20)}, queue: make([][]*part, 2), window: 10,
		observe: func(w *measure.Window) { got = append(got, *w) }, end: func() int64 { return 77 },
	}
	for _, p := range []*part{
		piece(1, 0, 1, 1), piece(1, 1, 2, 2), piece(0, 0, 1, 10), piece(0, 1, 4, 20), piece(1, 2, 3, 4),
		piece(1, 3, 5, 8), piece(0, 4, 5, 40), piece(0, 5, endOfRun, 80), piece(1, 5, 6, 16), piece(1, 6, endOfRun, 32),
	} {
		full <- p
	}
	close(full)
	c.run()
	want := []struct {
		start, length int64
		due           uint64
	}{{0, 10, 11}, {10, 40, 74}, {50, 27, 128}}
	if len(got) != len(want) {
		t.Fatalf("%d windows, want %d", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Start != w.start || g.Length != w.length || g.Due != w.due {
			t.Errorf("window %d: from %d for %d with %d due, want %+v", i, g.Start, g.Length, g.Due, w)
		}
	}
	if c.due != 213 || c.response.Count() != 10 || len(c.spare[0])+len(c.spare[1]) != 10 {
		t.Errorf("%d due in all, %d response times, %d parts came back", c.due, c.response.Count(), len(c.spare[0])+len(c.spare[1]))
	}
}

func TestARunThatIsStoppedAsItStartsHasNoWindowWithoutLength(t *testing.T) {
	for due, want := range map[uint64]int{0: 0, 1: 1} {
		full := make(chan *part, 1)
		var got []measure.Window
		c := &collector{
			full: full, spare: []chan *part{make(chan *part, 1)}, queue: make([][]*part, 1), window: 10,
			observe: func(w *measure.Window) { got = append(got, *w) }, end: func() int64 { return 0 },
		}
		full <- &part{to: endOfRun, due: due}
		close(full)
		c.run()
		if len(got) != want || want == 1 && (got[0].Length != 1 || got[0].Due != due) {
			t.Errorf("with %d requests due: %+v", due, got)
		}
	}
}

// judged is what is said of a generator with these figures.
func judged(open bool, busy float64, lag, response int64, arrivals, late uint64) string {
	var l, h measure.Histogram
	l.Record(lag)
	h.Record(response)
	o := Outcome{Arrivals: arrivals, Late: late, Lag: l.Sparse(), Response: h.Sparse(), Busy: busy}
	return o.invalid(open, 0)
}

func TestAClosedLoopThatUsesAWholeCoreSaysSo(t *testing.T) {
	options := Options{Script: Static("get", nil, false)}
	full := func(busy float64) string { return (&Outcome{Busy: busy}).Totals(&options).Generator.Full }
	if got := full(.97); !strings.Contains(got, "97 %") || full(.9) != "" {
		t.Errorf("%q, %q", got, full(.9))
	}
	options.Offered = new(pace.Offered)
	if got := full(.97); got != "" {
		t.Errorf("an open loop: %q", got)
	}
}

func TestAFewLateRequestsOfAFewProveNothing(t *testing.T) {
	const us, ms = 1_000, 1_000_000
	for _, c := range []struct {
		late, of int
		invalid  bool
	}{
		{1, 60, false}, {2, 124, false}, {5, 124, true}, {120, 10_000, true}, {103, 10_000, false},
		{90, 10_000, false},
	} {
		var lag, response measure.Histogram
		for i := range c.of {
			if i < c.late {
				lag.Record(6 * ms)
			} else {
				lag.Record(50 * us)
			}
			response.Record(20 * ms)
		}
		o := Outcome{Arrivals: uint64(c.of), Lag: lag.Sparse(), Response: response.Sparse()}
		if got := o.invalid(true, 5*ms); (got != "") != c.invalid {
			t.Errorf("%d of %d sent late: %q", c.late, c.of, got)
		}
	}
}

func TestAGeneratorSaysWhenItWasTheLimit(t *testing.T) {
	const us, ms = 1_000, 1_000_000
	for _, c := range []struct {
		what     string
		open     bool
		busy     float64
		lag      int64
		response int64
		late     uint64
		invalid  bool
	}{
		{"at ease", true, 0.5, 80 * us, ms, 0, false},
		{"busy in an open loop", true, 0.97, 80 * us, ms, 0, true},
		{"busy in a closed loop, as it may be", false, 0.97, 0, ms, 0, false},
		{"late", true, 0.5, 2 * ms, 10 * ms, 0, true},
		{"late where answers take seconds", true, 0.5, 2 * ms, 1000 * ms, 0, false},
		{"behind its schedule", true, 0.5, 80 * us, 1000 * ms, 20, true},
		{"behind once", true, 0.5, 80 * us, 1000 * ms, 5, false},
	} {
		if got := judged(c.open, c.busy, c.lag, c.response, 1000, c.late); (got != "") != c.invalid {
			t.Errorf("%s: %q", c.what, got)
		}
	}
}
