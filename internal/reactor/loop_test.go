package reactor_test

import (
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/reactor"
)

func TestPostsFromManyGoroutinesAllRunEachGoroutinesInOrder(t *testing.T) {
	l := newLoops(t, 1)[0]
	const goroutines, each = 8, 12_500
	var next [goroutines]int
	var posting sync.WaitGroup
	for g := range goroutines {
		posting.Go(func() {
			for i := range each {
				l.Post(func() {
					if next[g] != i {
						t.Errorf("goroutine %d: post %d ran when %d was next", g, i, next[g])
					}
					next[g]++
				})
			}
		})
	}
	posting.Wait()
	on(t, l, func() {
		for g, n := range next {
			if n != each {
				t.Errorf("goroutine %d: %d posts of %d ran", g, n, each)
			}
		}
	})
}

func TestAPostWakesALoopThatSleeps(t *testing.T) {
	l := newLoops(t, 1)[0]
	ran := make(chan struct{})
	run := func() { ran <- struct{}{} }
	// No timer and no socket: only the wake-up can end the wait. The pause sweeps the post over
	// each moment of going to sleep.
	for i := range 20_000 {
		for until := reactor.Clock() + int64(i%2000); reactor.Clock() < until; {
		}
		l.Post(run)
		receiveFast(t, ran, i)
	}
	on(t, l, func() {
		if s := l.Stats(); s.Waits == 0 {
			t.Error("the loop never slept")
		}
	})
}

// receiveFast is receive without a timer for each call.
func receiveFast(t *testing.T, ch <-chan struct{}, i int) {
	select {
	case <-ch:
	default:
		receive(t, ch, "post "+time.Duration(i).String())
	}
}

func TestAPostedFunctionMayPost(t *testing.T) {
	l := newLoops(t, 1)[0]
	done := make(chan struct{})
	n := 0
	var again func()
	again = func() {
		if n++; n == 1000 {
			close(done)
			return
		}
		l.Post(again)
	}
	l.Post(again)
	receive(t, done, "a chain of posts")
}

func TestACallToALoopThatIsStuckGivesUpAndIsNotMadeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loops, err := reactor.NewGroup(1, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		l := loops[0]
		made := false
		start := time.Now()
		// The loop does not run yet, which is as stuck as can be.
		if l.Call(time.Second, func() { made = true }) {
			t.Error("a loop that does not run answered")
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v for a limit of 1s", waited)
		}
		l.Post(l.Stop)
		l.Run()
		if made {
			t.Error("the call was made after it had been given up")
		}
	})
}

// deferred is a Runner that is a function.
type deferred func()

func (f deferred) Run() { f() }

func TestDeferredWorkLeavesRoomForEverythingElse(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c := new(conn).echo()
	attach(t, l, c, far)
	// Work that is never done defers itself in every turn. Posts, sockets and timers must get their
	// turns all the same.
	rounds, stop := 0, false
	var work deferred
	work = func() {
		rounds++
		if !stop {
			l.Defer(work)
		}
	}
	on(t, l, func() { l.Defer(work) })
	roundTrip(t, near)
	waitOn(t, l, 5*time.Millisecond)
	on(t, l, func() { stop = true })
	settle(t, l)
	on(t, l, func() {
		if rounds < 3 {
			t.Errorf("the work ran %d times", rounds)
		}
	})
}

func TestWorkDeferredByDeferredWorkRunsInTheNextTurn(t *testing.T) {
	l := newLoops(t, 1)[0]
	var turns []uint64
	done := make(chan struct{})
	var work deferred
	work = func() {
		turns = append(turns, l.Stats().Turns)
		if len(turns) == 4 {
			close(done)
			return
		}
		l.Defer(work)
	}
	on(t, l, func() { l.Defer(work) })
	receive(t, done, "deferred work")
	for i := 1; i < len(turns); i++ {
		if turns[i] != turns[i-1]+1 {
			t.Errorf("it ran in turns %v, want one in each", turns)
		}
	}
}

func TestALoopKnowsHowLongItWasBusy(t *testing.T) {
	l := newLoops(t, 1)[0]
	stats := func() (s reactor.Stats) {
		on(t, l, func() { s = l.Stats() })
		return s
	}
	first := stats()
	const work = int64(20 * time.Millisecond)
	on(t, l, func() {
		for begin := reactor.Clock(); reactor.Clock()-begin < work; {
		}
	})
	second := stats()
	if busy := (second.Wall - second.Waited) - (first.Wall - first.Waited); busy < work {
		t.Errorf("%d ns of work made the loop busy for %d ns", work, busy)
	}
	waitOn(t, l, 20*time.Millisecond)
	third := stats()
	if third.Waited <= second.Waited || third.Waits <= second.Waits || third.Turns <= second.Turns {
		t.Errorf("an idle loop does not count its waiting: %+v, then %+v", second, third)
	}
	for _, s := range []reactor.Stats{first, second, third} {
		if s.Waited < 0 || s.Waited > s.Wall || s.Waits > s.Turns {
			t.Errorf("more waiting than time, or more waits than turns: %+v", s)
		}
	}
}

func TestTheClockStandsStillDuringATurn(t *testing.T) {
	l := newLoops(t, 1)[0]
	on(t, l, func() {
		now := l.Now()
		for reactor.Clock() <= now+1000 {
		}
		if l.Now() != now {
			t.Error("Now moved within a turn")
		}
	})
}

// descriptors counts the descriptors that this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestAStoppedLoopHoldsNoDescriptorAndDropsPosts(t *testing.T) {
	before := descriptors(t)
	loops, err := reactor.NewGroup(3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var running, posting sync.WaitGroup
	for _, l := range loops {
		running.Go(l.Run)
		// Some of these find the loop asleep, some stopping, some stopped.
		posting.Go(func() {
			for range 1000 {
				l.Post(func() {})
			}
			l.Post(l.Stop)
			for range 1000 {
				l.Post(func() {})
			}
		})
	}
	posting.Wait()
	running.Wait()
	for _, l := range loops {
		l.Post(func() { t.Error("a stopped loop runs what was posted") })
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors after the loops have stopped, %d before they were made", after, before)
	}
}

func TestAGroupNeedsALoop(t *testing.T) {
	if _, err := reactor.NewGroup(0, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a group of no loops was made")
	}
}
