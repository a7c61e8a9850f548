package reactor_test

import (
	"testing"
	"time"

	"plimsoll/internal/reactor"
)

type runner func()

func (r runner) Run() { r() }

// onLoop runs f on a loop of its own and returns when the loop has stopped.
func onLoop(t *testing.T, f func(l *reactor.Loop)) {
	t.Helper()
	loops, err := reactor.NewGroup(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := loops[0]
	l.Post(func() { f(l) })
	l.Run()
}

func TestAnAlarmRingsAtItsTimeAndNotBefore(t *testing.T) {
	t.Run("spinning", func(t *testing.T) { onLoop(t, func(l *reactor.Loop) { ring(t, l) }) })
	t.Run("sleeping", func(t *testing.T) {
		onLoop(t, func(l *reactor.Loop) {
			l.SleepThrough()
			ring(t, l)
		})
	})
}

// ring sets fifty alarms one after the other, and stops the loop.
func ring(t *testing.T, l *reactor.Loop) {
	left := 50
	at := reactor.Clock()
	var next runner
	next = func() {
		if now := reactor.Clock(); now < at {
			t.Errorf("the alarm for %d rang at %d", at, now)
		}
		if left--; left == 0 {
			l.Stop()
			return
		}
		at += 200_000
		l.SetAlarm(at, next)
	}
	l.SetAlarm(at, next)
}

func TestAnAlarmThatWasStoppedOrReplacedDoesNotRing(t *testing.T) {
	onLoop(t, func(l *reactor.Loop) {
		now := reactor.Clock()
		wrong := runner(func() { t.Error("an alarm rang that was replaced or stopped") })
		l.SetAlarm(now+1_000_000, wrong)
		l.SetAlarm(now+2_000_000, wrong)
		l.StopAlarm()
		l.SetAlarm(now+3_000_000, runner(func() { l.Stop() }))
	})
}

func TestPostReachesALoopThatWaitsForAnAlarm(t *testing.T) {
	onLoop(t, func(l *reactor.Loop) {
		l.SetAlarm(reactor.Clock()+int64(time.Hour), runner(func() { t.Error("an hour has not passed") }))
		go l.Post(l.Stop)
	})
}

func TestWaitingForAnAlarmIsNotWork(t *testing.T) {
	t.Parallel() // it waits for the alarm
	onLoop(t, func(l *reactor.Loop) {
		before := l.Stats()
		l.SetAlarm(reactor.Clock()+int64(time.Second), runner(func() {
			after := l.Stats()
			if waited := after.Waited - before.Waited; waited < 50_000_000 {
				t.Errorf("of a second until the alarm %d ns count as waiting", waited)
			}
			l.Stop()
		}))
	})
}
