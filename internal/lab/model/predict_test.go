package model_test

import (
	"flag"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/queue"
)

// gentle are steps at 15 to 45 % of a line.
func gentle(l load, line float64) []measure.Step {
	var steps []measure.Step
	seed := l.seed
	for i, share := range []float64{.15, .25, .35, .45} {
		l.rate, l.seed = share*line, seed*100+uint64(i)
		steps = append(steps, l.step(i+1))
	}
	return steps
}

// local is a prediction for a target on the same machine, with Poisson arrivals.
func local(seed uint64) model.PredictOptions {
	return model.PredictOptions{Options: model.Options{Local: true, Seed: seed}, Poisson: true}
}

var seeds = flag.Int("seeds", 1, "how many times the line of each server is predicted")

func TestALineIsPredictedFromBelowHalfOfIt(t *testing.T) {
	t.Parallel()
	s := objectives(t, "p99<50ms")
	type server struct {
		workers     int
		exponential bool
		mean        int64
		overhead    int64
	}
	servers := []server{
		{1, true, 2 * ms, 0}, {4, true, 2 * ms, 150_000},
		{1, false, 8 * ms, 100_000}, {4, false, 2 * ms, 120_000}, {8, false, 4 * ms, 50_000},
	}
	var near, contained atomic.Int64
	var running sync.WaitGroup
	for _, v := range servers {
		running.Go(func() {
			station := queue.Station{Workers: v.workers, Service: queue.Constant(v.mean), Room: -1}
			if v.exponential {
				station.Service = queue.Exponential(v.mean)
			}
			line := queue.Line(station, true, s[0].Limit, s[0].Share, 100_000, 1)
			for seed := range uint64(*seeds) {
				l := load{
					station:  station,
					overhead: v.overhead,
					jitter:   20_000,
					length:   5 * second,
					atSend:   true,
					seed:     seed + 10,
				}
				p, why := model.Predict(gentle(l, line), s, local(seed))
				if p == nil {
					t.Logf("%+v seed %d: %s", v, seed, why)
					continue
				}
				ratio := p.Line.Estimate / line
				if math.Abs(ratio-1) <= .15 {
					near.Add(1)
				} else {
					t.Logf("%+v seed %d: %.3f of the line, by %s", v, seed, ratio, p.How)
				}
				if p.Line.Low <= line*1.01 && line*.99 <= p.Line.High {
					contained.Add(1)
				}
				if p.Made != 4 || p.Limit != "workers" || p.Line.Low > p.Line.Estimate ||
					p.Line.Estimate > p.Line.High || p.Upto > line/2 {
					t.Errorf("%+v seed %d: %+v", v, seed, p)
				}
			}
		})
	}
	running.Wait()
	of := int64(len(servers) * *seeds)
	t.Logf("of %d lines %d were predicted within 15 %%, and %d lie in their intervals",
		of, near.Load(), contained.Load())
	if 10*near.Load() < 9*of {
		t.Errorf("of %d lines %d were predicted within 15 %%", of, near.Load())
	}
	if 10*contained.Load() < 8*of {
		t.Errorf("of %d lines %d lie in intervals that are said to hold 95 %%",
			of, contained.Load())
	}
}

func TestAClosedLoopOfOneConnectionShowsTheServiceWithoutWaiting(t *testing.T) {
	t.Parallel()
	s := objectives(t, "p99<50ms")
	l := load{
		station:  queue.Station{Workers: 1, Service: queue.Constant(8 * ms), Room: -1},
		overhead: 120_000,
		length:   4 * second,
		seed:     3,
	}
	line := queue.Line(l.station, true, s[0].Limit, s[0].Share, 100_000, 1)
	steps := append([]measure.Step{l.alone(9)}, gentle(l, line)...)
	p, why := model.Predict(steps, s, local(1))
	if p == nil {
		t.Fatal(why)
	}
	if math.Abs(p.Line.Estimate/line-1) > .15 || p.Made != 9 {
		t.Errorf("%+v for a line of %v", p, line)
	}
}

func TestSeveralLoopsOfTheGeneratorCountTheirOwnOnly(t *testing.T) {
	t.Parallel()
	// Each of two loops offers half of the load and finds only its own requests, as if every second
	// request were invisible.
	s := objectives(t, "p99<50ms")
	l := load{
		station:  queue.Station{Workers: 2, Service: queue.Constant(4 * ms), Room: -1},
		overhead: 100_000,
		length:   5 * second,
		atSend:   true,
		loops:    2,
		seed:     4,
	}
	line := queue.Line(l.station, true, s[0].Limit, s[0].Share, 100_000, 1)
	p, why := model.Predict(gentle(l, line), s, local(1))
	if p == nil {
		t.Fatal(why)
	}
	if math.Abs(p.Line.Estimate/line-1) > .15 {
		t.Errorf("%+v for a line of %v", p, line)
	}
}

