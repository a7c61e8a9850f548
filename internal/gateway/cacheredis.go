package gateway

import (
	"plimsoll/internal/policy/cache/tier"
	"plimsoll/internal/telemetry"
)

// Indexes of the series about the cache's second tier.
const (
	seriesTierLookups = iota
	seriesTierTimes
	seriesTierWrites
	seriesTierQueue
	seriesTierLocks
	seriesTierPurges
	seriesTierWaiting
	seriesTierForgotten
	seriesTierSubscribed
	seriesTierBreaker
)

var tierSeries = []telemetry.Series{
	seriesTierLookups: {Name: "cache_redis_lookups_total",
		Help: "Look-ups of the cache in Redis: hit, or why it was a miss.", Labels: []string{"result"}},
	seriesTierTimes: {Name: "cache_redis_lookup_seconds", Bounds: tier.Bounds[:],
		Help: "Time that look-ups of the cache in Redis took."},
	seriesTierWrites: {Name: "cache_redis_writes_total",
		Help: "Responses that were to be written to Redis: written, or why not.", Labels: []string{"result"}},
	seriesTierQueue: {Name: "cache_redis_queue_bytes", Help: "Responses that wait to be written to Redis."},
	seriesTierLocks: {Name: "cache_redis_locks_total",
		Help: "Locks of keys that were fetched: taken, awaited of another instance, of these served by it, " +
			"and not had because of Redis (error).",
		Labels: []string{"result"}},
	seriesTierPurges: {Name: "cache_redis_purges_total",
		Help: "Purges that this instance has sent to Redis and received from others, and calls that " +
			"failed and are made again.",
		Labels: []string{"result"}},
	seriesTierWaiting: {Name: "cache_redis_purges_waiting",
		Help: "Purges of this instance that Redis does not have yet."},
	seriesTierForgotten: {Name: "cache_redis_forgotten_total",
		Help: "Times that the memory was emptied because what others have purged could not be found out."},
	seriesTierSubscribed: {Name: "cache_redis_subscribed",
		Help: "1 while the instance hears of the purges of others at once."},
	seriesTierBreaker: {Name: "cache_redis_breaker",
		Help:   "1 for the state of the breaker of look-ups, and of writing.",
		Labels: []string{"calls", "state"}},
}

// readTierTimes reads how long look-ups took.
func (g *Gateway) readTierTimes(emit telemetry.EmitHistogram) {
	if m := g.view().memory; m != nil && m.Tier() != nil {
		s := m.Tier().Stats()
		emit(seriesTierTimes, s.Times, s.Seconds)
	}
}

func (g *Gateway) readTier(emit telemetry.Emit) {
	m := g.view().memory
	if m == nil || m.Tier() == nil {
		return
	}
	s := m.Tier().Stats()
	for outcome, n := range s.Lookups {
		emit(seriesTierLookups, float64(n), tier.Outcome(outcome).Label())
	}
	for _, one := range []struct {
		series int
		result string
		count  int64
	}{
		{seriesTierWrites, "written", s.Written}, {seriesTierWrites, "dropped", s.Dropped},
		{seriesTierWrites, "too_long", s.TooLong}, {seriesTierWrites, "never_fresh", s.Useless},
		{seriesTierWrites, "not_connected", s.Unmarked}, {seriesTierWrites, "error", s.Failed},
		{seriesTierWrites, "refused", s.Refused},
		{seriesTierLocks, "taken", s.LocksTaken}, {seriesTierLocks, "awaited", s.LocksAwaited},
		{seriesTierLocks, "served", s.LocksServed}, {seriesTierLocks, "error", s.LocksFailed},
		{seriesTierPurges, "sent", s.PurgesSent}, {seriesTierPurges, "received", s.PurgesReceived},
		{seriesTierPurges, "failed", s.PurgesFailed},
	} {
		emit(one.series, float64(one.count), one.result)
	}
	emit(seriesTierQueue, float64(s.QueueBytes))
	emit(seriesTierWaiting, float64(s.PurgesWaiting))
	emit(seriesTierForgotten, float64(s.Forgotten))
	subscribed := 0.0
	if s.Subscribed {
		subscribed = 1
	}
	emit(seriesTierSubscribed, subscribed)
	emit(seriesTierBreaker, 1, "lookups", s.Lookup.Breaker)
	emit(seriesTierBreaker, 1, "writes", s.Writing.Breaker)
}
