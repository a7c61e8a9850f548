package loadline

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/internal/lab/queue"
)

const ms = int64(1e6)

// place is a target in virtual time: a station behind a network.
type place struct {
	name    string
	workers int
	service func(*rand.Rand) int64
	network int64 // nanoseconds of each answer in which no worker is busy, with a little jitter
}

// mixed is a mix of requests of which a share takes longer.
func mixed(usual, long int64, share float64) func(*rand.Rand) int64 {
	usualTime, longTime := queue.Exponential(usual), queue.Exponential(long)
	return func(r *rand.Rand) int64 {
		if r.Float64() < share {
			return longTime(r)
		}
		return usual/2 + usualTime(r)/2
	}
}

// line is the true one.
func (s *place) line(o Objective) float64 {
	station := queue.Station{Workers: s.workers, Service: s.service, Room: -1}
	limit := o.Limit
	if limit > 0 {
		limit -= s.network
	}
	line := queue.Line(station, true, limit, o.Share, 200_000, 77)
	mean, r := 0.0, rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		mean += float64(s.service(r)) / 100_000
	}
	return min(line, used*float64(s.workers)*1e9/mean)
}

// traffic is what a gateway with so many loops sends for ten minutes, its rate swinging between two.
type traffic struct {
	place
	low, high float64
	loops     int
	seed      uint64
}

// watch is the history of the target.
func (t traffic) watch() *history {
	const window = 10 * second
	h := &history{}
	q := queue.New(queue.Station{Workers: t.workers, Service: t.service, Room: -1}, t.seed)
	r := rand.New(rand.NewPCG(t.seed, 5))
	inside := make([][]int64, t.loops)
	at := 0.0
	var seen Seen
	end := window
	for at < 600e9 {
		swing := (1 - math.Cos(2*math.Pi*at/400e9)) / 2
		at += r.ExpFloat64() * 1e9 / (t.low + (t.high-t.low)*swing)
		now := int64(at)
		for now >= end {
			h.add(end, window, &seen)
			seen, end = Seen{}, end+window
		}
		loop := r.IntN(t.loops)
		flying := inside[loop][:0]
		for _, done := range inside[loop] {
			if done > now {
				flying = append(flying, done)
			}
		}
		there := int64(float64(t.network) * (.45 + .1*r.Float64()))
		done, _ := q.Offer(now + there)
		done += int64(float64(t.network) * (.45 + .1*r.Float64()))
		seen.Add(one(len(flying), done-now))
		inside[loop] = append(flying, done)
	}
	return h
}

// one is a single request.
func one(found int, took int64) *Seen {
	s := &Seen{Met: make([]Met, found+1)}
	s.Met[found] = Met{1, float64(took), float64(took) * float64(took)}
	s.Times.Record(took)
	return s
}

func TestTuning(t *testing.T) {
	for _, s := range []place{
		{"exponential, 4 workers", 4, queue.Exponential(5 * ms), ms / 5},
		{"constant, 8 workers", 8, queue.Constant(10 * ms), ms / 2},
		{"mix, 12 workers", 12, mixed(4*ms, 40*ms, .1), ms},
	} {
		for _, o := range []Objective{{"P1", .0005, 500 * ms}, {"P0", .0001, 100 * ms}} {
			line := s.line(o)
			if line == 0 {
				line = s.line(Objective{Share: .01})
			}
			for seed := range uint64(5) {
				h := traffic{s, .2 * line, .6 * line, 2, seed + 1}.watch()
				began := time.Now()
				f := fit(h.parts, o, 2, 1)
				t.Logf("%s %s line %.0f: %.3f (%.3f-%.3f) in %v %s%s", s.name, o.Name, line, f.line.Estimate/line,
					f.line.Low/line, f.line.High/line, time.Since(began), f.how, f.why)
			}
		}
	}
}
