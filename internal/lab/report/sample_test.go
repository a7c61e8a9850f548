package report_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// shop describes the simulated service of a sample run.
type shop struct {
	seed    uint64
	service time.Duration // mean of an exponential service time
	workers int
	length  time.Duration // of a step
	rates   []float64
}

// plain is a survey of twelve steps against a service that can do 2000 requests a second.
func plain() shop {
	return shop{
		7, 2 * time.Millisecond, 4, 10 * time.Second,
		[]float64{250, 500, 500, 500, 1000, 2000, 1400, 1700, 1900, 1840, 2600, 500},
	}
}

var phases = []string{
	"warm-up", "noise", "noise", "bracket", "bracket", "bracket", "refine", "refine", "refine",
	"refine", "overload", "recovery",
}

// survey simulates a survey in virtual time. The same shop gives the same run.
func (s shop) survey() *record.Run {
	run := &record.Run{
		Dir: "run-sample",
		Manifest: record.Manifest{
			SchemaVersion: record.SchemaVersion,
			Kind:          "survey",
			Tool:          "plimsoll v0.3.0",
			Started:       time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC),
			Command: []string{
				"plimsoll", "survey", "http://127.0.0.1:8080/", "--slo", "p99<50ms,errors<0.1%",
				"--scenario", "shop.yaml",
			},
			Target: "http://127.0.0.1:8080/",
			SLO:    "p99<50ms,errors<0.1%",
			Mix:    "GET /products 70 %, GET /products/{id} 25 %, POST /orders 5 %",
			Settings: map[string]string{
				"arrivals":    "poisson",
				"runs":        "5",
				"overshoot":   "2",
				"timeout":     "1s",
				"connections": "chosen by rate",
			},
			Machine: record.Machine{
				Host:        "lab-1",
				OS:          "linux",
				Kernel:      "6.1.0",
				CPU:         "AMD EPYC 7R13",
				Cores:       4,
				MemoryBytes: 16 << 30,
				TargetLocal: true,
				TargetPID:   4242,
			},
		},
	}
	goals, err := slo.Parse(run.Manifest.SLO)
	if err != nil {
		panic(err)
	}
	result := &record.Result{
		SchemaVersion: record.SchemaVersion,
		Ended:         run.Manifest.Started.Add(130 * time.Second),
	}
	for i, rate := range s.rates {
		step := s.copyOfStep(i+1, rate)
		run.Steps = append(run.Steps, step)
		result.Judgements = append(result.Judgements, judge(&step, goals))
	}
	run.Result = result
	s.conclude(result)
	return run
}

// made are the steps that were simulated once: it takes long under the race detector, and most
// tests begin with the same run.
var made sync.Map

// copyOfStep is a step that its test may change.
func (s shop) copyOfStep(number int, rate float64) measure.Step {
	key := fmt.Sprint(s.seed, s.service, s.workers, s.length, number, rate)
	found, ok := made.Load(key)
	if !ok {
		found, _ = made.LoadOrStore(key, s.step(number, rate))
	}
	step := found.(measure.Step)
	step.Windows, step.Samples, step.Totals.Examples = slices.Clone(step.Windows),
		slices.Clone(step.Samples), maps.Clone(step.Totals.Examples)
	return step
}

const timeout = int64(time.Second)

