// Package admission decides which requests an instance refuses when it has more of them than its
// own processor can serve. It is a law over one loop's delay; it must not know requests,
// connections or the configuration.
//
// A loop that falls behind finds more to do each time it looks at its sockets. The time that this
// work takes is its backlog. It is also how long a request waits before anything is done for it,
// and the gateway has no other queue that could be measured. So the backlog is the load, and no
// rate has to be known.
//
// Classes are refused one after the other, the lowest first, each along a ramp over the backlog:
//
//	refused
//	   1 ┤      ╭────────╭────────────────────╭─────
//	     │     ╱ P2     ╱ P1               ╱ P0
//	   0 ┼────╯────────╯─────────────────╯────────▶ backlog
//	        delay/4    delay       4 × delay  10 × delay
//
// Because of the gap before the ramp of the highest class, the backlog's usual variation does not
// reach that ramp while the other classes are refused.
//
// The loop is a queue, and the refusals, which depend on the queue, drain it. So the law needs no
// memory: nothing winds up in a long overload, and the refusals end as soon as the queue is empty.
// Only the lower classes are left unread for a second after a refusal (Limiter.Holds).
// Within a class, clients that send more requests than others have more of them refused
// (Limiter.Refuse).
package admission

import (
	"math"
	"time"
)

// Classes is the number of classes, 0 to Classes-1. Class 0 is refused last.
const Classes = 10

// Options are what an operator chooses.
type Options struct {
	// Delay: the backlog at which all classes but the highest are refused, above 0
	Delay time.Duration
	// Used are the classes that requests have.
	Used [Classes]bool
	// Shadow: the caller does not act on the answers
	Shadow bool
}

// SheddingPlan is the law for one configuration. It is immutable.
type SheddingPlan struct {
	Shadow  bool
	used    [Classes]bool
	start   int64 // the backlog up to which no request is refused
	delay   int64 // Options.Delay in ns, at least 4*Classes so that every ramp has a length
	highest uint8 // the highest class in use, which does not wait
	ramps   [Classes]ramp
}

// ramp is the backlogs, in nanoseconds, from which the first requests of a class are refused and at
// which all are.
type ramp struct{ from, to int64 }

// NewSheddingPlan makes the law. A class that is not used is treated as the next lower used class,
// or as the lowest used class if there is none below it.
func NewSheddingPlan(o Options) *SheddingPlan {
	delay := max(int64(o.Delay), 4*Classes)
	p := &SheddingPlan{Shadow: o.Shadow, used: o.Used, start: delay / 4}
	highest, used := Classes, 0
	for c := range o.Used {
		if o.Used[c] {
			highest = min(highest, c)
			used++
		}
	}
	if used == 0 {
		highest = Classes - 1
	}
	p.delay, p.highest = delay, uint8(highest)
	each := (delay - p.start) / int64(max(used-1, 1)) // all but the highest share start to delay
	rank := int64(-1)                                 // among the used classes, from the lowest
	for c := Classes - 1; c >= 0; c-- {
		if o.Used[c] {
			rank++
		}
		if c <= highest {
			p.ramps[c] = ramp{4 * delay, 10 * delay}
			continue
		}
		from := p.start + max(rank, 0)*each
		p.ramps[c] = ramp{from, from + each}
	}
	return p
}

// Waits reports whether a connection waits for its turn to be read when the loop is behind. It does
// unless it has carried a request of the highest class. A connection that has carried no request
// yet has a class that does not exist.
func (p *SheddingPlan) Waits(class uint8) bool { return !p.Shadow && class > p.highest }

// LineTime is for how long, in nanoseconds, one turn serves connections that wait.
func (p *SheddingPlan) LineTime() int64 { return p.delay / 8 }

// share is the fraction of a class's requests that are refused at a backlog, 0 to 1.
func (p *SheddingPlan) share(class uint8, backlog int64) float64 {
	r := p.ramps[min(class, Classes-1)]
	return min(max(float64(backlog-r.from)/float64(r.to-r.from), 0), 1)
}

// Limiter is one loop's state. Only that loop may use it. The zero value is ready.
type Limiter struct {
	seen    int64 // the time of the last look at the sockets
	backlog int64 // smoothed
	random  uint64

	refused   uint8 // the highest class of which a request was refused within holding
	refusedAt int64 // when, 0 for never

	counts [buckets]float32 // of requests by hash of the client, halved every fading ns
	total  float32
	active int
	faded  int64
}

