package top

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"plimsoll/internal/hist"
	"plimsoll/internal/loadline"
)

const (
	// confidence is that of the load line's intervals.
	confidence = 0.95
	// unmatched is what the gateway calls the route of what no route matches.
	unmatched = "none"
	// burnWindow is the window of the objective that is shown.
	burnWindow = "1h"
)

// compare makes the figures of the time between two samples. loops is what the loops did
// meanwhile, and nil when nobody watched them.
func compare(before, after *sample, loops []loopSample) *Figures {
	f := &Figures{
		Taken: after.routesAt, Length: after.routesAt.Sub(before.routesAt).Seconds(),
		Upstreams: []Upstream{}, Routes: []Route{},
	}
	routes := index(before.routes, func(r *routeSample) string { return r.Name })
	upstreams := index(before.upstreams, func(u *upstreamSample) string { return u.Name })
	if begunAnew(routes, upstreams, after) {
		f.Notes = append(f.Notes, "the gateway started again: rates follow after the next interval")
		clear(routes)
		clear(upstreams)
	}
	blind := false
	for i := range after.routes {
		now := &after.routes[i]
		if now.Name == unmatched && now.Class == "" && now.Requests == 0 {
			continue
		}
		r := routeFigures(routes[now.Name], now, f.Length)
		r.Busy = busyOf(after.line, now.Name)
		f.Routes = append(f.Routes, r)
		blind = blind || now.Requests > 0 && len(now.Cells) == 0
	}
	length := after.upstreamsAt.Sub(before.upstreamsAt).Seconds()
	for i := range after.upstreams {
		now := &after.upstreams[i]
		u := upstreamFigures(upstreams[now.Name], now, length)
		u.Headroom = headroomOf(after.line, now.Name)
		f.Upstreams = append(f.Upstreams, u)
		blind = blind || now.Requests > 0 && len(now.Cells) == 0
	}
	if blind {
		f.Notes = append(f.Notes,
			"this gateway's admin API gives no histograms: percentiles are not known")
	}
	f.Gateway = instance(after, loops)
	return f
}

// begunAnew says that counts fell, so that the samples are of two processes.
func begunAnew(
	routes map[string]*routeSample, upstreams map[string]*upstreamSample, after *sample,
) bool {
	for _, now := range after.routes {
		if then := routes[now.Name]; then != nil && then.Requests > now.Requests {
			return true
		}
	}
	for _, now := range after.upstreams {
		if then := upstreams[now.Name]; then != nil && then.Requests > now.Requests {
			return true
		}
	}
	return false
}

// index is a list by its names. Of two with one name the first counts.
func index[T any](list []T, nameOf func(*T) string) map[string]*T {
	by := make(map[string]*T, len(list))
	for i := range list {
		if name := nameOf(&list[i]); by[name] == nil {
			by[name] = &list[i]
		}
	}
	return by
}

// rate is how many a second were added to a count. One that fell, as a limit's does when a reload
// replaces it, began at 0.
func rate(then, now uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(added(then, now)) / seconds
}

func added(then, now uint64) uint64 {
	if then > now {
		return now
	}
	return now - then
}

// errorShare is the share of 5xx among what was answered since; nil where that is nothing.
func errorShare(then, now map[string]uint64) *float64 {
	all := uint64(0)
	for code, n := range now {
		all += added(then[code], n)
	}
	if all == 0 {
		return nil
	}
	share := float64(added(then["5xx"], now["5xx"])) / float64(all)
	return &share
}

func routeFigures(then, now *routeSample, seconds float64) Route {
	r := Route{Name: now.Name, Class: now.Class}
	if now.SLO != nil {
		for _, w := range now.SLO.Windows {
			if w.Window == burnWindow && w.Requests > 0 {
				r.Burn = &w.Burn
			}
		}
	}
	limits := now.Policies.Limits.Limits
	for i := range limits {
		r.Limits = append(r.Limits, Limit{
			Name: limits[i].Name, Rate: limits[i].Rate,
			Changed: limits[i].Changed, DryRun: limits[i].DryRun,
		})
	}
	c := now.Policies.Concurrency
	if c != nil {
		r.Concurrency = &Concurrency{InFlight: c.UnderWay, Limit: c.Max, LimitPerValue: c.MaxPerValue}
	}
	if then == nil {
		return r
	}
	if old := then.Policies.Concurrency; c != nil && old != nil {
		r.Concurrency.Refused = new(rate(old.RouteFull+old.ClientFull, c.RouteFull+c.ClientFull, seconds))
	}
	r.Rate = new(rate(then.Requests, now.Requests, seconds))
	r.Response = percentiles(then.Cells, now.Cells)
	r.Errors = errorShare(then.Codes, now.Codes)
	for _, reason := range slices.Sorted(maps.Keys(now.Refused)) {
		if n := rate(then.Refused[reason], now.Refused[reason], seconds); n > 0 {
			r.Refused = append(r.Refused, Refusal{reason, n})
		}
	}
	slices.SortStableFunc(r.Refused, func(a, b Refusal) int { return cmp.Compare(b.Rate, a.Rate) })
	old := index(then.Policies.Limits.Limits, func(l *limitSample) string { return l.Name })
	for i := range limits {
		old := old[limits[i].Name]
		if old == nil {
			continue
		}
		r.Limits[i].Allowed = new(rate(old.Allowed, limits[i].Allowed, seconds))
		r.Limits[i].Refused = new(rate(old.Refused+old.WouldRefuse,
			limits[i].Refused+limits[i].WouldRefuse, seconds))
	}
	return r
}

