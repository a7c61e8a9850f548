package concurrency

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
)

// A service time is drawn with mean 1 and then multiplied by the service's mean.
type shape string

const (
	fixed       shape = "fixed"
	exponential shape = "exponential"
	lognormal   shape = "lognormal" // coefficient of variation 1
	bimodal     shape = "bimodal"   // 1 % take 30 times as long
)

func (s shape) draw(r *rand.Rand) float64 {
	switch s {
	case exponential:
		return r.ExpFloat64()
	case lognormal:
		return math.Exp(r.NormFloat64()*math.Sqrt(math.Ln2) - math.Ln2/2)
	case bimodal:
		if r.Float64() < 0.01 {
			return 30 / 1.29
		}
		return 1 / 1.29
	}
	return 1
}

// service is what stands behind the gateway: workers with one queue in front of them, or, when
// overhead is set, one processor pool that all requests share and that loses a part of its speed
// for each request above the number of workers.
type service struct {
	workers  int
	mean     float64 // seconds of work a request
	shape    shape
	delay    float64 // seconds on the network, there and back
	shared   bool    // all requests inside share the workers equally
	overhead float64 // the part of its speed that a shared service loses for each request too many
}

func (s service) capacity() float64 { return float64(s.workers) / s.mean }

func (s service) String() string {
	kind := string(s.shape)
	if s.shared {
		kind += fmt.Sprintf(", shared, overhead %g", s.overhead)
	}
	return fmt.Sprintf("N=%d C=%.0f/s S=%.4gms D=%.3gms %s", s.workers, s.capacity(), s.mean*1e3, s.delay*1e3, kind)
}

// speed is how many seconds of work a second a service does with n requests inside.
func (s service) speed(n int) float64 {
	speed := float64(min(n, s.workers))
	if s.shared {
		speed /= 1 + s.overhead*float64(max(0, n-s.workers))
	}
	return speed
}

// job is a request inside the gateway or the service.
type job struct {
	arrived float64 // at the gateway
	sent    float64 // to the service
	work    float64
	gone    bool // the client went away; the service does not know
}

type kind uint8

const (
	arrival   kind = iota
	reaches        // a request reaches the service
	worked         // a worker is done
	answered       // an answer reaches the gateway
	leaving        // a client goes away
	sharedOut      // the next request of a shared service is done, if no one joined since
	tick           // the law's loop
	change         // the service or the traffic changes
)

type event struct {
	at   float64
	kind kind
	job  *job
	mark int
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// limiter is a law under test.
type limiter interface {
	Observe(Window) int
	Limit() int
}

const (
	tickEvery = 0.05
	patience  = 0.5
)

// world is a gateway with a law, in front of a service, in virtual time.
type world struct {
	now    float64
	random *rand.Rand
	events events
	law    limiter

	service service
	rate    float64 // arrivals a second
	away    float64 // the share of clients that go away, after 50 ms in the mean
	changes []func(*world)

	queue    []*job // the gateway's: newest last, and served first
	inflight int

	inside []*job // FIFO, those that wait for a worker
	busy   int
	shared events  // ordered by the work that each will have got when it is done
	given  float64 // the work that each request of a shared service has got
	mark   int

	last   float64 // when the integrals were brought up to date
	window struct {
		start, inflight, latency float64
		completed                int
		limited                  bool
	}
	total   sums
	history []sums // totals at each tick
	limits  []int
}

// sums only grow; the difference of two of them describes the time between.
type sums struct {
	at        float64
	arrived   int
	refused   int // waited in the gateway for longer than its patience
	completed int
	latency   float64 // of those completed
	work      float64 // seconds of work done
	waiting   float64 // integral of the requests that wait inside the service
	inflight  float64
}

func newWorld(s service, law limiter, load float64, seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7)), law: law, service: s, rate: load * s.capacity()}
	w.at(0, arrival, nil)
	w.at(tickEvery, tick, nil)
	return w
}

func (w *world) at(delay float64, k kind, j *job) {
	heap.Push(&w.events, event{at: w.now + delay, kind: k, job: j, mark: w.mark})
}

// changeAt makes a change at a time.
func (w *world) changeAt(when float64, f func(*world)) {
	w.changes = append(w.changes, f)
	heap.Push(&w.events, event{at: when, kind: change, mark: len(w.changes) - 1})
}

