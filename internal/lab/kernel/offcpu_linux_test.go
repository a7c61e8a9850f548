package kernel

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// rest waits until a tracked target of one thread is waiting, and returns the reading that shows
// it: its waiting time grows and its runnable time does not.
func rest(t *testing.T, read func() map[string]float64) (last map[string]float64) {
	t.Helper()
	until(t, "the target waits", func() bool {
		before := last
		last = read()
		return before != nil && last[measure.BPFOffCPUWaiting] > before[measure.BPFOffCPUWaiting] &&
			last[measure.BPFOffCPURunnable] == before[measure.BPFOffCPURunnable]
	})
	return last
}

func TestAThreadThatWaitsIsWaiting(t *testing.T) {
	e := startEcho(t)
	read, ok := open(t, e.shell.Process.Pid)
	if !ok {
		return
	}
	e.trip(t) // the child is known now that it leaves its processor
	rest(t, read)
	outer := time.Now()
	before := read()
	inner := time.Now()
	burn(30 * time.Millisecond)
	most := time.Since(inner).Seconds()
	after := read()
	waited := after[measure.BPFOffCPUWaiting] - before[measure.BPFOffCPUWaiting]
	// The shell has been waiting for its child since before the opening, so it is not tracked. One
	// thread waits all the time.
	if limit := time.Since(outer).Seconds(); waited < most-.001 || waited > limit+.001 {
		t.Errorf("it waited for %v s, and should have for %v to %v", waited, most, limit)
	}
	if late := after[measure.BPFOffCPURunnable] - before[measure.BPFOffCPURunnable]; late != 0 {
		t.Errorf("a thread that waits has been late by %v s", late)
	}
}

// firstCPU is the first processor that this thread may use.
func firstCPU(t testing.TB) *unix.CPUSet {
	t.Helper()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	return &one
}

// occupy keeps one processor busy until the test ends, and returns it. Threads bound to it must
// wait for it.
func occupy(t *testing.T) *unix.CPUSet {
	t.Helper()
	one := firstCPU(t)
	var stop atomic.Bool
	bound, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and never unlocked: the thread, which is bound, ends with the goroutine
		bound <- unix.SchedSetaffinity(0, one)
		for !stop.Load() {
			continue
		}
	}()
	t.Cleanup(func() {
		stop.Store(true)
		<-ended
	})
	if err := <-bound; err != nil {
		t.Fatal(err)
	}
	return one
}

// runDelay is how many seconds a process of one thread could run and had no processor, as the
// kernel itself says.
func runDelay(t *testing.T, pid int) (late float64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var on float64
	if _, err := fmt.Sscan(string(text), &on, &late); err != nil {
		t.Fatal(err)
	}
	return late / 1e9
}

func TestWhoHasToWaitForAProcessorIsLateByWhatTheKernelSays(t *testing.T) {
	for name, c := range map[string]struct {
		policy uint32
		work   func(t *testing.T, e *echo)
	}{
		// It computes, and is put off now and again.
		"preempted": {unix.SCHED_NORMAL, func(t *testing.T, e *echo) {
			e.ask(t, "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo\n", "\n")
		}},
		// It is woken often, and never runs at once: its policy lets all others go first.
		"woken": {unix.SCHED_IDLE, func(t *testing.T, e *echo) { e.ask(t, "echo\n", "\n") }},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, "sh")
			pid := e.shell.Process.Pid
			read, ok := open(t, pid)
			if !ok {
				return
			}
			if err := unix.SchedSetaffinity(pid, occupy(t)); err != nil {
				t.Fatal(err)
			}
			if err := unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: c.policy}, 0); err != nil {
				t.Fatal(err)
			}
			e.ask(t, "echo\n", "\n") // it is tracked once it has left its processor
			// After its answer it may still have to wait for a processor, so the kernel is read
			// before and after.
			first, before, second := runDelay(t, pid), rest(t, read)[measure.BPFOffCPURunnable], runDelay(t, pid)
			var got, least, most float64
			until(t, "it is late", func() bool {
				c.work(t, e)
				least = runDelay(t, pid) - second
				got = rest(t, read)[measure.BPFOffCPURunnable] - before
				most = runDelay(t, pid) - first
				return least > .03
			})
			// On a crowded machine the two were seen to differ by a tenth.
			if got < least*.8-.002 || got > most*1.2+.002 {
				t.Errorf("late by %v s; the kernel says %v to %v", got, least, most)
			}
		})
	}
}

func TestAThreadThatEndsLeavesItsTimeAndNoEntry(t *testing.T) {
	target, err := newTarget(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	o, err := newOffCPU(target)
	if err != nil {
		open(t, os.Getpid()) // says whether this is because rights are missing
		return
	}
	defer o.Close()
	tids := make(chan int)
	wait := make(chan struct{})
	thread := func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		tids <- unix.Gettid()
		<-wait
	}
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			thread()
			return
		}
		// Go never ends a process's first thread: it is held until another one has begun.
		go thread()
		<-wait
		runtime.UnlockOSThread()
	}()
	tid := uint32(<-tids)
	threads := o.collection.Maps["threads"]
	var entry idle
	until(t, "the thread waits", func() bool { return threads.Lookup(tid, &entry) == nil && entry.Since != 0 && entry.Since&1 == 0 })
	burn(6 * time.Millisecond)
	values := make(map[string]float64)
	if err := o.Read(values); err != nil {
		t.Fatal(err)
	}
	before := values[measure.BPFOffCPUWaiting]
	close(wait)
	until(t, "the entry is gone", func() bool { return errors.Is(threads.Lookup(tid, &entry), ebpf.ErrKeyNotExist) })
	var ended idle
	if err := o.collection.Maps["ended"].Lookup(uint32(0), &ended); err != nil {
		t.Fatal(err)
	}
	// It has waited, except for the time for which it may have been runnable first.
	if sum := ended.Runnable + ended.Waiting; sum < 5e6 || ended.Waiting == 0 {
		t.Errorf("the thread that ended has left %+v, and was off its processor for 5 ms", ended)
	}
	if err := o.Read(values); err != nil || values[measure.BPFOffCPUWaiting] < before {
		t.Errorf("%v s of waiting before it ended, then %v, %v", before, values[measure.BPFOffCPUWaiting], err)
	}
}
