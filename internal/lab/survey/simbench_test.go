package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/reference"
)

const (
	ms         = int64(1e6)
	simWindow  = 250 * ms
	simTimeout = 5 * second
)

// simBench runs steps in virtual time against a queue that is empty when a step begins.
type simBench struct {
	station queue.Station
	seed    uint64
	// cold is the factor by which requests take longer while the service is cold. It warms up over
	// a second of the first step.
	cold float64
	// generator is the rate above which the generator is the limit, 0 for none. late is by how much
	// its requests are late then, in nanoseconds; 0 for far more than matters.
	generator float64
	late      int64
	// stolen is how many of two processors a hypervisor gives to others.
	stolen float64
	// dies is the rate at which the service stops answering for good, 0 for never; crumbles the one
	// above which its goodput falls.
	dies, crumbles float64
	// service, if not nil, replaces the station. It continues from step to step, at the time in
	// clock. kind is its kind.
	service reference.Service
	kind    *reference.Kind
	clock   int64
	// hook, when there is one, is called before a step.
	hook func(p measure.StepPlan)

	dead    bool
	plans   []measure.StepPlan
	offered int64 // nanoseconds of load
}

func (b *simBench) Settle(ctx context.Context) (time.Duration, error) {
	if b.dead {
		return 0, errors.New("40 requests are still in flight after 10 s")
	}
	const rest = 50 * ms
	b.clock += rest
	return time.Duration(rest), nil
}

// ending is a request's end.
type ending struct {
	kind     measure.Kind
	at, took int64
	status   int // status of a refusal, 0 if irrelevant
}

func (b *simBench) Step(
	ctx context.Context, p measure.StepPlan, stop func(w *measure.Window) string,
) (*measure.Step, string, error) {
	if b.hook != nil {
		b.hook(p)
	}
	b.plans = append(b.plans, p)
	b.seed++
	if b.dies > 0 && p.Rate >= b.dies {
		b.dead = true
	}
	count := int(p.Length / simWindow)
	due, ends := make([]uint64, count), make([][]ending, count)
	var example map[string]string
	add := func(e ending) {
		i := min(int(e.at/simWindow), count-1)
		ends[i] = append(ends[i], e)
		if e.status != 0 && example == nil {
			example = map[string]string{
				e.kind.String(): fmt.Sprintf("status %d %s", e.status, http.StatusText(e.status)),
			}
		}
	}
	last := p.Length
	b.exchange(p, func(at int64, e ending) {
		due[min(int(at/simWindow), count-1)]++
		add(e)
		last = max(last, e.at)
	})
	step := &measure.Step{Plan: p}
	step.Totals.Length = p.Length
	step.Totals.Drain = last - p.Length
	step.Totals.Examples = example
	if b.generator > 0 && p.Rate > b.generator {
		step.Totals.Generator.Invalid = "its busiest loop was at work 99 % of the time"
	}
	if b.stolen > 0 {
		for _, at := range []int64{p.Settle, p.Length} {
			step.Samples = append(step.Samples, measure.Sample{At: at, Values: map[string]float64{
				measure.HostCores:    2,
				measure.HostCPUSteal: b.stolen * float64(at) / float64(second),
			}})
		}
	}
	var whole, h, late measure.Histogram
	lag := int64(10_000)
	if step.Totals.Generator.Invalid != "" {
		lag = cmp.Or(b.late, 1<<34)
	}
	inside, stopped := 0, ""
	for i := range count {
		w := measure.Window{
			Start:  int64(i) * simWindow,
			Length: simWindow,
			Due:    due[i],
			Sent:   due[i],
		}
		if i == count-1 {
			w.Length += step.Totals.Drain
		}
		h.Reset()
		for _, e := range ends[i] {
			w.Ended[e.kind]++
			if e.kind == measure.OK {
				h.Record(e.took)
			}
		}
		inside += int(due[i]) - len(ends[i])
		w.InFlight = min(inside, p.Connections)
		w.Waiting = inside - w.InFlight
		w.Response = h.Sparse()
		w.Service = w.Response
		whole.Merge(&h)
		step.Windows = append(step.Windows, w)
		step.Totals.Due += due[i]
		step.Totals.Sent += due[i]
		step.Totals.Ended.Add(&w.Ended)
		if stop != nil {
			if stopped = stop(&step.Windows[i]); stopped != "" {
				step.Totals.Length, step.Totals.Drain = w.End(), 0
				break
			}
		}
	}
	for range step.Totals.Sent {
		late.Record(lag)
	}
	step.Totals.Lag = late.Sparse()
	step.Totals.Response = whole.Sparse()
	b.offered += step.Totals.Length
	// For the service, the rest of a stopped step was offered too.
	b.clock += max(last, p.Length)
	return step, stopped, nil
}

// exchange makes the requests of a step.
func (b *simBench) exchange(p measure.StepPlan, each func(at int64, e ending)) {
	station := b.station
	if b.crumbles > 0 && p.Rate > b.crumbles {
		// The service does work that is then thrown away: the higher the rate, the longer each
		// request takes.
		slower, service := p.Rate*p.Rate/b.crumbles/b.crumbles, station.Service
		station.Service = func(r *rand.Rand) int64 { return int64(float64(service(r)) * slower) }
	}
	service := b.service
	if service == nil {
		service = reference.Station(station, b.seed)
	}
	mix := rand.New(rand.NewPCG(b.seed, 0xbf58476d1ce4e5b9))
	route := func() int {
		if b.kind == nil {
			return 0
		}
		return b.kind.Draw(mix)
	}
	one := func(at int64) ending {
		if b.dead {
			return ending{measure.ConnectFailed, at, 0, 0}
		}
		done, status := service.Offer(b.clock+at, route())
		if done -= b.clock; status != reference.Good {
			return ending{measure.BadStatus, done, 0, status}
		}
		if b.cold > 1 && len(b.plans) == 1 && at < second {
			done += int64(float64(done-at) * (b.cold - 1))
		}
		if done-at > simTimeout {
			return ending{measure.Timeout, at + simTimeout, simTimeout, 0}
		}
		return ending{measure.OK, done, done - at, 0}
	}
	if p.Rate == 0 {
		for at := int64(0); at < p.Length; {
			e := one(at)
			each(at, e)
			at = max(e.at, at+ms)
		}
		return
	}
	arrivals := queue.NewArrivals(p.Rate, p.Arrivals != "constant", b.seed)
	for at := arrivals.Next(); at < p.Length; at = arrivals.Next() {
		each(at, one(at))
	}
}
