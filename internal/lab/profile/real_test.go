package profile_test

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	lab "plimsoll/internal/lab/profile"
)

// spent returns the processor time of this process.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

//go:noinline
func burn(n uint64) (sum uint64) {
	for i := range n {
		sum += i * i
	}
	return sum
}

func TestARealProcessorProfileNamesWhatBurns(t *testing.T) {
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		t.Fatal(err)
	}
	for end := spent(t) + 300*time.Millisecond; spent(t) < end; {
		//lint:ignore SA4017 that it takes time is all that is wanted
		burn(1e6)
	}
	pprof.StopCPUProfile()
	p := parsed(t, out.Bytes())
	top := p.Top(lab.CPU, lab.FirstUser, 1)
	if len(top) != 1 || !strings.HasSuffix(top[0].Function, ".burn") || top[0].Share < .5 ||
		!strings.HasSuffix(top[0].File, "profile/real_test.go") || top[0].Line == 0 {
		t.Errorf("%+v", top)
	}
	if p.Total(lab.CPU) <= 0 || p.Seconds() <= 0 || !p.Rate(lab.CPU) {
		t.Errorf("%v processor seconds a second in %v s", p.Total(lab.CPU), p.Seconds())
	}
	root := p.Tree(lab.CPU)
	if !strings.Contains(drawn(root), ".burn ") {
		t.Error("what burns is not in the tree")
	}
	if sample := root.Grain * p.Seconds(); sample < .0099 || sample > .0101 {
		t.Errorf("a sample weighs %v s of processor time, and it is taken every 10 ms", sample)
	}
}

// written returns one of the runtime's own profiles.
func written(t *testing.T, name string) *lab.Profile {
	t.Helper()
	var out bytes.Buffer
	if err := pprof.Lookup(name).WriteTo(&out, 0); err != nil {
		t.Fatal(err)
	}
	return parsed(t, out.Bytes())
}

type till struct{ sync.Mutex }

// sell keeps others waiting.
func (s *till) sell() {
	s.Lock()
	defer s.Unlock()
	runtime.Gosched()
	//lint:ignore SA4017 that it takes time is all that is wanted
	burn(20_000)
}

func TestARealMutexProfileNamesWhoHeldTheLock(t *testing.T) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	var till till
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				till.sell()
			}
		})
	}
	all.Wait()
	p := written(t, "mutex")
	for _, kind := range []string{lab.Contentions, lab.Delay} {
		if top := p.Top(kind, lab.FirstUser, 1); len(top) != 1 || !strings.HasSuffix(top[0].Function, ".(*till).sell") {
			t.Errorf("%s: %+v", kind, top)
		}
	}
}

func parked(release <-chan struct{}, ready *sync.WaitGroup) {
	ready.Done()
	<-release
}

func TestARealGoroutineProfileCountsByWhatStartedThem(t *testing.T) {
	release := make(chan struct{})
	var ready, done sync.WaitGroup
	for range 500 {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			parked(release, &ready)
		}()
	}
	ready.Wait()
	p := written(t, "goroutine")
	close(release)
	done.Wait()
	total := p.Total(lab.Goroutine)
	top := p.Top(lab.Goroutine, lab.Started, 1)
	if len(top) != 1 || !strings.Contains(top[0].Function, "TestARealGoroutineProfile") ||
		top[0].Share*total < 499.5 || total < 501 || p.Rate(lab.Goroutine) {
		t.Errorf("%v goroutines, of which %+v", total, top)
	}
}

var kept [][]byte

func TestARealHeapProfileNamesWhoHolds(t *testing.T) {
	defer func(rate int) { runtime.MemProfileRate, kept = rate, nil }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	hoard()
	runtime.GC()
	p := written(t, "heap")
	top := p.Top(lab.InuseSpace, lab.FirstUser, 1)
	if len(top) != 1 || !strings.HasSuffix(top[0].Function, ".hoard") || top[0].Of != "of the live heap" {
		t.Errorf("%+v", top)
	}
}

//go:noinline
func hoard() {
	for range 64 {
		kept = append(kept, make([]byte, 1<<20))
	}
}
