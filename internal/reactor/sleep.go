package reactor

import "time"

const (
	// briefly is for how long a loop keeps its processor of the Go scheduler while it sleeps.
	briefly = int64(2 * time.Millisecond)
	// alone is how long ago posts were run last by a loop that has no goroutines beside it.
	alone = int64(100 * time.Millisecond)
)

// sleep waits for at most so many nanoseconds, for ever when negative.
//
// A loop never goes through the Go scheduler, which takes the processor (P) away from it in any
// system call of more than 20 microseconds that it comes to see, once the loop has run for ten
// milliseconds. And after each time that it has taken one, the scheduler's monitor looks every 20
// microseconds again for the next millisecond. With 5,000 requests a second a tenth of the
// gateway's processor time went into that. So a loop that was woken soon the last time first sleeps
// where the monitor sees no system call. One that goroutines post to does not: they may wait for a
// processor, as TLS handshakes do.
func (l *Loop) sleep(ns int64) int {
	if l.woken && l.now-l.posted >= alone {
		first := briefly
		if ns >= 0 {
			first = min(first, ns)
		}
		l.stats.Kept++
		n, over := l.poll.waitBriefly(first)
		if !over || first == ns {
			return n
		}
		if ns >= 0 {
			ns -= first
		}
	}
	return l.poll.wait(ns)
}
