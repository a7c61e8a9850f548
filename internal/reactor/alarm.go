package reactor

// An alarm is for work that must begin within tens of microseconds of its time, such as sending a
// request on schedule. The timer wheel is for thousands of deadlines that hardly ever pass, and its
// tick of 4.2 ms is far too coarse. So a loop has one alarm beside the wheel. The loop sleeps in
// the kernel until just before the alarm, then asks the poller again and again until its time has
// come, because waking up from sleep takes longer than an alarm may be late.

// spinBefore is how long before an alarm the loop stops sleeping, in nanoseconds. A thread that
// sleeps in epoll_pwait2 with a timer slack of 1 ns wakes up to about 50 µs late on an idle virtual
// machine. Spinning cannot make up for later wake-ups.
const spinBefore = 50_000

// alarm is the loop's one precise deadline.
type alarm struct {
	at   int64 // 0 when none is set
	what Runner
	fine bool // the thread's timer slack has been set to 1 ns
	lazy bool // see SleepThrough
}

// SetAlarm makes the loop run r as soon as Clock reaches at, and not before. It replaces any alarm
// that is set; a caller with several deadlines sets the next one when the first has come. The alarm
// is no longer set when r runs. Loop only. Time spent waiting for an alarm counts as Waited,
// although the CPU is in use for the last 50 µs of it.
func (l *Loop) SetAlarm(at int64, r Runner) {
	l.check()
	l.alarm.at, l.alarm.what = at, r
	if !l.alarm.fine {
		l.alarm.fine = true
		setTimerSlack(1)
	}
}

// SleepThrough makes the loop sleep until the alarm instead of spinning before it. Alarms are then
// about 50 µs late, and the processor is left to other programs: spinning takes 4 % of a core at a
// thousand alarms a second, and all of its idle time from 20,000 on.
func (l *Loop) SleepThrough() {
	l.check()
	l.alarm.lazy = true
}

// StopAlarm cancels the alarm.
func (l *Loop) StopAlarm() {
	l.check()
	l.alarm.at, l.alarm.what = 0, nil
}

// ring runs the alarm if its time has come.
func (l *Loop) ring() {
	if l.alarm.at == 0 || l.now < l.alarm.at {
		return
	}
	r := l.alarm.what
	l.alarm.at, l.alarm.what = 0, nil
	r.Run()
}

// sleepFor is how many nanoseconds the loop may sleep in the kernel (negative means for ever), and
// whether the alarm is so close that the loop must spin instead.
func (l *Loop) sleepFor() (ns int64, spin bool) {
	ns = l.timers.until(l.now)
	if l.alarm.at == 0 {
		return ns, false
	}
	left := l.alarm.at - l.now
	switch {
	case !l.alarm.lazy && left <= spinBefore:
		return 0, true
	case !l.alarm.lazy:
		left -= spinBefore
	}
	left = max(left, 0)
	if ns < 0 || left < ns {
		return left, false
	}
	return ns, false
}

// spin polls until something is ready, a function is posted, or the alarm is due.
func (l *Loop) spin() int {
	for {
		n := l.poll.poll()
		l.now = Clock()
		if n > 0 || l.now >= l.alarm.at || l.pending.Load() {
			return n
		}
	}
}
