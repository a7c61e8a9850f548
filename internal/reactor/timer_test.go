//go:build !race

package reactor

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tickNanos is how long a tick of the wheel is.
const tickNanos = int64(1) << tickShift

// wheelLoop is a loop of which only the timers are used, at the time given.
func wheelLoop(now int64) *Loop {
	l := &Loop{now: now}
	l.timers.init(now)
	return l
}

func (l *Loop) advanceTo(now int64) {
	l.now = now
	l.timers.advance(now)
}

// expiry is an Expirer that is a function.
type expiry func(t *Timer, now int64)

func (f expiry) Expire(t *Timer, now int64) { f(t, now) }

// record is an Expirer that notes when it was told.
type record struct{ at []int64 }

func (r *record) Expire(_ *Timer, now int64) { r.at = append(r.at, now) }

// modelTimer is a timer beside what is expected of it.
type modelTimer struct {
	Timer
	m        *timerModel
	at       int64 // 0 when it must not fire
	set      int64 // the time at which it was set
	reaction int   // what it does when it fires
	target   *modelTimer
	delta    int64
}

type timerModel struct {
	t      *rapid.T
	l      *Loop
	timers []*modelTimer
	fired  int
}

const (
	reactNot = iota
	reactSet
	reactStop
	reactRelease
)

func (m *timerModel) set(x *modelTimer, at int64) {
	x.at, x.set = at, m.l.now
	m.l.SetTimer(&x.Timer, x, at)
}

func (x *modelTimer) Expire(t *Timer, now int64) {
	m := x.m
	if t != &x.Timer || now != m.l.now {
		m.t.Fatalf("Expire was told of timer %p at %d, not of %p at %d", t, now, &x.Timer, m.l.now)
	}
	if x.at == 0 {
		m.t.Fatal("a stopped timer fired")
	}
	if x.at > now {
		m.t.Fatalf("fired %d ns early", x.at-now)
	}
	m.fired++
	x.at = 0
	switch reaction := x.reaction; reaction {
	case reactSet:
		x.reaction = reactNot
		m.set(x.target, now+x.delta)
	case reactStop:
		x.target.at = 0
		m.l.StopTimer(&x.target.Timer)
	case reactRelease:
		x.target.at = 0
		m.l.ReleaseTimer(&x.target.Timer)
	}
}

// due is the first moment at which x must have fired: the end of the tick that its deadline, or its
// setting if later, lies in.
func (x *modelTimer) due() int64 { return (max(x.at, x.set)>>tickShift + 1) << tickShift }

func (m *timerModel) check() {
	first := int64(math.MaxInt64)
	for _, x := range m.timers {
		if x.at == 0 {
			continue
		}
		first = min(first, x.due())
		if x.due() <= m.l.now {
			m.t.Fatalf("a deadline is late by more than a tick: %d ns", m.l.now-x.at)
		}
	}
	sleep := m.l.timers.until(m.l.now)
	switch {
	case sleep == 0:
		m.t.Fatal("the loop would spin: nothing is due and it may not sleep")
	case first < math.MaxInt64 && (sleep < 0 || m.l.now+sleep > first):
		m.t.Fatalf("the loop would sleep %d ns and be late by %d", sleep, m.l.now+sleep-first)
	case m.l.timers.count == 0 && sleep >= 0:
		m.t.Fatal("the loop would wake for no timer")
	}
}

// distance draws nanoseconds of every scale: within a tick, within each level of the wheel and
// beyond the last.
func distance(t *rapid.T, what string) int64 {
	bits := rapid.SampledFrom([]int{10, tickShift, tickShift + 3, tickShift + 8, tickShift + 9,
		tickShift + 16, tickShift + 17, tickShift + 24, tickShift + 25, tickShift + 33}).Draw(t,
		what+" bits")
	return rapid.Int64Range(0, 1<<bits).Draw(t, what)
}

