package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/measure"
)

// thread writes what /proc shows of a thread; ticks is the processor time that it has used.
func (f *fakeProc) thread(pid, tid int, state, channel, call string, ticks int) {
	dir := fmt.Sprintf("%d/task/%d", pid, tid)
	f.write(dir+"/stat", fmt.Sprintf("%d (x) %s 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 5 0 9%s\n",
		tid, state, ticks, strings.Repeat(" 0", 28)))
	f.write(dir+"/wchan", channel)
	f.write(dir+"/syscall", call)
}

func TestThreadsAreCountedByWhereTheyWaitAndTheBusiestIsTold(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "a", threads: 9, start: 5})
	f.process(process{pid: 30, parent: 20, name: "b", threads: 1, start: 6})
	put := func(hot, warm int) {
		f.thread(20, 20, "R", "0", "running", hot)
		f.thread(20, 21, "S", "futex_do_wait", "202 0x0", warm)
		f.thread(20, 22, "S", "ep_poll", "", 7)
		f.thread(20, 23, "S", "sk_wait_data", "", 7)
		f.thread(20, 24, "D", "folio_wait_bit_common", "", 7)
		f.thread(20, 25, "S", "something_new", "", 7)
		f.thread(20, 26, "S", "0", "281 0x4 0x7f", 7) // epoll_pwait on amd64
		f.thread(20, 27, "S", "hrtimer_nanosleep", "", 7)
		f.thread(20, 28, "S", "do_wait", "", 7)
		f.thread(30, 30, "S", "inet_csk_accept", "", 7)
	}
	put(100, 50)
	s := New(Options{Root: f.root, PID: 20})
	threads := s.sources[findThreads(t, s)].(*threads)
	clock := time.Unix(1000, 0)
	threads.now = func() time.Time { return clock }
	first := s.Sample(0).Values
	if _, there := first["target.threads.hottest_share"]; there {
		t.Error("one look does not tell what was used in between")
	}
	put(300, 70)
	clock = clock.Add(2 * time.Second)
	got := s.Sample(1).Values
	for name, want := range map[string]float64{
		"hottest_share": 1, "full": 1, "running": 1, "waiting.futex": 1,
		"waiting.socket_read": 1, "waiting.disk": 1, "waiting.sleep": 1, "waiting.accept": 1,
		"waiting.pipe": 0,
	} {
		if got["target.threads."+name] != want {
			t.Errorf("%s is %v, want %v", name, got["target.threads."+name], want)
		}
	}
	if events, other := got["target.threads.waiting.events"],
		got["target.threads.waiting.other"]; events+other != 4 || events < 1 {
		t.Errorf("%v wait for events and %v for something else", events, other)
	}
}

func findThreads(t *testing.T, s *Sampler) int {
	t.Helper()
	for i, source := range s.sources {
		if _, is := source.(*threads); is {
			return i
		}
	}
	t.Fatal("threads are not looked at")
	return 0
}

func TestThreadsThatMayNotBeLookedAtAreSaidAndTheirUseIsTold(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "a", start: 5})
	f.thread(20, 20, "S", "0", "", 7)
	s := New(Options{Root: f.root, PID: 20})
	got := s.Sample(0).Values
	if _, there := got["target.threads.waiting.other"]; there ||
		!strings.Contains(strings.Join(s.NotMeasured(), "\n"), "run as the same user") {
		t.Errorf("%v, %q", got, s.NotMeasured())
	}
}

