package survey

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/reference"
)

// coldCache is a service with an empty cache. One in twelve requests whose key is not in it takes
// longer than 50 ms. With all keys in the cache its line is at 1,500 a second.
func coldCache(keys int) *simBench {
	c := reference.Cache{
		Workers: 8, Keys: keys, Hit: queue.Exponential(5 * ms), Miss: queue.Exponential(20 * ms),
	}
	return &simBench{service: c.New(1), seed: 1}
}

// begun counts how often a survey begins again.
func begun(o *Options) (times *int) {
	times = new(int)
	o.Tell = func(e Event) {
		if strings.Contains(e.Text, "warming up; looking for its line from the beginning") {
			*times++
		}
	}
	return times
}

func TestTheLineOfAServiceThatWarmsUpIsThatOfTheWarmOne(t *testing.T) {
	o := Options{SLO: parsed(t, "p99<50ms"), Seed: 2}
	times := begun(&o)
	r := run(t, coldCache(8000), o)
	l := r.Line
	if !l.Found || l.Interval.Low < 1200 || l.Interval.High > 1600 || *times == 0 {
		t.Errorf("begun again %d times: %+v", *times, l)
	}
	if l.Caveat != record.CaveatChanges || !strings.Contains(l.Why, "fewer and fewer later, so it was cold") {
		t.Errorf("%q: %s", l.Caveat, l.Why)
	}
}

// thawing is a service that keeps four in a hundred requests for 100 ms at first, and ever fewer
// the more it has answered.
type thawing struct {
	answered float64
	rng      *rand.Rand
}

func (s *thawing) Offer(now int64, _ int) (done int64, status int) {
	s.answered++
	if s.rng.Float64() < .04*math.Exp(-s.answered/6e5) {
		return now + 100*ms, reference.Good
	}
	return now + 30*ms, reference.Good
}

func TestAServiceThatIsStillColdIsNotSaidToBreakAnObjectiveForGood(t *testing.T) {
	o := Options{SLO: parsed(t, "p99<50ms"), Seed: 1, Limit: 8000}
	times := begun(&o)
	l := run(t, &simBench{service: &thawing{rng: rand.New(rand.NewPCG(1, 1))}, seed: 1}, o).Line
	if l.Found || l.Caveat != record.CaveatChanges || *times == 0 ||
		!strings.Contains(l.Why, "may still be warming up") {
		t.Errorf("begun again %d times: %+v", *times, l)
	}
}

func TestASurveyDoesNotBeginAgainWhereAsManyRequestsAsBeforeAreSlow(t *testing.T) {
	i := slices.IndexFunc(reference.Kinds, func(k reference.Kind) bool {
		return k.Name == "1 % take 300 ms, p99"
	})
	k := &reference.Kinds[i]
	o := Options{SLO: parsed(t, k.SLO), Seed: 1}
	times := begun(&o)
	l := run(t, &simBench{kind: k, service: k.New(1), seed: 1}, o).Line
	if l.Caveat != record.CaveatAlways || *times != 0 {
		t.Errorf("begun again %d times: %+v", *times, l)
	}
}

// Without a rate that was gentle there is none to begin again from.
func TestOnlyAServiceThatWasAskedAtSomeRateIsWarmingUp(t *testing.T) {
	s := newSurveyor(t.Context(), nil, Options{SLO: parsed(t, "p99<50ms")})
	s.good = 100
	for _, slow := range []uint64{20, 1} {
		tr := &trial{step: *made(20, 100, slow, 0)}
		tr.view, _ = viewOf(&tr.step)
		s.trials = append(s.trials, tr)
	}
	if _, is := s.warming(&s.o.SLO[0]); is {
		t.Error("one request at a time is said to show it")
	}
	s.trials[1].rate = 40
	if _, is := s.warming(&s.o.SLO[0]); !is {
		t.Error("a rate at which fewer requests are slow is said to show nothing")
	}
}
