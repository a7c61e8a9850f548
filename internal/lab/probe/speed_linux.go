package probe

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// run looks until it is stopped. The thread ends with it.
func (s *Speed) run() {
	runtime.LockOSThread()
	p := pulse{times: s.times}
	began := time.Now()
	result := 0.0
	for !s.stopped.Load() {
		rest := unix.NsecToTimespec(pulseEvery.Nanoseconds())
		_ = unix.Nanosleep(&rest, nil) // a signal may end it early, which does no harm
		before, ok := threadClock()
		result += spin()
		after, still := threadClock()
		if ok && still {
			s.slowed.Add(p.look(time.Since(began).Nanoseconds(), after-before))
			s.looks.Add(1)
		}
	}
	runtime.KeepAlive(result)
}

// threadClock returns the processor time of the calling thread in nanoseconds.
func threadClock() (ns int64, ok bool) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return t.Nano(), err == nil
}
