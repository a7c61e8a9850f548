package reactor

import "time"

// work is what Backlog has seen.
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

// Stretch is how many times longer than its processor time the loop's work of about the last second
// took, as other programs on the processor had a part of it.
func (l *Loop) Stretch() float64 {
	return float64(max(l.work.took, 1)) / float64(max(l.work.used, 1))
}

// Backlog is how long, in nanoseconds, the work that this turn has found keeps others waiting: what
// was done between two looks at all that is ready, or none where the loop slept. It is the processor
// time of that work, stretched as other programs on the processor have stretched the loop's work of
// about the last second. The time itself would not do: one slice of another program is longer than
// the work of a quiet loop, and those who waited for it wait no less when less is served. Loop only,
// once in a turn; it is a system call.
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
