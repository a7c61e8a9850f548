package kernel

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

func TestEventsAreThoseOfAllDescendants(t *testing.T) {
	e := startEcho(t)
	read, ok := open(t, e.shell.Process.Pid)
	if !ok {
		return
	}
	before := read()
	after := before
	// One that is answered at once need not wait each time.
	until(t, "the child has waited 100 times", func() bool {
		e.trip(t)
		after = read()
		return after["perf.context_switches"] >= before["perf.context_switches"]+100
	})
	if after["perf.task_clock_seconds"] <= before["perf.task_clock_seconds"] {
		t.Error("it has used no processor time")
	}
}

func TestProcessesThatAreMadeLaterCountAlsoWhenTheyHaveEnded(t *testing.T) {
	e := start(t, "sh")
	read, ok := open(t, e.shell.Process.Pid)
	if !ok {
		return
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	// What the kernel itself says of a process and of its children that have ended.
	faults := func() float64 {
		stat, err := statOf(proc, e.shell.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return float64(stat.MinFlt + stat.CMinFlt)
	}
	before, want := read(), faults()
	e.ask(t, "for i in 1 2 3 4 5; do dd if=/dev/zero of=/dev/null bs=1M count=4 2>/dev/null; done; echo\n", "\n")
	got := read()["perf.faults.minor"] - before["perf.faults.minor"]
	want = faults() - want
	// Those that the kernel takes for a process rather than the process itself, as when it starts,
	// are not events.
	if got < want/2 || got > want*1.1+10 {
		t.Errorf("%v faults are counted, and the kernel says %v", got, want)
	}
}

// The task clock goes on while the hypervisor or an interrupt has the processor, and the process's
// clock stands still: on a crowded virtual machine the one has been seen at twice the other.
func TestTheTaskClockIsTheProcessorTimeAndWhatWasTakenOfIt(t *testing.T) {
	read, ok := open(t, os.Getpid())
	if !ok {
		return
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	taken := func() float64 {
		stat, err := proc.Stat()
		if err != nil {
			t.Fatal(err)
		}
		return stat.CPUTotal.Steal + stat.CPUTotal.IRQ + stat.CPUTotal.SoftIRQ
	}
	clock := func() float64 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
			t.Fatal(err)
		}
		return float64(now.Nano()) / 1e9
	}
	lost, outer := taken(), clock()
	before := read()["perf.task_clock_seconds"]
	inner := clock()
	until(t, "300 ms of processor time are used", func() bool { return clock()-inner > .3 })
	inner = clock() - inner
	got := read()["perf.task_clock_seconds"] - before
	const tick = .01 // the step of what was taken, in seconds, on each processor
	outer, lost = clock()-outer, taken()-lost+tick*float64(runtime.NumCPU())
	if got < inner*.9 || got > outer*1.1+lost {
		t.Errorf("%v s; the process's clock says between %v and %v, and %v were taken", got, inner, outer, lost)
	}
}

func TestTooManyThreadsAreSaidAndNotCountedInPart(t *testing.T) {
	target, err := newTarget(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	if _, _, err := newEvents(target, 1); err == nil || err.Error() != "it has more than 1 threads" {
		t.Error(err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, and %d after", before, after)
	}
}

func TestWhereDescriptorsRunOutNoneIsKept(t *testing.T) {
	if _, ok := open(t, os.Getpid()); !ok {
		return
	}
	target, err := newTarget(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	threads, err := target.threads(maxThreads)
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	for want, limit := range map[string]uint64{"more than a quarter": 64,
		"too few descriptors": uint64(4 * len(events) * (len(threads) + 8))} {
		t.Run(want, func(t *testing.T) {
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: before.Max}); err != nil {
				t.Fatal(err)
			}
			defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
			var taken []int
			fd, err := unix.Dup(0)
			for ; err == nil; fd, err = unix.Dup(0) {
				taken = append(taken, fd)
			}
			defer func() {
				for _, fd := range taken {
					unix.Close(fd)
				}
			}()
			for range min(8, len(taken)) {
				unix.Close(taken[len(taken)-1])
				taken = taken[:len(taken)-1]
			}
			count := descriptors(t)
			if _, _, err := newEvents(target, maxThreads); err == nil ||
				!strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "ulimit -n") {
				t.Error(err)
			}
			if after := descriptors(t); after > count {
				t.Errorf("%d descriptors before, and %d after", count, after)
			}
		})
	}
}

func TestAnEventThatSharedItsCounterIsScaled(t *testing.T) {
	for _, c := range []struct {
		value, enabled, running uint64
		want                    float64
	}{{100, 50, 50, 100}, {100, 50, 25, 200}, {0, 50, 0, 0}, {7, 0, 0, 7}, {100, 50, 60, 100}} {
		if got := scaled(c.value, c.enabled, c.running); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
