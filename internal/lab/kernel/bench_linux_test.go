package kernel

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkPingPong is two threads on one processor that wake each other by pipes, which is nearly
// nothing but context switches: the worst that these probes can meet. "others" is what the
// scheduler's programs cost processes that are not the target.
func BenchmarkPingPong(b *testing.B) {
	for _, c := range []struct {
		name            string
		pid             int
		events, offTime bool
	}{{"without", os.Getpid(), false, false}, {"others", os.Getppid(), false, true}, {"offcpu", os.Getpid(), false, true},
		{"events", os.Getpid(), true, false}, {"both", os.Getpid(), true, true}} {
		b.Run(c.name, func(b *testing.B) {
			stop, trip := startPong(b)
			defer stop()
			target, err := newTarget(c.pid)
			if err != nil {
				b.Fatal(err)
			}
			if c.events {
				e, _, err := newEvents(target, maxThreads)
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
			}
			if c.offTime {
				o, err := newOffCPU(target)
				if err != nil {
					b.Fatal(err)
				}
				defer o.Close()
			}
			before := cpuTime(b)
			for b.Loop() {
				trip()
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is the processor time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// startPong starts a thread that sends back each byte; trip sends one from this thread and waits
// for it.
func startPong(b *testing.B) (stop, trip func()) {
	b.Helper()
	var there, back [2]int
	for _, pipe := range []*[2]int{&there, &back} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			b.Fatal(err)
		}
	}
	cpu := firstCPU(b)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and never unlocked: the thread, which is bound, ends with the goroutine
		if err := unix.SchedSetaffinity(0, cpu); err != nil {
			b.Error(err)
		}
		var one [1]byte
		for {
			if n, err := unix.Read(there[0], one[:]); n != 1 || err != nil {
				return
			}
			unix.Write(back[1], one[:])
		}
	}()
	runtime.LockOSThread()
	var before unix.CPUSet
	if err := errors.Join(unix.SchedGetaffinity(0, &before), unix.SchedSetaffinity(0, cpu)); err != nil {
		b.Fatal(err)
	}
	var one [1]byte
	trip = func() {
		unix.Write(there[1], one[:])
		unix.Read(back[0], one[:])
	}
	trip()
	return func() {
		unix.Close(there[1])
		<-ended
		unix.Close(there[0])
		unix.Close(back[0])
		unix.Close(back[1])
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			b.Error(err)
		}
		runtime.UnlockOSThread()
	}, trip
}

// BenchmarkRead is what a sample costs who takes it, with this process as the target.
func BenchmarkRead(b *testing.B) {
	sources, missing, shut := Open(os.Getpid())
	defer shut()
	if len(missing) > 1 {
		b.Log(missing)
	}
	values := make(map[string]float64)
	for _, s := range sources {
		b.Run(s.Name(), func(b *testing.B) {
			for b.Loop() {
				if err := s.Read(values); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen is what it takes to begin and to end.
func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _, shut := Open(os.Getpid())
		if err := shut(); err != nil {
			b.Fatal(err)
		}
	}
}