func upstreamFigures(then, now *upstreamSample, seconds float64) Upstream {
	u := Upstream{
		Name: now.Name, InFlight: now.Outstanding, Waiting: now.Waiting, Breakers: now.Breakers,
		States: now.States, Up: now.States["up"], Panicking: now.Panicking,
	}
	for _, n := range now.States {
		u.Targets += n
	}
	if now.Concurrency != nil {
		u.Limit = &now.Concurrency.Limit
	}
	if all := now.MaxConcurrency; all != nil && (u.Limit == nil || all.Limit < *u.Limit) {
		u.Limit = &all.Limit
	}
	if then == nil {
		return u
	}
	u.Rate = new(rate(then.Requests, now.Requests, seconds))
	u.Response = percentiles(then.Cells, now.Cells)
	u.Errors = errorShare(then.Codes, now.Codes)
	return u
}

// instance is the gateway as a whole. Its rate is what the loops say: routes may share counters.
func instance(s *sample, loops []loopSample) Instance {
	g := Instance{State: s.ready.State, Lacks: s.ready.Lacks}
	if loops != nil {
		g.Rate, g.InFlight = new(0.0), new(int64(0))
	}
	for _, l := range loops {
		*g.Rate += l.Requests
		*g.InFlight += l.InFlight
		g.Loops = append(g.Loops, Loop{l.Loop, l.Busy, l.Requests})
	}
	switch {
	case s.line == nil:
		g.Why = "this gateway has no estimate"
	case s.line.Headroom != nil:
		g.Headroom.Headroom, g.Limit = intervalOf(s.line.Headroom), s.line.Limit
		for _, e := range slices.Concat(s.line.Instance, s.line.Upstreams) {
			if e.Name == s.line.Limit {
				g.Age = new(e.Age)
				break
			}
		}
	default:
		g.Why = "nothing is known yet"
		for _, e := range s.line.Instance {
			if e.Why != "" {
				g.Why = e.Why
				break
			}
		}
	}
	return g
}

// headroomOf is that of an upstream.
func headroomOf(s *loadline.Status, upstream string) Headroom {
	if s == nil {
		return Headroom{Why: "this gateway has no estimate"}
	}
	i := slices.IndexFunc(s.Upstreams, func(e loadline.Estimate) bool { return e.Name == upstream })
	if i < 0 {
		return Headroom{Why: "the gateway has no estimate of it"}
	}
	e := &s.Upstreams[i]
	if e.Headroom == nil {
		return Headroom{Why: cmp.Or(e.Why, "nothing is known yet")}
	}
	return Headroom{Headroom: intervalOf(e.Headroom), Age: new(e.Age)}
}

// busyOf is what a request of a route costs; nil where that is not known.
func busyOf(s *loadline.Status, route string) *Interval {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.Routes, func(c loadline.RouteCost) bool { return c.Name == route })
	if i < 0 {
		return nil
	}
	return intervalOf(&s.Routes[i].Busy)
}

func intervalOf(i *loadline.Interval) *Interval {
	return &Interval{Low: i.Low, Estimate: i.Estimate, High: i.High, Confidence: confidence}
}

// percentiles are those of what was added to a histogram; nil where that is nothing, or where the
// two do not fit together.
func percentiles(then, now []hist.Cell) *Percentiles {
	type edges struct{ from, to int64 }
	old := make(map[edges]uint64, len(then))
	for _, c := range then {
		old[edges{c.FromNS, c.ToNS}] = c.Count
	}
	between, all := make([]hist.Cell, 0, len(now)), uint64(0)
	for _, c := range now {
		n := old[edges{c.FromNS, c.ToNS}]
		if n > c.Count {
			return nil
		}
		if n < c.Count {
			c.Count -= n
			between = append(between, c)
			all += c.Count
		}
	}
	if all == 0 {
		return nil
	}
	slices.SortFunc(between, func(a, b hist.Cell) int { return cmp.Compare(a.FromNS, b.FromNS) })
	millis := func(q float64) float64 { return math.Round(quantile(between, all, q)/1e3) / 1e3 }
	return &Percentiles{P50: millis(.5), P99: millis(.99)}
}

// quantile is the duration in nanoseconds that a share q of those in cells does not exceed. It is
// exact to the cell, and interpolated within it.
func quantile(cells []hist.Cell, all uint64, q float64) float64 {
	rank, below := q*float64(all), 0.0
	for i, c := range cells {
		if n := float64(c.Count); below+n < rank && i < len(cells)-1 {
			below += n
			continue
		}
		within := max(0, min(1, (rank-below)/float64(c.Count)))
		return float64(c.FromNS) + within*float64(max(c.ToNS, c.FromNS)-c.FromNS)
	}
	return 0
}
