package tier

import (
	"sync/atomic"

	"plimsoll/internal/redis"
)

// Bounds are the upper bounds of the histogram of look-up times, in seconds.
var Bounds = [...]float64{0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1}

type counters struct {
	lookups [Outcomes]atomic.Int64
	within  [len(Bounds) + 1]atomic.Uint64
	nanos   atomic.Int64

	written, dropped, tooLong, useless, unmarked, writeFailed, refused atomic.Int64
	locksTaken, locksAwaited, locksServed, locksFailed                 atomic.Int64
	purgesSent, purgesReceived, purgeFailed, forgotten, lost           atomic.Int64
	subscribed                                                         atomic.Bool
}

func (c *counters) time(nanos int64) {
	seconds, i := float64(nanos)/1e9, 0
	for i < len(Bounds) && seconds > Bounds[i] {
		i++
	}
	c.within[i].Add(1)
	c.nanos.Add(nanos)
}

// Stats are the counters of a tier since it was made, and its present state.
type Stats struct {
	Lookups [Outcomes]int64
	Times   []uint64 // number of look-ups by time: one for each of Bounds, and one for longer times
	Seconds float64  // of all look-ups together

	Written int64 // responses
	// Responses that were not written: because the queue was full, they were too long, they are never
	// fresh or no longer, Redis has not said yet what was purged, it did not answer, or it did not
	// take them, as when it is full.
	Dropped, TooLong, Useless, Unmarked, Failed, Refused int64

	QueueBytes int64

	LocksTaken   int64
	LocksAwaited int64 // of others, of which:
	LocksServed  int64 // brought what was waited for
	LocksFailed  int64 // Redis did not answer

	PurgesSent     int64
	PurgesReceived int64 // from other instances
	PurgesFailed   int64 // failed calls, which are repeated
	PurgesWaiting  int64 // to be sent
	Forgotten      int64 // times that the memory was emptied, as others' purges were not known

	Subscribed bool // the instance is notified of purges at once
	Known      bool // the history of purges is known
	Lookup     redis.Status
	Writing    redis.Status
}

// Stats reads the counters.
func (t *Tier) Stats() Stats {
	c := &t.stats
	s := Stats{
		Seconds: float64(c.nanos.Load()) / 1e9,
		Written: c.written.Load(), Dropped: c.dropped.Load(), TooLong: c.tooLong.Load(),
		Useless:  c.useless.Load(),
		Unmarked: c.unmarked.Load(), Failed: c.writeFailed.Load(), Refused: c.refused.Load(),
		LocksTaken: c.locksTaken.Load(), LocksAwaited: c.locksAwaited.Load(),
		LocksServed: c.locksServed.Load(),
		LocksFailed: c.locksFailed.Load(),
		PurgesSent:  c.purgesSent.Load(), PurgesReceived: c.purgesReceived.Load(),
		PurgesFailed: c.purgeFailed.Load(), Forgotten: c.forgotten.Load(), Subscribed: c.subscribed.Load(),
		Known: t.Mark().Epoch != "", Lookup: t.reader.Status(), Writing: t.writer.Status(),
	}
	for i := range s.Lookups {
		s.Lookups[i] = c.lookups[i].Load()
	}
	for i := range c.within {
		s.Times = append(s.Times, c.within[i].Load())
	}
	t.queue.mu.Lock()
	s.QueueBytes = t.queue.bytes
	t.queue.mu.Unlock()
	waiting, _ := t.purges.before()
	s.PurgesWaiting = int64(len(waiting))
	return s
}
