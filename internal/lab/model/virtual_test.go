package model_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/slo"
)

const (
	ms     = int64(1e6)
	second = int64(1e9)
)

// load describes a step that is simulated in virtual time, on a station with a constant overhead.
type load struct {
	station  queue.Station
	overhead int64
	jitter   int64 // mean of an exponential addition to the overhead
	rate     float64
	constant bool
	length   int64
	atSend   bool // the generator counts how many others each request found
	loops    int  // of the generator; 0 means one. A request finds only those of its own loop
	seed     uint64
}

const window = 250 * ms

// step simulates the step.
func (l load) step(number int) measure.Step {
	s := measure.Step{
		Plan: measure.StepPlan{
			Number:      number,
			Phase:       "bracket",
			Rate:        l.rate,
			Arrivals:    "poisson",
			Length:      l.length,
			Connections: 1000,
		},
	}
	if l.constant {
		s.Plan.Arrivals = "constant"
	}
	q := queue.New(l.station, l.seed)
	arrivals := queue.NewArrivals(l.rate, !l.constant, l.seed)
	r := rand.New(rand.NewPCG(l.seed, 5))
	s.Windows = make([]measure.Window, l.length/window)
	responses := make([]measure.Histogram, len(s.Windows))
	var total measure.Histogram
	loops := max(l.loops, 1)
	insides := make([][]int64, loops)
	atSend := map[int]*measure.ConcurrencyAtSend{}
	for i := range s.Windows {
		s.Windows[i] = measure.Window{Start: int64(i) * window, Length: window}
	}
	s.Totals.Length = l.length
	for at := arrivals.Next(); at < l.length; at = arrivals.Next() {
		s.Totals.Due++
		s.Totals.Sent++
		s.Windows[at/window].Due++
		loop := r.IntN(loops)
		inside := slices.DeleteFunc(insides[loop], func(end int64) bool { return end <= at })
		overhead := l.overhead + int64(r.ExpFloat64()*float64(l.jitter))
		done, ok := q.Offer(at + overhead/2)
		end := done + overhead - overhead/2
		if !ok {
			end = at + overhead
		}
		in := min(int(end/window), len(s.Windows)-1)
		for i := at / window; i < int64(in); i++ {
			s.Windows[i].InFlight++
		}
		s.Totals.Drain = max(s.Totals.Drain, end-l.length)
		if !ok {
			insides[loop] = inside
			s.Windows[in].Ended[measure.BadStatus]++
			s.Totals.Ended[measure.BadStatus]++
			continue
		}
		s.Windows[in].Ended[measure.OK]++
		s.Totals.Ended[measure.OK]++
		responses[in].Record(end - at)
		total.Record(end - at)
		c := atSend[len(inside)]
		if c == nil {
			c = &measure.ConcurrencyAtSend{Found: len(inside)}
			atSend[len(inside)] = c
		}
		took := float64(end - at)
		c.Count, c.Sum, c.Squares = c.Count+1, c.Sum+took, c.Squares+took*took
		insides[loop] = append(inside, end)
	}
	for i := range s.Windows {
		s.Windows[i].Response = responses[i].Sparse()
		s.Windows[i].Service = s.Windows[i].Response
	}
	s.Totals.Response = total.Sparse()
	s.Totals.Service = s.Totals.Response
	s.Totals.Generator.Loops = loops
	if l.atSend {
		for _, c := range atSend {
			s.Totals.ConcurrencyAtSend = append(s.Totals.ConcurrencyAtSend, *c)
		}
		slices.SortFunc(s.Totals.ConcurrencyAtSend, func(a, b measure.ConcurrencyAtSend) int {
			return a.Found - b.Found
		})
	}
	return s
}

// alone is a closed loop with one connection.
func (l load) alone(number int) measure.Step {
	r := rand.New(rand.NewPCG(l.seed, 6))
	s := measure.Step{
		Plan: measure.StepPlan{Number: number, Phase: "warm-up", Length: l.length, Connections: 1},
	}
	var h measure.Histogram
	for at := int64(0); at < l.length; s.Totals.Due++ {
		took := l.overhead + int64(r.ExpFloat64()*float64(l.jitter)) + l.station.Service(r)
		h.Record(took)
		at += took
	}
	s.Totals.Length, s.Totals.Sent, s.Totals.Ended[measure.OK] = l.length, s.Totals.Due, h.Count()
	s.Totals.Response = h.Sparse()
	s.Totals.Service = s.Totals.Response
	s.Totals.Generator.Loops = 1
	return s
}

func objectives(t *testing.T, text string) slo.SLO {
	t.Helper()
	s, err := slo.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
