package reference

import (
	"math/rand/v2"

	"plimsoll/internal/lab/heap"
	"plimsoll/internal/lab/queue"
)

// Draw is a distribution of times in nanoseconds, such as queue.Constant's.
type Draw = func(*rand.Rand) int64

// workers is a pool that serves in the order of arrival. The caller states the service time of each
// request.
type workers struct {
	queue *queue.Queue
	rng   *rand.Rand
	takes int64
}

func newWorkers(count, room int, seed uint64) *workers {
	w := &workers{rng: random(seed)}
	w.queue = queue.New(queue.Station{
		Workers: count,
		Service: func(*rand.Rand) int64 { return w.takes },
		Room:    room,
	}, seed)
	return w
}

// serve lets a request arrive that takes the given time to serve.
func (w *workers) serve(now, takes int64) (done int64, status int) {
	w.takes = takes
	done, ok := w.queue.Offer(now)
	if !ok {
		return now, Unavailable
	}
	return done, Good
}

// Station is a plain queue as a service.
func Station(s queue.Station, seed uint64) Service { return &station{queue.New(s, seed)} }

type station struct{ queue *queue.Queue }

func (s *station) Offer(now int64, _ int) (done int64, status int) {
	done, ok := s.queue.Offer(now)
	if !ok {
		return now, Unavailable
	}
	return done, Good
}

// Routes is a service whose routes take different times on the same workers.
type Routes struct {
	Workers int
	Takes   []Draw // by route
}

// New makes a service.
func (r Routes) New(seed uint64) Service { return &routes{newWorkers(r.Workers, -1, seed), r.Takes} }

type routes struct {
	*workers
	takes []Draw
}

func (r *routes) Offer(now int64, route int) (done int64, status int) {
	return r.serve(now, r.takes[route](r.rng))
}

// Cache is a service with a cache that is empty at first and keeps everything it has seen. The
// frequency of its keys falls as (10+k)^-1.2.
type Cache struct {
	Workers   int
	Keys      int
	Hit, Miss Draw
}

// New makes a service with an empty cache.
func (c Cache) New(seed uint64) Service {
	w := newWorkers(c.Workers, -1, seed)
	return &cache{
		workers: w,
		about:   c,
		keys:    rand.NewZipf(w.rng, 1.2, 10, uint64(c.Keys-1)),
		seen:    make([]bool, c.Keys),
	}
}

type cache struct {
	*workers
	about Cache
	keys  *rand.Zipf
	seen  []bool
}

func (c *cache) Offer(now int64, _ int) (done int64, status int) {
	key := c.keys.Uint64()
	draw := c.about.Miss
	if c.seen[key] {
		draw = c.about.Hit
	}
	c.seen[key] = true
	return c.serve(now, draw(c.rng))
}

// Collector is a service that stands still at regular times: during a pause it begins, works on and
// answers nothing.
type Collector struct {
	Station    queue.Station
	Every, For int64 // nanoseconds from one pause to the next, and the length of each
}

// New makes a service. The first pause begins at time 0.
func (c Collector) New(seed uint64) Service { return &collector{queue.New(c.Station, seed), c} }

type collector struct {
	queue *queue.Queue
	about Collector
}

func (c *collector) Offer(now int64, _ int) (done int64, status int) {
	done, ok := c.queue.Offer(c.worked(now))
	if !ok {
		return c.clock(c.worked(now)), Unavailable
	}
	return max(c.clock(done), now), Good
}

// worked is the time until now without the pauses.
func (c *collector) worked(now int64) int64 {
	each := c.about.Every - c.about.For
	return now/c.about.Every*each + max(now%c.about.Every-c.about.For, 0)
}

// clock is the moment at which the given time has been worked.
func (c *collector) clock(worked int64) int64 {
	each := c.about.Every - c.about.For
	return worked/each*c.about.Every + c.about.For + worked%each
}

// Autoscaled is a pool that grows: after each period in which it was busier than Busy, it gets
// another worker, up to Most. It does not shrink.
type Autoscaled struct {
	Workers, Most int
	Takes         Draw
	Period        int64 // nanoseconds
	Busy          float64
}