const (
	buckets = 256
	// memory is the time constant, in nanoseconds, with which the smoothed backlog follows the
	// measured one. A single long turn, say during a garbage collection, is not an overload.
	memory = int64(30 * time.Millisecond)
	// fading is the interval, in nanoseconds, at which the counts of clients are halved.
	fading = int64(100 * time.Millisecond)
	// holding is for how long, in nanoseconds, a refusal holds the lower classes. In an overload the
	// refusals of one class come in bursts. When the lower ones were held only in the same turn, they
	// were read between the bursts, and refusing them took a fifth of the loop's time
	// (bench/own_cpu.py).
	holding = int64(time.Second)
	// most is the largest multiple of the mean request count that a client counts as having sent.
	most = 16
)

// Due reports whether Observe must be called, which is once for each look at the sockets. now is
// the loop's time, which is the same for all requests of one look.
func (l *Limiter) Due(now int64) bool { return now != l.seen }

// Observe records how much work, in nanoseconds, a look has found. If it has not been called for
// some time, there was no work meanwhile.
func (l *Limiter) Observe(now, backlog int64) {
	since := now - l.seen
	l.seen = now
	if since > backlog+4*memory {
		l.backlog = backlog
		return
	}
	keep := math.Exp(-float64(since) / float64(memory))
	l.backlog = int64(float64(l.backlog)*keep + float64(backlog)*(1-keep))
}

// Backlog is the smoothed backlog in nanoseconds.
func (l *Limiter) Backlog() int64 { return l.backlog }

// Behind reports whether the loop has more work than it can do, so that some requests are refused.
func (l *Limiter) Behind(p *SheddingPlan) bool { return l.backlog > p.start }

// Refuse reports whether to refuse a request that arrives while the loop is behind, or that has
// waited for its turn. waited is how long it has waited, in nanoseconds; for a class that waits,
// the larger of waited and the backlog counts. client is a hash of the client's address. Refuse
// does not allocate.
//
// The requests of a client that sends n times the mean are admitted with the probability of n
// independent admissions. So clients that send equally much lose the same share, and no client is
// spared when the whole class is refused.
func (l *Limiter) Refuse(p *SheddingPlan, now int64, class uint8, client uint64, waited int64) bool {
	l.fade(now)
	n := &l.counts[client%buckets]
	if *n < 1 {
		l.active++
	}
	*n++
	l.total++
	late := l.backlog
	if p.Waits(class) {
		late = max(late, waited)
	}
	share := p.share(class, late)
	if share == 0 || share < 1 && l.spares(share, *n) {
		return false
	}
	if at := uint8(p.place(class)); at <= l.refused || !l.Refusing(now) {
		l.refused, l.refusedAt = at, now
	}
	return true
}

// spares draws whether to admit a request of a client that has sent n, where a share is refused.
func (l *Limiter) spares(share float64, n float32) bool {
	mean := l.total / float32(max(l.active, 1))
	times := min(float64(n/mean), most)
	l.random = l.random*6364136223846793005 + 1442695040888963407
	return float64(l.random>>11)/(1<<53) <= math.Pow(1-share, times)
}

// Refusing reports whether a request has been refused within the last second.
func (l *Limiter) Refusing(now int64) bool {
	return l.refusedAt != 0 && now-l.refusedAt <= holding
}

// Holds reports whether requests of a class are better left unread, because one of a higher class
// was refused within the last second. Refusing a request costs about half as much as serving one, so
// each that is read takes the place of half a request of the higher class. In shadow mode nothing is
// held.
func (l *Limiter) Holds(p *SheddingPlan, now int64, class uint8) bool {
	return !p.Shadow && l.Refusing(now) && p.place(class) > int(l.refused)
}

func (l *Limiter) fade(now int64) {
	if now-l.faded < fading {
		return
	}
	l.faded, l.total, l.active = now, 0, 0
	for i := range l.counts {
		n := l.counts[i] / 2
		l.counts[i] = n
		l.total += n
		if n >= 1 {
			l.active++
		}
	}
}