func (s shop) step(number int, rate float64) measure.Step {
	length, window := s.length.Nanoseconds(), (250 * time.Millisecond).Nanoseconds()
	st := measure.Step{Plan: s.plan(number, rate)}
	count := int(length / window)
	ws := make([]measure.Window, count)
	response, service := make([]measure.Histogram, count), make([]measure.Histogram, count)
	lags := make([]measure.Histogram, count)
	r := rand.New(rand.NewPCG(s.seed, uint64(number)))
	q := queue.New(
		queue.Station{
			Workers: s.workers,
			Service: queue.Exponential(s.service.Nanoseconds()),
			Room:    -1,
		},
		s.seed+uint64(number),
	)
	at, lastEnd, busy := int64(0), length, make([]float64, count)
	for {
		at += int64(r.ExpFloat64() / rate * 1e9)
		if at >= length {
			break
		}
		done, _ := q.Offer(at)
		done = min(done+200_000+int64(r.ExpFloat64()*50_000), at+timeout)
		lastEnd = max(lastEnd, done)
		begun, ended := int(at/window), min(int(done/window), count-1)
		ws[begun].Due++
		ws[begun].Sent++
		lags[begun].Record(int64(r.ExpFloat64() * 15_000))
		busy[begun] += s.service.Seconds()
		if done-at >= timeout {
			ws[ended].Ended[measure.Timeout]++
			continue
		}
		ws[ended].Ended[measure.OK]++
		response[ended].Record(done - at)
		service[ended].Record(done - at - 20_000)
	}
	st.Totals = s.totals(rate)
	st.Totals.Drain = lastEnd - length

	var all, allService, allLag measure.Histogram
	target := 100.0
	for i := range ws {
		w := &ws[i]
		w.Start, w.Length = int64(i)*window, window
		if i == count-1 {
			w.Length = lastEnd - w.Start
		}
		w.Response, w.Service, w.Lag = response[i].Sparse(), service[i].Sparse(), lags[i].Sparse()
		all.Merge(&response[i])
		allService.Merge(&service[i])
		allLag.Merge(&lags[i])
		st.Totals.Due += w.Due
		st.Totals.Sent += w.Sent
		st.Totals.Ended.Add(&w.Ended)
		st.Samples = append(st.Samples, measure.Sample{
			At: w.Start,
			Values: map[string]float64{
				"target.cpu.seconds":    target,
				"host.cpu.busy_seconds": 900 + target*1.07 + rate*5e-6*seconds(w.Start),
				"host.cores":            4,
			},
		})
		target += min(busy[i], float64(s.workers)*.25) * .9
	}
	st.Windows = ws
	st.Totals.Response, st.Totals.Service, st.Totals.Lag = all.Sparse(), allService.Sparse(),
		allLag.Sparse()
	if n := st.Totals.Ended[measure.Timeout]; n > 0 {
		st.Totals.Examples["timeout"] = "GET /products: no whole answer within 1 s"
	}
	return st
}

func (s shop) plan(number int, rate float64) measure.StepPlan {
	return measure.StepPlan{
		Number:      number,
		Phase:       phases[(number-1)%len(phases)],
		Rate:        rate,
		Arrivals:    "poisson",
		Length:      s.length.Nanoseconds(),
		Settle:      s.length.Nanoseconds() / 5,
		Connections: 64,
		Why:         fmt.Sprintf("is %.0f a second still good?", rate),
	}
}

// totals are those of a step but for what is counted in it.
func (s shop) totals(rate float64) measure.Totals {
	return measure.Totals{
		Length:          s.length.Nanoseconds(),
		ConnectionsMade: 64,
		Examples:        map[string]string{},
		Generator: measure.Generator{
			Loops: 1,
			CPU:   int64(rate * 5000 * s.length.Seconds()),
			Busy:  rate * 5e-6,
		},
	}
}

// judge decides as a survey would, with an interval from the spread of the windows.
func judge(s *measure.Step, goals slo.SLO) record.Judgement {
	j := record.Judgement{
		Step:    s.Plan.Number,
		Rate:    s.Plan.Rate,
		Verdict: record.Pass,
		Why:     "every objective is met, whole interval",
	}
	var windows []measure.Window
	for i := range s.Windows {
		if s.Windows[i].Start >= s.Plan.Settle {
			windows = append(windows, s.Windows[i])
		}
	}
	for _, o := range goals {
		var bad, total float64
		var shares []float64
		for i := range windows {
			b, n := o.Bad(&windows[i])
			bad, total = bad+b, total+n
			shares = append(shares, b/max(n, 1))
		}
		mean, half := bad/total, 2*spread(shares)/math.Sqrt(float64(len(shares)))
		in := model.Interval{
			Low:        max(0, mean-half),
			Estimate:   mean,
			High:       min(1, mean+half),
			Confidence: .95,
		}
		j.Objectives = append(j.Objectives, record.ObjectiveShare{
			Objective: o.Text,
			Share:     in,
			Allowed:   o.Share,
		})
		switch {
		case in.Low > o.Share:
			j.Verdict = record.Fail
			j.Why = fmt.Sprintf("%s is broken by %.2f %% of the requests", o.Text, mean*100)
		case in.High > o.Share && j.Verdict == record.Pass:
			j.Verdict = record.Undecided
			j.Why = fmt.Sprintf("the interval of %s holds its limit", o.Text)
		}
	}
	var good []float64
	var sum float64
	for i := range windows {
		if i == len(windows)-1 {
			continue
		}
		good = append(good, float64(windows[i].Ended[measure.OK])*4)
		sum += good[len(good)-1]
	}
	mean, half := sum/float64(len(good)), 2*spread(good)/math.Sqrt(float64(len(good)))
	j.Goodput = model.Interval{Low: mean - half, Estimate: mean, High: mean + half, Confidence: .95}
	return j
}