func TestTimersFireOnceAtTheirLatestDeadlineWhateverIsDoneWithThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := 1 + distance(t, "start")
		m := &timerModel{t: t, l: wheelLoop(start)}
		for range rapid.IntRange(1, 12).Draw(t, "timers") {
			m.timers = append(m.timers, &modelTimer{m: m})
		}
		pick := func(what string) *modelTimer { return rapid.SampledFrom(m.timers).Draw(t, what) }
		t.Repeat(map[string]func(*rapid.T){
			"set":  func(t *rapid.T) { m.set(pick("timer"), m.l.now+distance(t, "in")) },
			"past": func(t *rapid.T) { m.set(pick("timer"), max(1, m.l.now-distance(t, "ago"))) },
			"stop": func(t *rapid.T) {
				x := pick("timer")
				x.at = 0
				m.l.StopTimer(&x.Timer)
			},
			"release": func(t *rapid.T) {
				x := pick("timer")
				x.at = 0
				m.l.ReleaseTimer(&x.Timer)
			},
			"react": func(t *rapid.T) {
				x := pick("timer")
				x.reaction, x.target = rapid.IntRange(reactSet, reactRelease).Draw(t, "reaction"), pick("target")
				x.delta = distance(t, "in")
			},
			"advance": func(t *rapid.T) {
				// A loop with timers never sleeps longer than until allows, but may be kept busy
				// for long.
				by := min(distance(t, "by"), 1<<(tickShift+25))
				m.l.advanceTo(m.l.now + by)
				m.check()
			},
			"sleep": func(t *rapid.T) {
				if sleep := m.l.timers.until(m.l.now); sleep >= 0 {
					m.l.advanceTo(m.l.now + (sleep+999_999)/1_000_000*1_000_000)
					m.check()
				}
			},
		})
		m.l.advanceTo(m.l.now)
		m.check()
		for _, x := range m.timers {
			m.l.ReleaseTimer(&x.Timer)
		}
		if m.l.timers.count != 0 || m.l.timers.until(m.l.now) != -1 {
			t.Fatalf("%d timers are left in the wheel after all were released", m.l.timers.count)
		}
	})
}

func TestADeadlineIsMetWithinATickAtEveryDistance(t *testing.T) {
	for _, in := range []time.Duration{
		0, 1, time.Millisecond, 5 * time.Millisecond, time.Second, 1074 * time.Millisecond,
		time.Minute, 274 * time.Second, 276 * time.Second,
		time.Hour, 19 * time.Hour, 20 * time.Hour,
	} {
		t.Run(in.String(), func(t *testing.T) {
			for _, start := range []int64{1, tickNanos - 1, 255 * tickNanos, 65535*tickNanos + 7, 1<<24*tickNanos - 1} {
				l := wheelLoop(start)
				var timer Timer
				var fired record
				at := start + int64(in)
				l.SetTimer(&timer, &fired, at)
				l.advanceTo(at)
				if len(fired.at) != 0 {
					t.Fatalf("from %d: fired before its tick was over", start)
				}
				l.advanceTo(at + tickNanos)
				if len(fired.at) != 1 {
					t.Fatalf("from %d: fired %d times, a tick after the deadline", start, len(fired.at))
				}
			}
		})
	}
}

func TestALoopWakesAboutOnceASecondForAFarDeadline(t *testing.T) {
	l := wheelLoop(1)
	var timer Timer
	var fired record
	at := l.now + int64(time.Hour)
	l.SetTimer(&timer, &fired, at)
	turns := 0
	for len(fired.at) == 0 {
		l.advanceTo(l.now + l.timers.until(l.now))
		if turns++; turns > 3600 {
			t.Fatalf("%d wake-ups, and %v to go", turns, time.Duration(at-l.now))
		}
	}
	if late := fired.at[0] - at; late < 0 || late > tickNanos {
		t.Errorf("fired %d ns late", late)
	}
}

func TestADeadlineThatIsMovedLaterFiresAtTheNewTimeOnly(t *testing.T) {
	l := wheelLoop(1)
	var timer Timer
	var fired record
	last := int64(0)
	// A request every 10 ms moves an idle timeout of a minute.
	for range 10_000 {
		last = l.now + int64(time.Minute)
		l.SetTimer(&timer, &fired, last)
		l.advanceTo(l.now + int64(10*time.Millisecond))
	}
	if len(fired.at) != 0 {
		t.Fatal("fired while it was being moved")
	}
	l.advanceTo(last)
	if len(fired.at) != 0 {
		t.Fatal("fired early")
	}
	l.advanceTo(last + tickNanos)
	if len(fired.at) != 1 {
		t.Fatalf("fired %d times at the moved deadline", len(fired.at))
	}
}

