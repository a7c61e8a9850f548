package cache

import (
	"sync/atomic"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
)

// counters are what one loop counts. Its words are written by that loop alone and read by anybody.
type counters struct {
	fresh, second, early, coalesced, revalidated, fetches, failed, stored atomic.Uint64
	refused, late, tooMany, invalidated, ages, shared                     atomic.Uint64

	missed, passed, stale, notStored [rules.Reasons]atomic.Uint64
}

// count adds one: a load and a store, since nobody else writes.
func (*counters) count(word *atomic.Uint64) { word.Store(word.Load() + 1) }

// Indexes of Series.
const (
	seriesRequests = iota
	seriesWaited
	seriesFetches
	seriesStored
	seriesInvalidated
	seriesAge
	seriesSaved
)

// Series are the metrics of a route's cache.
var Series = []exchange.Series{
	seriesRequests: {Name: "cache_requests_total",
		Help: "Requests by what the cache did: hit, stale (served although it was not fresh), miss " +
			"(fetched), " +
			"pass (sent on without the cache) or refused (only-if-cached); and why.",
		Labels: []string{"result", "reason"}},
	seriesWaited: {Name: "cache_waits_total",
		Help: "Requests that waited for the fetch of another one (joined), and those that waited " +
			"without success (late).",
		Labels: []string{"result"}},
	seriesFetches: {Name: "cache_fetches_total",
		Help: "Requests of the cache to the upstream: answered, revalidated (304), failed, or not made " +
			"because a loop had too many under way (refused); early counts those for what is still fresh.",
		Labels: []string{"result"}},
	seriesStored: {Name: "cache_responses_total",
		Help: "Responses to fetches: stored, or why not.", Labels: []string{"result", "reason"}},
	seriesInvalidated: {Name: "cache_invalidations_total",
		Help: "Requests whose answer outdated what was stored: unsafe ones, and HEAD."},
	seriesAge: {Name: "cache_served_age_seconds_total",
		Help: "The ages of all answers from the cache, added up."},
	seriesSaved: {Name: "cache_saved_total",
		Help: "Requests that were answered without one to the upstream of their own: from what is stored, " +
			"or by the fetch of another one."},
}

// Metrics implements exchange.Metered.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	sum := func(word func(*part) *atomic.Uint64) float64 {
		n := uint64(0)
		for i := range p.state.parts {
			n += word(&p.state.parts[i]).Load()
		}
		return float64(n)
	}
	emit(seriesRequests, sum(func(w *part) *atomic.Uint64 { return &w.fresh }), "hit", "fresh")
	emit(seriesRequests, sum(func(w *part) *atomic.Uint64 { return &w.second }), "hit", "redis")
	emit(seriesRequests, sum(func(w *part) *atomic.Uint64 { return &w.refused }), "refused", "only-if-cached")
	saved := sum(func(w *part) *atomic.Uint64 { return &w.fresh }) +
		sum(func(w *part) *atomic.Uint64 { return &w.second }) +
		sum(func(w *part) *atomic.Uint64 { return &w.shared })
	for why := rules.Reason(1); why < rules.Reasons; why++ {
		if n := sum(func(w *part) *atomic.Uint64 { return &w.stale[why] }); n > 0 {
			if why != rules.Failed { // which the upstream was asked for
				saved += n
			}
			emit(seriesRequests, n, "stale", why.Label())
		}
		if n := sum(func(w *part) *atomic.Uint64 { return &w.missed[why] }); n > 0 {
			emit(seriesRequests, n, "miss", why.Label())
		}
		if n := sum(func(w *part) *atomic.Uint64 { return &w.passed[why] }); n > 0 {
			emit(seriesRequests, n, "pass", why.Label())
		}
		if n := sum(func(w *part) *atomic.Uint64 { return &w.notStored[why] }); n > 0 {
			emit(seriesStored, n, "not_stored", why.Label())
		}
	}
	emit(seriesStored, sum(func(w *part) *atomic.Uint64 { return &w.stored }), "stored", "")
	emit(seriesWaited, sum(func(w *part) *atomic.Uint64 { return &w.coalesced }), "joined")
	emit(seriesWaited, sum(func(w *part) *atomic.Uint64 { return &w.late }), "late")
	emit(seriesFetches, sum(func(w *part) *atomic.Uint64 { return &w.fetches }), "answered")
	emit(seriesFetches, sum(func(w *part) *atomic.Uint64 { return &w.revalidated }), "revalidated")
	emit(seriesFetches, sum(func(w *part) *atomic.Uint64 { return &w.failed }), "failed")
	emit(seriesFetches, sum(func(w *part) *atomic.Uint64 { return &w.tooMany }), "refused")
	emit(seriesFetches, sum(func(w *part) *atomic.Uint64 { return &w.early }), "early")
	emit(seriesInvalidated, sum(func(w *part) *atomic.Uint64 { return &w.invalidated }))
	emit(seriesSaved, saved)
	emit(seriesAge, sum(func(w *part) *atomic.Uint64 { return &w.ages })/1e3)
}
