package reactor

import "time"

const (
	// briefly is for how many nanoseconds a sleeping loop keeps its processor (P) of the Go
	// scheduler.
	briefly = int64(2 * time.Millisecond)
	// alone is after how many nanoseconds without posts a loop counts as having no goroutines that
	// need its processor.
	alone = int64(100 * time.Millisecond)
)

// sleep waits for at most ns nanoseconds, for ever when ns is negative. It returns how many events
// are ready.
//
// A loop never goes through the Go scheduler. Once the loop has run for 10 ms, the scheduler's
// monitor (sysmon) takes its P away in any system call of more than 20 µs that it sees. After each
// time that it has taken one, it looks every 20 µs again for the next millisecond. At 5,000
// requests a second this took a tenth of the gateway's processor time. So a loop whose last sleep
// was short first sleeps in a raw system call, which the monitor does not see. A loop that
// goroutines post to does not, because goroutines, such as TLS handshakes, may be waiting for a P.
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
