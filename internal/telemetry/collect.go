package telemetry

import (
	"sync/atomic"
	"time"
)

// Call runs f on a loop and returns when it has run. It returns false when that took too long (a
// second, say), or the loop has ended; f may then still run at any later time. The gateway supplies
// it.
type Call func(loop int, f func()) bool

// Snapshot is the sum over all loops at about one moment. It is the caller's, but the stats it
// points to are not to be changed.
type Snapshot struct {
	Counters
	Loops     []Counters // of each loop
	Routes    []RouteSnapshot
	Upstreams []UpstreamSnapshot
	Missed    int // loops that did not answer: their numbers are those of an earlier collection

	ConfigVersion           string
	ConfigLoaded            time.Time
	Reloads, ReloadFailures uint64
	sharedRoutes            uint64
	sharedUpstreams         uint64
	scrapes, missedEver     uint64
}

// RouteSnapshot is a route's sum over all loops.
type RouteSnapshot struct {
	Name string
	*RouteStats
	classes classSet // that it is or was in
}

// UpstreamSnapshot is an upstream's sum over all loops.
type UpstreamSnapshot struct {
	Name string
	*UpstreamStats
}

const (
	perCall = 16  // stats copied in one call: 66 KB for routes, 10 to 20 µs
	scanned = 512 // stats looked at in one call, to find those that have changed
)

// loopCopy is what is known of one loop. It is kept between collections for two reasons: only what
// has changed is copied, and a loop that does not answer keeps its last numbers. Were it left out
// of the sums, counters would fall and rise again, which Prometheus takes for a restart.
type loopCopy struct {
	counters  Counters
	routes    []*RouteStats
	upstreams []*UpstreamStats

	chunk *chunk
	late  *chunk // a call that did not return in time, until it has run
}

// chunk is what one call brings back. While the call runs the chunk belongs to the loop. A call
// that does not return in time may run later, so its chunk is left to it, and nothing but done is
// ever read of it again.
type chunk struct {
	counters  Counters
	routes    portion[RouteStats, *RouteStats]
	upstreams portion[UpstreamStats, *UpstreamStats]
	done      atomic.Bool
}

// portion is up to perCall stats that have changed since they were copied last.
type portion[T any, P versioned[T]] struct {
	next   int             // the index to go on at
	total  int             // how many indices the shard has
	known  [scanned]uint64 // versions of the copies that there are from next on, 0 for none
	copied int
	index  [perCall]int
	stats  [perCall]T
}

type versioned[T any] interface {
	*T
	version() uint64
}

// Collect asks every loop for what has changed and adds everything up. Loops are asked one after
// the other, in calls of some tens of microseconds. Collections wait for each other. It may be
// called from any goroutine that is not a loop.
func (r *Registry) Collect(call Call) *Snapshot {
	r.collecting.Lock()
	defer r.collecting.Unlock()
	missed := 0
	for loop, c := range r.copies {
		if !c.update(r.shards[loop], func(f func()) bool { return call(loop, f) }) {
			missed++
		}
	}
	r.missed += uint64(missed)
	return r.fold(missed)
}

// update brings the copy up to date, and says whether the loop answered to the end.
func (c *loopCopy) update(s *Shard, call func(func()) bool) bool {
	if c.late != nil && !c.late.done.Load() {
		return false // asking again would only lengthen the queue of a loop that is stuck
	}
	c.late = nil
	if c.chunk == nil {
		c.chunk = new(chunk)
	}
	k := c.chunk
	ask := func(f func()) bool {
		k.done.Store(false)
		if call(func() { f(); k.done.Store(true) }) {
			return true
		}
		c.late, c.chunk = k, nil
		return false
	}
	if !ask(func() { k.counters = s.current() }) {
		return false
	}
	c.counters = k.counters
	return updateStats(&c.routes, &k.routes, func() []*RouteStats { return s.routes }, ask) &&
		updateStats(&c.upstreams, &k.upstreams, func() []*UpstreamStats { return s.upstreams }, ask)
}

// current is the loop's counters as of now.
func (s *Shard) current() Counters {
	if s.Refresh != nil {
		s.Refresh(s)
	}
	return s.Counters
}

// updateStats brings the copies of stats up to date, portion by portion. What live returns is only
// looked at on the loop.
func updateStats[T any, P versioned[T]](
	copies *[]*T, p *portion[T, P], live func() []*T, ask func(func()) bool,
) bool {
	for p.next = 0; ; {
		p.prepare(*copies)
		if !ask(func() { p.fill(live()) }) {
			return false
		}
		*copies = grown(*copies, p.total)
		for i, index := range p.index[:p.copied] {
			stats := at(*copies, index)
			*stats = p.stats[i]
		}
		if p.next >= p.total {
			return true
		}
	}
}

// prepare notes which versions are known, because the loop must not look at the copies.
func (p *portion[T, P]) prepare(copies []*T) {
	for i := range p.known {
		p.known[i] = 0
		if index := p.next + i; index < len(copies) && copies[index] != nil {
			p.known[i] = P(copies[index]).version()
		}
	}
}

// fill copies what has changed, on the loop.
func (p *portion[T, P]) fill(live []*T) {
	p.total, p.copied = len(live), 0
	first := p.next
	for p.next < min(len(live), first+scanned) && p.copied < perCall {
		if s := live[p.next]; s != nil && P(s).version() != p.known[p.next-first] {
			p.index[p.copied], p.stats[p.copied] = p.next, *s
			p.copied++
		}
		p.next++
	}
}

// fold adds the copies of all loops up.
func (r *Registry) fold(missed int) *Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Snapshot{
		Missed:          missed,
		scrapes:         r.scrapes,
		missedEver:      r.missed,
		ConfigVersion:   r.config.version,
		ConfigLoaded:    r.config.loaded,
		Reloads:         r.config.reloads,
		ReloadFailures:  r.config.failures,
		sharedRoutes:    r.routes.shared,
		sharedUpstreams: r.upstreams.shared,
		Routes:          make([]RouteSnapshot, len(r.routes.list)),
		Upstreams:       make([]UpstreamSnapshot, len(r.upstreams.list)),
	}
	unusedRoute, unusedUpstream := new(RouteStats), new(UpstreamStats)
	for i, name := range r.routes.list {
		s.Routes[i] = RouteSnapshot{name, unusedRoute, r.classes[i]}
	}
	for i, name := range r.upstreams.list {
		s.Upstreams[i] = UpstreamSnapshot{name, unusedUpstream}
	}
	for _, c := range r.copies {
		s.Loops = append(s.Loops, c.counters)
		s.Counters.add(&c.counters)
		for i, stats := range c.routes {
			if stats == nil {
				continue
			}
			if s.Routes[i].RouteStats == unusedRoute {
				s.Routes[i].RouteStats = new(RouteStats)
			}
			s.Routes[i].add(stats)
		}
		for i, stats := range c.upstreams {
			if stats == nil {
				continue
			}
			if s.Upstreams[i].UpstreamStats == unusedUpstream {
				s.Upstreams[i].UpstreamStats = new(UpstreamStats)
			}
			s.Upstreams[i].add(stats)
		}
	}
	return s
}
