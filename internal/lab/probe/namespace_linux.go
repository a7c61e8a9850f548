package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// within calls do on a thread that has entered a network namespace, and returns from it afterwards.
// A thread that could not be brought back would serve other goroutines, so it is thrown away; the
// others are not, as the kernel ends children (Pdeathsig) with the thread that started them. It
// costs 30 µs (BenchmarkEntering).
func within(namespace string, do func() error) (err error) {
	onSpareThread(func() (clean bool) {
		own, failed := os.Open("/proc/thread-self/ns/net")
		if failed != nil {
			err = refusal(failed)
			return true
		}
		defer own.Close()
		file, failed := os.Open(namespace)
		if failed != nil {
			err = refusal(failed)
			return true
		}
		defer file.Close()
		if failed := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); failed != nil {
			err = refusal(failed)
			return true
		}
		err = do()
		return unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil
	})
	return err
}

// errNamespace is that of a namespace which cannot be entered.
var errNamespace = errors.New("the target's network namespace cannot be entered")

func refusal(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: run as root", errNamespace)
	}
	return fmt.Errorf("%w: %w", errNamespace, err)
}

// onSpareThread calls do on a thread that serves nothing else meanwhile, and that ends with it
// unless it says that the thread is clean. It is never the process's first one: that one cannot
// end, and /proc/net of the whole process follows it.
func onSpareThread(do func() (clean bool)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onSpareThread(do) // on another one, as this goroutine holds the first
			runtime.UnlockOSThread()
			return
		}
		if do() {
			runtime.UnlockOSThread()
		}
	}()
	<-done
}

// threadTime is the processor time in seconds of the calling thread.
func threadTime() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9
}