func spread(v []float64) float64 {
	var sum, squares float64
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(len(v))
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return math.Sqrt(squares / float64(len(v)))
}

// conclude adds what a survey finds and predicts, around the capacity that the simulated service
// really has.
func (s shop) conclude(r *record.Result) {
	capacity := float64(s.workers) / s.service.Seconds()
	around := func(v, half float64) model.Interval {
		return model.Interval{
			Low:        v * (1 - half),
			Estimate:   v,
			High:       v * (1 + half),
			Confidence: .95,
		}
	}
	line := around(capacity*.9525, .013)
	r.Line = record.Line{
		Found:    true,
		Interval: line,
		Why:      "between the highest rate that passed and the lowest that failed",
	}
	r.Peak = record.Collapse{
		Found:   true,
		Rate:    around(capacity*.99, .02),
		Goodput: capacity * .985,
		Why:     "goodput does not rise above it",
	}
	r.Collapse = record.Collapse{
		Found: true,
		Rate:  around(capacity*1.15, .08),
		Why:   "goodput falls from here on",
	}
	r.Recovery = record.Recovery{
		Tested:    true,
		Recovered: true,
		After:     1.25,
		Why:       "p99 was back within 10 % after 1.25 s",
	}
	r.Noise = record.Noise{P50: .011, P99: .034, Goodput: .006, CPU: .012, Measured: true}
	r.Model = s.model(line, around)
	r.Validity = []record.Validity{
		{What: "The generator kept its schedule", OK: true, Why: "send lag p99 69 µs at most, 100 µs allowed"},
		{What: "The generator was not the limit", OK: true, Why: "its busiest loop was at work 1.3 % of the time"},
		{
			What: "Generator and target had processors of their own",
			OK:   false,
			Why:  "both ran on the same 4 cores: the line may be higher on two machines",
		},
	}
	r.NotMeasured = []string{
		"the target's runtime: no --pprof was given", "allocations: no --metrics was given",
	}
}

// model is what a survey would say of the shop's queues and processors.
func (s shop) model(
	line model.Interval, around func(v, half float64) model.Interval,
) model.Model {
	capacity := float64(s.workers) / s.service.Seconds()
	return model.Model{
		Demands: []model.Demand{
			{
				Resource: "workers",
				Unit:     "s",
				Per:      around(s.service.Seconds(), .02),
				Capacity: float64(s.workers),
				Bound:    around(capacity, .02),
				How:      "service time at the lowest rates",
			},
			{
				Resource: "target cpu",
				Unit:     "s",
				Per:      around(s.service.Seconds()*.9, .03),
				Capacity: 4,
				Bound:    around(capacity*1.11, .03),
				How:      "processor time of pid 4242 over the requests it answered",
			},
			{
				Resource: "host cpu",
				Unit:     "s",
				Per:      around(s.service.Seconds()*.96, .05),
				Capacity: 4,
				Bound:    around(capacity*1.04, .05),
				How:      "all processors",
			},
		},
		Smallest: "workers",
		USL: &model.USL{
			Lambda: around(490, .03),
			Sigma:  model.Interval{Low: .17, Estimate: .19, High: .21},
			Kappa:  model.Interval{Low: .0003, Estimate: .0004, High: .0006},
			R2:     .984,
			PeakN:  45,
			PeakX:  capacity * 1.08,
			Reach:  46,
		},
		Predictions: []model.Prediction{
			{
				Made:     5,
				Upto:     1000,
				Line:     around(capacity*.92, .06),
				Limit:    "workers",
				How:      "a queue of 4 workers fitted to 5 steps",
				Measured: line,
				Error:    -.034,
			},
			{
				Made:     5,
				Upto:     1000,
				Line:     around(capacity*1.11, .04),
				Limit:    "target cpu",
				How:      "the bound of the target's processor time",
				Measured: line,
				Error:    .165,
				Misses:   "waiting for a worker, which no processor counter shows",
			},
		},
		Checks: []model.Check{
			{Step: 5, Law: "Little", Want: 2.21, Got: 2.2, Sentence: "X·R = 2.21 and 2.20 were in flight"},
			{
				Step:     11,
				Law:      "Little",
				Want:     1800,
				Got:      2210,
				Breach:   true,
				Sentence: "X·R = 1,800 and 2,210 were in flight: requests timed out",
			},
		},
	}
}