func (w *world) run(until float64) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.advance(e.at)
		switch e.kind {
		case arrival:
			w.arrive()
		case reaches:
			w.enter(e.job)
		case worked:
			w.busy--
			w.at(w.service.delay/2, answered, e.job)
			w.work()
		case sharedOut:
			if e.mark == w.mark {
				done := heap.Pop(&w.shared).(event)
				w.at(w.service.delay/2, answered, done.job)
				w.share()
			}
		case answered:
			w.answer(e.job)
		case leaving:
			w.leave(e.job)
		case tick:
			w.tick()
		case change:
			w.changes[e.mark](w)
			w.work()
			w.share()
		}
	}
}

// advance brings the integrals up to date.
func (w *world) advance(now float64) {
	d := now - w.last
	n := w.busy
	w.total.waiting += d * float64(len(w.inside))
	if w.service.shared {
		n = len(w.shared)
		w.total.waiting += d * float64(max(0, n-w.service.workers))
	}
	if n > 0 {
		if w.service.shared {
			w.given += d * w.service.speed(n) / float64(n)
		}
		w.total.work += d * w.service.speed(n)
	}
	w.total.inflight += d * float64(w.inflight)
	w.window.inflight += d * float64(w.inflight)
	w.now, w.last, w.total.at = now, now, now
}

func (w *world) arrive() {
	w.at(w.random.ExpFloat64()/w.rate, arrival, nil)
	j := &job{arrived: w.now, work: w.service.shape.draw(w.random)}
	w.total.arrived++
	if w.away > 0 && w.random.Float64() < w.away {
		w.at(0.05*w.random.ExpFloat64(), leaving, j)
	}
	if w.inflight < w.law.Limit() {
		w.send(j)
		return
	}
	w.window.limited = true
	w.queue = append(w.queue, j)
}

func (w *world) send(j *job) {
	j.sent = w.now
	w.inflight++
	w.at(w.service.delay/2, reaches, j)
}

func (w *world) enter(j *job) {
	if w.service.shared {
		heap.Push(&w.shared, event{at: w.given + j.work*w.service.mean, job: j})
		w.share()
		return
	}
	w.inside = append(w.inside, j)
	w.work()
}

// work gives waiting requests to idle workers.
func (w *world) work() {
	for w.busy < w.service.workers && len(w.inside) > 0 {
		j := w.inside[0]
		w.inside = w.inside[1:]
		w.busy++
		w.at(j.work*w.service.mean, worked, j)
	}
}

// share plans the next request of a shared service to be done.
func (w *world) share() {
	w.mark++
	if n := len(w.shared); n > 0 {
		left := w.shared[0].at - w.given
		w.at(max(0, left)*float64(n)/w.service.speed(n), sharedOut, nil)
	}
}

func (w *world) answer(j *job) {
	if j.gone {
		return
	}
	latency := w.now - j.sent
	w.inflight--
	j.gone = true
	w.window.completed++
	w.window.latency += latency
	w.total.completed++
	w.total.latency += latency
	w.admit()
}

// leave ends a request whose client has gone: its slot is free at once, and the service works on.
func (w *world) leave(j *job) {
	if j.gone {
		return
	}
	j.gone = true
	if j.sent > 0 {
		w.inflight--
		w.admit()
	}
}

// admit sends who waits, the newest first. Who has waited too long is refused.
func (w *world) admit() {
	old := 0
	for old < len(w.queue) && w.queue[old].arrived < w.now-patience {
		if !w.queue[old].gone {
			w.total.refused++
		}
		old++
	}
	w.queue = w.queue[old:]
	for w.inflight < w.law.Limit() && len(w.queue) > 0 {
		j := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		if !j.gone {
			w.send(j)
		}
	}
}

func (w *world) tick() {
	w.at(tickEvery, tick, nil)
	w.admit()
	d := w.now - w.window.start
	w.law.Observe(Window{
		Start: int64(w.window.start * 1e9), End: int64(w.now * 1e9),
		Completed: w.window.completed, LatencySum: int64(w.window.latency * 1e9),
		InflightMean: w.window.inflight / d,
		Limited:      w.window.limited || len(w.queue) > 0,
	})
	w.window.start, w.window.inflight, w.window.latency = w.now, 0, 0
	w.window.completed, w.window.limited = 0, false
	w.admit()
	w.history = append(w.history, w.total)
	w.limits = append(w.limits, w.law.Limit())
}
