package cache

import (
	"sync/atomic"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
)

// counters are the counters of one loop. Only that loop writes them; any goroutine may read them.
type counters struct {
	fresh, second, early, coalesced, revalidated, fetches, failed, stored atomic.Uint64
	refused, late, tooMany, invalidated, shared                           atomic.Uint64

	missed, passed, stale, notStored [rules.Reasons]atomic.Uint64

	ages    spread // ages of served responses
	fetched spread // how long fetches took until the response's head
}

// spread is a histogram of one loop.
type spread struct {
	counts [maxBounds + 1]atomic.Uint64
	micros atomic.Uint64 // sum of all values
}

// maxBounds is the length of the longest list of bounds.
const maxBounds = 12

// The upper bounds of spreads, in seconds.
var (
	ageBounds   = []float64{1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}
	fetchBounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}
)

// add counts a time in nanoseconds. Loop only.
func (s *spread) add(bounds []float64, nanos int64) {
	nanos = max(nanos, 0)
	seconds, i := float64(nanos)/1e9, 0
	for i < len(bounds) && seconds > bounds[i] {
		i++
	}
	s.counts[i].Store(s.counts[i].Load() + 1)
	s.micros.Store(s.micros.Load() + uint64(nanos/1e3))
}

// count adds one. A load and a store suffice, because only the loop writes.
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
	seriesFetchTime
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
	seriesAge: {Name: "cache_served_age_seconds", Bounds: ageBounds,
		Help: "How old answers from the cache are."},
	seriesSaved: {Name: "cache_saved_total",
		Help: "Requests that were answered without one to the upstream of their own: from what is stored, " +
			"or by the fetch of another one."},
	seriesFetchTime: {Name: "cache_fetch_seconds", Bounds: fetchBounds,
		Help: "Time from the begin of a fetch until the upstream's response had begun."},
}

// Histograms implements exchange.Measured.
func (p *Policy) Histograms(emit func(series int, counts []uint64, sum float64, labels ...string)) {
	for _, h := range []struct {
		series int
		bounds []float64
		of     func(*part) *spread
	}{
		{seriesAge, ageBounds, func(w *part) *spread { return &w.ages }},
		{seriesFetchTime, fetchBounds, func(w *part) *spread { return &w.fetched }},
	} {
		counts, micros := make([]uint64, len(h.bounds)+1), uint64(0)
		for i := range p.state.parts {
			s := h.of(&p.state.parts[i])
			for b := range counts {
				counts[b] += s.counts[b].Load()
			}
			micros += s.micros.Load()
		}
		emit(h.series, counts, float64(micros)/1e6)
	}
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
			if why != rules.Failed { // for that, the upstream was asked
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
}