func TestThreadsAreFoldedByNameAndPlaceAndTheirTimeIsAddedUpByName(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "java", threads: 3, start: 5})
	start := 5
	put := func(tid int, name, channel string, ticks int) {
		f.thread(20, tid, "S", channel, "7 0x0", ticks)
		f.write(fmt.Sprintf("20/task/%d/stat", tid), fmt.Sprintf(
			"%d (%s) S 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 %d 0 9%s\n", tid, name, ticks, start,
			strings.Repeat(" 0", 28)))
	}
	put(21, "GC Thread#0", "futex_do_wait", 100)
	put(22, "GC Thread#1", "futex_do_wait", 100)
	put(23, "libuv-worker", "poll_schedule_timeout.constprop.0", 0)
	s := New(Options{Root: f.root, PID: 20})
	s.Sample(0)
	put(21, "GC Thread#0", "futex_do_wait", 130)
	put(22, "GC Thread#1", "futex_do_wait", 150)
	start = 6
	put(24, "GC Thread#2", "futex_do_wait", 20) // it began in between
	if err := os.RemoveAll(filepath.Join(f.root, "20/task/23")); err != nil {
		t.Fatal(err)
	}
	s.sources[findThreads(t, s)].(*threads).next = time.Time{}
	got := s.Sample(1).Values
	if used := got[measure.ThreadsCPU+"GC Thread"]; used < .999 || used > 1.001 {
		t.Errorf("the collector's threads have used %v s, want 1", used)
	}
	there, gone := 0.0, -1.0
	for name, n := range got {
		if strings.HasPrefix(name, measure.ThreadsAt+"GC Thread;futex;") {
			there += n
		}
		if strings.HasPrefix(name, measure.ThreadsAt+"libuv-worker;poll;") &&
			strings.HasSuffix(name, ";poll_schedule_timeout") {
			gone = n
		}
	}
	if there != 3 || gone != 0 {
		t.Errorf("%v of the collector's threads wait, want 3; %v of libuv's, want 0: %v",
			there, gone, got)
	}
}

func TestAThreadThatOneLookHasMissedIsNotNew(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "a", threads: 2, start: 5})
	f.thread(20, 20, "S", "ep_poll", "", 360_000)
	f.thread(20, 21, "S", "ep_poll", "", 1)
	s := New(Options{Root: f.root, PID: 20})
	threads := s.sources[findThreads(t, s)].(*threads)
	clock := time.Unix(1000, 0)
	threads.now = func() time.Time { return clock }
	look := func() map[string]float64 {
		threads.next, clock = time.Time{}, clock.Add(2*time.Second)
		return s.Sample(0).Values
	}
	look()
	tasks := filepath.Join(f.root, "20", "task")
	if err := os.Rename(tasks, tasks+"s"); err != nil {
		t.Fatal(err)
	}
	look()
	if err := os.Rename(tasks+"s", tasks); err != nil {
		t.Fatal(err)
	}
	f.thread(20, 21, "S", "ep_poll", "", 2)
	got := look()
	if used, hottest := got[measure.ThreadsCPU+"x"], got["target.threads.hottest_share"]; used > .1 || hottest > 1 {
		t.Errorf("its threads have used %v s, and the busiest had %v of a processor", used, hottest)
	}
}

func TestWhatAProcessOfPostgreSQLDoesIsReadFromItsTitle(t *testing.T) {
	for title, want := range map[string]string{
		"postgres: shop shop 127.0.0.1(5123) SELECT\x00":          "SELECT",
		"postgres: shop shop [local] idle in transaction\x00":     "idle in transaction",
		"postgres: main: shop shop ::1(5) UPDATE waiting\x00\x00": "UPDATE waiting",
		"postgres: checkpointer \x00":                             "",
		"/usr/bin/postgres\x00-D\x00x":                            "",
	} {
		if got := activity([]byte(title)); got != want {
			t.Errorf("%q does %q, want %q", title, got, want)
		}
	}
}

func TestARealThreadThatComputesIsTheBusiest(t *testing.T) {
	s := New(Options{PID: os.Getpid(), Alone: true})
	threads := s.sources[findThreads(t, s)].(*threads)
	s.Sample(0)
	stop := make(chan bool)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	defer close(stop)
	// However slow the machine is, it is a matter of time until a tick is used.
	for hot := 0.0; hot == 0; {
		threads.next = time.Time{}
		hot = s.Sample(1).Values["target.threads.hottest_share"]
	}
}
