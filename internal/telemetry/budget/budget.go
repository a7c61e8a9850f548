// Package budget says how well routes and SLA classes kept their objectives lately, and how fast
// they use up what the objectives allow to fail: their error budgets. It is given totals that only
// grow and the time; it has no clock of its own and knows nothing of loops or configurations.
package budget

import (
	"sync"
	"time"

	"plimsoll/internal/telemetry"
)

// span is a time that is looked back over, in steps of which so many make the whole.
type span struct {
	name  string
	step  int64
	steps int64
}

// spans are those of the alerts in examples/prometheus, and short enough together for every route
// to have its own: four kilobytes.
var spans = [...]span{
	{"5m", int64(10 * time.Second), 30},
	{"1h", int64(time.Minute), 60},
	{"6h", int64(5 * time.Minute), 72},
	{"3d", int64(time.Hour), 72},
}

// Interval is how often totals should be fed: the shortest step.
const Interval = 10 * time.Second

// Window is what was counted over a time that ends with the last feeding. It began at most one step
// before its nominal length, or when the process did.
type Window struct {
	Name string // "5m", "1h", "6h" or "3d"
	telemetry.SLOCounts
}

// Attainment is the share of requests that were good; ok is false when there were none.
func (w Window) Attainment() (share float64, ok bool) {
	if w.Requests == 0 {
		return 0, false
	}
	return float64(w.Good) / float64(w.Requests), true
}

// Burn is how many times faster than the objective allows requests failed. At 1 the error budget of
// a time is used up exactly when that time is over. It is 0 without requests. Availability is below
// 1: where nothing may fail there is no budget.
func (w Window) Burn(availability float64) float64 {
	bad := w.Requests - w.Good
	if bad == 0 {
		return 0
	}
	return float64(bad) / float64(w.Requests) / (1 - availability)
}

// history keeps totals at the beginnings of steps, so that what came since is a subtraction.
type history struct {
	last  telemetry.SLOCounts
	rings [len(spans)]ring
}

// ring has the totals at the beginning of the step now, and of as many before it as make the span.
// What was never written is zero, as were the totals before the first exchange.
type ring struct {
	now int64 // number of the step that the last feeding was in
	at  []telemetry.SLOCounts
}

func newHistory() *history {
	h := &history{}
	for i := range h.rings {
		h.rings[i].at = make([]telemetry.SLOCounts, spans[i].steps+1)
	}
	return h
}

// feed notes the totals of a time. Totals that are older than those fed before are passed over: two
// collections may end in another order than they began in.
func (h *history) feed(now int64, total telemetry.SLOCounts) {
	if total.Requests < h.last.Requests {
		return
	}
	for i := range h.rings {
		h.rings[i].advance(now/spans[i].step, h.last, total)
	}
	h.last = total
}

// advance begins a step. In the steps that no feeding came in, nothing is taken to have happened:
// what came since the last feeding came just before this one.
func (r *ring) advance(step int64, before, total telemetry.SLOCounts) {
	if step <= r.now {
		return
	}
	size := int64(len(r.at))
	for s := max(r.now+1, step-size+1); s < step; s++ {
		r.at[s%size] = before
	}
	r.at[step%size] = total
	r.now = step
}

// window is what was counted over a span.
func (h *history) window(i int) Window {
	r := &h.rings[i]
	since := r.at[(r.now+1)%int64(len(r.at))]
	return Window{spans[i].name, telemetry.SLOCounts{
		Requests: h.last.Requests - since.Requests, Good: h.last.Good - since.Good,
	}}
}

// Ledger has the histories of routes, in each SLA class that they were in, and of the classes. Its
// methods may be called from any goroutine.
type Ledger struct {
	mu      sync.Mutex
	routes  map[entry]*history // those that have counted something
	classes [telemetry.Classes]*history
}

// entry is a route, by its index in the registry, in an SLA class.
type entry struct {
	route int
	class uint8
}

// NewLedger makes one for a process whose counters are at zero.
func NewLedger() *Ledger {
	l := &Ledger{routes: map[entry]*history{}}
	for class := range l.classes {
		l.classes[class] = newHistory()
	}
	return l
}

// Feed notes the totals of a time, in monotonic nanoseconds.
func (l *Ledger) Feed(now int64, s *telemetry.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var classes [telemetry.Classes]telemetry.SLOCounts
	for i := range s.Routes {
		for class, total := range s.Routes[i].SLO {
			if total.Requests == 0 {
				continue
			}
			key := entry{i, uint8(class)}
			if l.routes[key] == nil {
				l.routes[key] = newHistory()
			}
			l.routes[key].feed(now, total)
			classes[class].Add(total)
		}
	}
	for class, total := range classes {
		l.classes[class].feed(now, total)
	}
}

// Route is what a route did in a class, the shortest window first.
func (l *Ledger) Route(route int, class uint8) []Window {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.routes[entry{route, class}].windows()
}

// Class is what all routes of a class did together.
func (l *Ledger) Class(class uint8) []Window {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.classes[class].windows()
}

// windows are the history's; those of one that has none yet are empty.
func (h *history) windows() []Window {
	list := make([]Window, len(spans))
	for i := range spans {
		list[i].Name = spans[i].name
		if h != nil {
			list[i] = h.window(i)
		}
	}
	return list
}