func TestADeadlineThatIsMovedEarlierFiresAtTheNewTime(t *testing.T) {
	l := wheelLoop(1)
	var timer Timer
	var fired record
	l.SetTimer(&timer, &fired, l.now+int64(time.Hour))
	at := l.now + int64(time.Second)
	l.SetTimer(&timer, &fired, at)
	l.advanceTo(at + tickNanos)
	if len(fired.at) != 1 {
		t.Fatalf("fired %d times", len(fired.at))
	}
	l.advanceTo(l.now + int64(2*time.Hour))
	if len(fired.at) != 1 {
		t.Fatal("fired again at its first deadline")
	}
}

func TestReleasingATimerOfTheSameSlotWhileAnotherFiresKeepsItQuiet(t *testing.T) {
	l := wheelLoop(1)
	at := l.now + int64(time.Second)
	var timers [3]Timer
	fired := 0
	// Whichever fires first releases the two others, which are in the slot that is being served.
	for i := range timers {
		l.SetTimer(&timers[i], expiry(func(self *Timer, _ int64) {
			fired++
			for j := range timers {
				if &timers[j] != self {
					l.ReleaseTimer(&timers[j])
				}
			}
		}), at)
	}
	l.advanceTo(at + 3*tickNanos)
	if fired != 1 || l.timers.count != 0 {
		t.Errorf("%d fired and %d are left, want 1 and 0", fired, l.timers.count)
	}
}

func TestATimerMaySetItselfAgainWhileItFires(t *testing.T) {
	l := wheelLoop(1)
	var timer Timer
	var at []int64
	var again expiry
	again = func(t *Timer, now int64) {
		at = append(at, now)
		l.SetTimer(t, again, now+int64(time.Second))
	}
	l.SetTimer(&timer, again, l.now+int64(time.Second))
	l.advanceTo(l.now + int64(time.Second) + tickNanos)
	l.advanceTo(l.now + int64(time.Second))
	if len(at) != 1 {
		t.Fatalf("fired %d times, want 1: its second deadline is not over", len(at))
	}
	l.advanceTo(l.now + tickNanos)
	if len(at) != 2 {
		t.Fatalf("fired %d times, want 2", len(at))
	}
}

func TestATimerThatSetsItselfToThePastDoesNotHoldTheLoop(t *testing.T) {
	l := wheelLoop(1)
	var timer Timer
	fired := 0
	var again expiry
	again = func(t *Timer, now int64) {
		fired++
		l.SetTimer(t, again, 1)
	}
	l.SetTimer(&timer, again, 1)
	l.advanceTo(l.now + tickNanos)
	if fired != 1 {
		t.Errorf("fired %d times in a tick, want 1", fired)
	}
	l.ReleaseTimer(&timer)
}

func TestASleepOfMonthsIsCaughtUpAtOnce(t *testing.T) {
	l := wheelLoop(1)
	var near, far Timer
	var first, second record
	day := int64(24 * time.Hour)
	l.SetTimer(&near, &first, l.now+day)
	l.SetTimer(&far, &second, l.now+215*day)
	l.advanceTo(l.now + 210*day)
	if len(first.at) != 1 || len(second.at) != 0 {
		t.Fatalf("after 210 days: fired %d and %d, want 1 and 0", len(first.at), len(second.at))
	}
	l.advanceTo(l.now + 6*day)
	if len(second.at) != 1 {
		t.Error("the deadline beyond the wheel's reach did not fire")
	}
}

func BenchmarkTimerSetLater(b *testing.B) {
	l := wheelLoop(1)
	var timer Timer
	var fired record
	for b.Loop() {
		l.now += 1000
		l.SetTimer(&timer, &fired, l.now+int64(time.Minute))
	}
}

func BenchmarkTimerSetAndFire(b *testing.B) {
	b.ReportAllocs()
	l := wheelLoop(1)
	var timer Timer
	nothing := expiry(func(*Timer, int64) {})
	for b.Loop() {
		l.SetTimer(&timer, nothing, l.now)
		l.advanceTo(l.now + tickNanos)
	}
}