func TestWhatGentleStepsDoNotShowIsNotPredicted(t *testing.T) {
	t.Parallel()
	s := objectives(t, "p99<50ms")
	many := load{
		station:  queue.Station{Workers: 64, Service: queue.Exponential(20 * ms / 5), Room: -1},
		overhead: 120_000,
		length:   4 * second,
		atSend:   true,
		seed:     1,
	}
	even := load{
		station:  queue.Station{Workers: 4, Service: queue.Constant(2 * ms), Room: -1},
		overhead: 120_000,
		length:   2 * second,
		atSend:   true,
		constant: true,
		seed:     1,
	}
	brief := load{
		station: queue.Station{Workers: 1, Service: queue.Exponential(8 * ms), Room: -1},
		length:  second,
		atSend:  true,
		seed:    1,
	}
	failing := gentle(even, 2000)
	for i := range failing {
		failing[i].Totals.Ended[measure.Timeout] = failing[i].Totals.Ended[measure.OK] / 10
	}
	generator := gentle(even, 2000)
	for i := range generator {
		generator[i].Totals.Generator.Invalid = "the generator was the limit"
	}
	for name, c := range map[string]struct {
		steps []measure.Step
		why   string
	}{
		"64 workers, none of them ever missed":     {gentle(many, 2000), "workers or more"},
		"constant arrivals, each done by the next": {gentle(even, 2000), "workers or more"},
		"a few dozen requests":                     {gentle(brief, 60), "too short"},
		"no steps":                                 {nil, "no step"},
		"only a closed loop":                       {[]measure.Step{even.alone(1)}, "no step"},
		"steps that fail":                          {failing, "no step"},
		"steps in which the generator was late":    {generator, "no step"},
	} {
		p, why := model.Predict(c.steps, s, local(1))
		if p != nil || !strings.Contains(why, c.why) || strings.Contains(why, "\n") {
			t.Errorf("%s: %+v, because %q", name, p, why)
		}
	}
}

func TestNoRateIsPredictedWhereEvenOneRequestIsTooSlow(t *testing.T) {
	l := load{
		station: queue.Station{Workers: 2, Service: queue.Constant(20 * ms), Room: -1},
		length:  5 * second,
		atSend:  true,
		seed:    1,
	}
	if p, why := model.Predict(gentle(l, 90), objectives(t, "p99<10ms"), local(1)); p != nil ||
		!strings.Contains(why, "no rate") {
		t.Errorf("%+v %q", p, why)
	}
}

func TestAProcessorThatIsUsedUpBoundsTheLine(t *testing.T) {
	t.Parallel()
	// A request costs 1 ms of 2 cores; nothing waits for workers.
	l := load{
		station:  queue.Station{Workers: 200, Service: queue.Constant(ms), Room: -1},
		overhead: 120_000,
		length:   4 * second,
		atSend:   true,
		seed:     1,
	}
	steps := gentle(l, 1900)
	for i := range steps {
		sampleCPU(&steps[i], .001, .05)
	}
	o := local(1)
	o.Cores, o.Local = 2, false
	p, why := model.Predict(steps, objectives(t, "p99<50ms,errors<0.1%"), o)
	if p == nil {
		t.Fatal(why)
	}
	// 5 % of a core is spent whatever the rate, and 95 % of the rest can be used.
	if want := .95 * 1950; math.Abs(p.Line.Estimate/want-1) > .03 || p.Limit != "target cpu" ||
		p.Line.Low > want || p.Line.High < want {
		t.Errorf("%+v, and not %v", p, want)
	}
}

func TestTheSmallerOfTwoBoundsIsTheLine(t *testing.T) {
	t.Parallel()
	s := objectives(t, "p99<50ms")
	l := load{
		station: queue.Station{Workers: 2, Service: queue.Constant(4 * ms), Room: -1},
		length:  4 * second,
		atSend:  true,
		seed:    1,
	}
	for cost, limit := range map[float64]string{.0001: "workers", .004: "target cpu"} {
		steps := gentle(l, 480)
		for i := range steps {
			sampleCPU(&steps[i], cost, 0)
		}
		o := local(1)
		o.Cores, o.Local = 1, false
		p, why := model.Predict(steps, s, o)
		if p == nil {
			t.Fatal(why)
		}
		core := queue.Station{Workers: 1, Service: queue.Constant(int64(cost * 1e9)), Room: -1}
		want := min(480, queue.Line(core, true, 50*ms, .01, 100_000, 1))
		if p.Limit != limit || math.Abs(p.Line.Estimate/want-1) > .1 {
			t.Errorf("at %v s of a core each: %+v", cost, p)
		}
	}
}

func TestALineIsNeverPredictedBelowWhatKeptTheObjectives(t *testing.T) {
	t.Parallel()
	l := load{
		station: queue.Station{Workers: 2, Service: queue.Constant(4 * ms), Room: -1},
		length:  4 * second,
		atSend:  true,
		seed:    1,
	}
	steps := gentle(l, 480)
	// Other programs use the processors from time to time, so the cost of a request is uncertain.
	for i, idle := range []float64{1.9, 1.5, 1.9, 1.9} {
		sampleCPU(&steps[i], .001, idle)
	}
	o := local(1)
	o.Cores, o.Local = 2, false
	p, why := model.Predict(steps, objectives(t, "p99<50ms"), o)
	if p == nil {
		t.Fatal(why)
	}
	if p.Line.Low < p.Upto || p.Line.Estimate < p.Line.Low {
		t.Errorf("%.0f a second kept the objectives, and the line is predicted from %.0f on",
			p.Upto, p.Line.Low)
	}
}

func TestAPredictionIsScoredAndItsMissExplained(t *testing.T) {
	made := model.Prediction{
		Upto:  900,
		Line:  model.Interval{Low: 1800, Estimate: 2000, High: 2200, Confidence: .95},
		Limit: "workers",
	}
	for _, c := range []struct {
		line, miss float64
		says       string
	}{
		{1900, 2000.0/1900 - 1, ""},
		{1000, 1, "50 % lower"},
		{4000, -.5, "100 % higher"},
		{0, 0, ""},
	} {
		p := made
		model.Score(&p, model.Interval{Estimate: c.line})
		if math.Abs(p.Error-c.miss) > 1e-9 || c.says == "" && p.Misses != "" ||
			!strings.Contains(p.Misses, c.says) || p.Measured.Estimate != c.line {
			t.Errorf("a line of %v: %+v", c.line, p)
		}
	}
}
