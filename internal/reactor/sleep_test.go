package reactor_test

import (
	"runtime"
	"testing"
	"time"

	"plimsoll/internal/reactor"
)

// ticker sets the loop's alarm again each time that it rings, so many times.
type ticker struct {
	l    *reactor.Loop
	left int
	also func()
	done chan struct{}
}

func (k *ticker) Run() {
	if k.left--; k.left == 0 {
		close(k.done)
		return
	}
	if k.also != nil {
		k.also()
	}
	k.l.SetAlarm(k.l.Now()+int64(time.Millisecond), k)
}

// ticks has the loop woken so many times, a millisecond after the other.
func ticks(t *testing.T, l *reactor.Loop, n int, also func()) (done chan struct{}) {
	k := &ticker{l: l, left: n, also: also, done: make(chan struct{})}
	on(t, l, k.Run)
	return k.done
}

func kept(t *testing.T, l *reactor.Loop) (n uint64) {
	on(t, l, func() { n = l.Stats().Kept })
	return n
}

func TestALoopThatIsWokenOftenKeepsItsProcessor(t *testing.T) {
	l := newLoops(t, 1)[0]
	before := kept(t, l)
	receive(t, ticks(t, l, 300, nil), "the last tick")
	if kept(t, l) == before {
		t.Error("each time that it slept it gave its processor away")
	}
}

func TestALoopThatGoroutinesPostToGivesItsProcessorAway(t *testing.T) {
	l := newLoops(t, 1)[0]
	before := kept(t, l)
	receive(t, ticks(t, l, 300, func() { l.Post(func() {}) }), "the last tick")
	if n := kept(t, l) - before; n > 0 {
		t.Errorf("it kept its processor %d times", n)
	}
}

// With one processor a goroutine gets none but the loop's, and to stop the world is to stop the loop.
func TestALoopThatKeepsItsProcessorCanBeStopped(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l := newLoops(t, 1)[0]
	done := ticks(t, l, 500, nil)
	for range 20 {
		runtime.GC()
		runtime.Gosched()
	}
	receive(t, done, "the last tick")
}