// New makes a service with its initial number of workers.
func (a Autoscaled) New(seed uint64) Service {
	return &autoscaled{workers: newWorkers(a.Workers, -1, seed), about: a, count: a.Workers}
}

type autoscaled struct {
	*workers
	about Autoscaled
	count int
	ends  int64 // of the period; 0 before the first request
	work  int64 // work that has arrived in it, nanoseconds
}

func (a *autoscaled) Offer(now int64, _ int) (done int64, status int) {
	if a.ends == 0 {
		a.ends = now + a.about.Period
	}
	if now >= a.ends {
		busy := float64(a.work) / float64(a.about.Period) / float64(a.count)
		if busy > a.about.Busy && a.count < a.about.Most {
			a.queue.Add(now)
			a.count++
		}
		a.ends += (1 + (now-a.ends)/a.about.Period) * a.about.Period
		a.work = 0
	}
	takes := a.about.Takes(a.rng)
	a.work += takes
	return a.serve(now, takes)
}

// Limited is a service behind a rate limiter, a token bucket that is full at first. A request
// without a token is refused.
type Limited struct {
	Station queue.Station
	Rate    float64 // new tokens per second
	Burst   float64 // size of the bucket
}

// New makes a service.
func (l Limited) New(seed uint64) Service {
	return &limited{queue: queue.New(l.Station, seed), about: l, tokens: l.Burst}
}

type limited struct {
	queue  *queue.Queue
	about  Limited
	tokens float64
	last   int64
}

func (l *limited) Offer(now int64, _ int) (done int64, status int) {
	l.tokens = min(l.tokens+float64(now-l.last)/1e9*l.about.Rate, l.about.Burst)
	l.last = now
	if l.tokens < 1 {
		return now, TooMany
	}
	l.tokens--
	if done, ok := l.queue.Offer(now); ok {
		return done, Good
	}
	return now, Unavailable
}

// Slowing is a service that becomes slower the more requests are inside, like one short of memory
// or locks. Each request beyond the number of workers adds 1 ÷ Doubles to the time of a request, up
// to Slowest times that time.
type Slowing struct {
	Workers, Room int
	Takes         Draw
	Doubles       float64
	Slowest       float64
}

// New makes a service.
func (s Slowing) New(seed uint64) Service {
	return &slowing{workers: newWorkers(s.Workers, s.Room, seed), about: s}
}

type slowing struct {
	*workers
	about  Slowing
	inside heap.Heap[moment] // when the requests inside leave
}

// moment is a time in nanoseconds.
type moment int64

// Before implements heap.Ordered.
func (m moment) Before(o moment) bool { return m < o }

func (s *slowing) Offer(now int64, _ int) (done int64, status int) {
	for s.inside.Len() > 0 && int64(*s.inside.Top()) <= now {
		s.inside.Pop()
	}
	others := max(s.inside.Len()-s.about.Workers, 0)
	slower := min(1+float64(others)/s.about.Doubles, s.about.Slowest)
	done, status = s.serve(now, int64(slower*float64(s.about.Takes(s.rng))))
	if status == Good {
		s.inside.Push(moment(done))
	}
	return done, status
}

// Delayed is a service that holds back a share of its answers for a time, at any load. Their worker
// has already gone on to the next request.
type Delayed struct {
	Station queue.Station
	Share   float64
	For     int64 // nanoseconds
}

// New makes a service.
func (d Delayed) New(seed uint64) Service {
	return &delayed{queue.New(d.Station, seed), random(seed), d}
}

type delayed struct {
	queue *queue.Queue
	rng   *rand.Rand
	about Delayed
}

func (d *delayed) Offer(now int64, _ int) (done int64, status int) {
	done, ok := d.queue.Offer(now)
	if !ok {
		return now, Unavailable
	}
	if d.rng.Float64() < d.about.Share {
		done += d.about.For
	}
	return done, Good
}
