package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// within calls do on a thread that has entered a network namespace, and returns from the namespace
// afterwards. A thread that cannot return is discarded, because it would run other goroutines.
// Other threads are kept, because the kernel kills children (Pdeathsig) when the thread that
// started them ends. It costs 30 µs (BenchmarkEntering).
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

// errNamespace is the error of a namespace that cannot be entered.
var errNamespace = errors.New("the target's network namespace cannot be entered")

func refusal(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: run as root", errNamespace)
	}
	return fmt.Errorf("%w: %w", errNamespace, err)
}

// onSpareThread calls do on a thread of its own. The thread ends afterwards unless do reports that
// it is clean. It is never the process's main thread, which cannot end, and whose namespace
// /proc/net of the whole process follows.
func onSpareThread(do func() (clean bool)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onSpareThread(do) // on another thread, because this goroutine holds the main one
			runtime.UnlockOSThread()
			return
		}
		if do() {
			runtime.UnlockOSThread()
		}
	}()
	<-done
}

// threadTime returns the processor time of the calling thread, in seconds.
func threadTime() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9
}
