package reactor

import "time"

// work is what Backlog keeps between calls.
type work struct {
	cpu, busy  int64 // the thread's processor time, and the time in which the loop had work, at the last call
	used, took int64 // both in about the last second
}

// CPU is the processor time of the loop's thread in nanoseconds. It is a system call.
func (l *Loop) CPU() int64 {
	if model != nil {
		return model.CPU()
	}
	return ThreadCPU()
}

// Stretch is the ratio of elapsed time to processor time of the loop's work in about the last
// second. It is above 1 when other programs use the same processor.
func (l *Loop) Stretch() float64 {
	return float64(max(l.work.took, 1)) / float64(max(l.work.used, 1))
}

// Backlog is how long, in nanoseconds, events wait for the loop's work: the work done between the
// last two looks that found all that was ready, 0 if the loop slept. It is the processor time of
// that work multiplied by Stretch, but at most the elapsed time. The elapsed time alone is
// unsuitable: one time slice of another program is longer than the work of a quiet loop, and
// serving fewer requests does not shorten the wait for it. Loop only, once per turn; it makes a
// system call.
func (l *Loop) Backlog() int64 {
	if model != nil {
		return l.lag
	}
	b := &l.work
	cpu, busy := ThreadCPU(), l.now-l.stats.Waited
	used, took := cpu-b.cpu, busy-b.busy
	b.cpu, b.busy = cpu, busy
	b.used, b.took = b.used+used, b.took+max(took, used)
	if b.took > int64(time.Second) {
		b.used, b.took = b.used/2, b.took/2
	}
	return min(l.lag, int64(float64(used)*float64(b.took)/float64(max(b.used, 1))))
}
