package text_test

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/survey"
	"plimsoll/internal/lab/text"
	"plimsoll/internal/lab/wrkcheck"
)

// spread is n durations from low to high, at equal distances.
func spread(n int, low, high int64) measure.Sparse {
	var h measure.Histogram
	for i := range n {
		h.Record(low + (high-low)*int64(i)/int64(max(n-1, 1)))
	}
	return h.Sparse()
}

func totals() *measure.Totals {
	t := &measure.Totals{
		Length:          30e9,
		Drain:           12e6,
		Due:             300_000,
		Sent:            299_990,
		BytesIn:         360e6,
		BytesOut:        36e6,
		Response:        spread(299_000, 200_000, 9_000_000),
		Service:         spread(299_000, 190_000, 5_000_000),
		Lag:             spread(1000, 5_000, 90_000),
		ConnectionsMade: 66,
		Reused:          299_924,
		Resumed:         2,
		Peak:            64,
		Requests: []measure.RequestTotals{
			{Name: "browse", Ended: measure.Tally{measure.OK: 200_000}, Response: spread(200_000, 200_000, 2_000_000)},
			{
				Name: "buy",
				Ended: measure.Tally{
					measure.OK:        99_000,
					measure.BadStatus: 990,
					measure.NotSent:   10,
				},
				Response: spread(99_000, 300_000, 9_000_000),
			},
			{Name: "never sent"},
		},
		Examples: map[string]string{
			"bad_status": "503 Service Unavailable\x1b[2J",
			"not_sent":   "no connection became free within 5 s",
		},
		Generator: measure.Generator{Loops: 2, CPU: 4.1e9, Busy: .34},
	}
	t.Ended = measure.Tally{measure.OK: 299_000, measure.BadStatus: 990, measure.NotSent: 10}
	return t
}

// Of two requests a target could answer one in time. The other half, which it answered later, does
// not make it twice as fast.
func TestTheSummaryOfABacklogSaysWhatCameLater(t *testing.T) {
	of := &measure.Totals{
		Length:   2e9,
		Drain:    2e9,
		Due:      800,
		Sent:     800,
		Ended:    measure.Tally{measure.OK: 800},
		Drained:  400,
		Response: spread(800, 5e6, 2e9),
	}
	if s := text.Load(&text.Run{Totals: of}); !strings.Contains(s,
		"  goodput    200/s; 100 % ended well, 400 of them after the load was over\n") {
		t.Errorf("printed:\n%s", s)
	}
}

func TestTheSummaryOfAnOpenLoop(t *testing.T) {
	golden(t, "open.txt", text.Load(&text.Run{Totals: totals(), TLS: true}))
}

func TestTheSummaryOfAClosedLoopThatWasStoppedAndIsInvalid(t *testing.T) {
	of := totals()
	of.Ended = measure.Tally{measure.OK: 299_000}
	of.Requests, of.Drain = nil, 0
	of.Generator = measure.Generator{
		Loops:   1,
		CPU:     29e9,
		Busy:    .97,
		Invalid: "a loop was busy for 97 % of the time: give it more loops with -t",
	}
	golden(t, "closed.txt", text.Load(&text.Run{Totals: of, Closed: true, Early: "it was stopped"}))
}

func TestTheSummaryOfNothing(t *testing.T) {
	golden(t, "nothing.txt", text.Load(&text.Run{Totals: &measure.Totals{}}))
}

func TestAPercentileAmongFailuresIsNotADuration(t *testing.T) {
	of := totals()
	of.Ended = measure.Tally{measure.OK: 299_000, measure.Timeout: 10_000}
	got := text.Load(&text.Run{Totals: of})
	if strings.Count(got, "failed") < 6 || !strings.Contains(got, "p99 ") {
		t.Errorf("p99, p99.9 and p99.99 of both times lie among the 3 %% that failed:\n%s", got)
	}
}

func TestProgressTellsOfTheLastSecond(t *testing.T) {
	window := func(start int64, ok, lost uint64) *measure.Window {
		return &measure.Window{
			Start:    start,
			Length:   250e6,
			Sent:     ok,
			Ended:    measure.Tally{measure.OK: ok, measure.ConnectionLost: lost},
			Response: spread(int(ok), 1e6, 1e6),
			InFlight: 7,
		}
	}
	got := text.LoadNow([]*measure.Window{window(0, 250, 0), window(250e6, 250, 5)}, 500e6, 30e9)
	if want := "500 ms of 30.0 s  1,000/s sent  p50 1.00 ms  p99 1.00 ms  0.99 % " +
		"failed  7 in flight"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	stuck := window(0, 0, 3)
	stuck.Waiting = 12
	if got := text.LoadNow([]*measure.Window{stuck}, 250e6, 0); got != "250 ms  0/s sent  p50 "+
		"failed  p99 failed  100 % failed  7 in flight  12 waiting" {
		t.Errorf("%q", got)
	}
	if got := text.LoadNow(nil, 0, 0); got != "opening connections" {
		t.Errorf("%q", got)
	}
}

func TestTheComparisonWithWrk(t *testing.T) {
	r := &wrkcheck.Report{
		Wrk: &wrkcheck.Side{
			Requests: 190_000,
			Success:  1,
			Rate:     63_200,
			Mean:     1.00e6,
			P99:      1.70e6,
			RawMean:  1.012e6,
		},
		Own: wrkcheck.Side{
			Requests:   191_000,
			Success:    .9998,
			Rate:       63_500,
			Mean:       1.01e6,
			P99:        5.20e6,
			RawMean:    .99e6,
			RawP99:     5.1e6,
			Backfilled: .013,
		},
		Lines: []wrkcheck.Line{
			{What: "mean", Wrk: 1.00e6, Own: 1.01e6, Difference: .01, Allowed: .025, RoundingIncluded: .005, OK: true},
			{What: "success", Wrk: 1, Own: .9998, Difference: -.0002, Allowed: .0002, OK: true},
			{What: "p99", Wrk: 1.70e6, Own: 5.20e6, Difference: 3.5e6, Allowed: 3.005e6, RoundingIncluded: 5000},
		},
		Rounds: 3,
	}
	golden(t, "verify.txt", text.Verify(r))
}

func aModel() *model.Model {
	between := func(low, estimate, high float64) model.Interval {
		return model.Interval{Low: low, Estimate: estimate, High: high, Confidence: .95}
	}
	return &model.Model{
		Demands: []model.Demand{
			{
				Resource: "target cpu",
				Unit:     "s",
				Per:      between(480e-6, 500e-6, 520e-6),
				Capacity: 1,
				Bound:    between(1923, 2000, 2083),
				How:      "processor time of the process ÷ requests",
			},
			{Resource: "workers", Unit: "s", Per: between(.9e-3, 1e-3, 1.1e-3), Capacity: 4, Bound: between(3636, 4000, 4444)},
		},
		Smallest: "target cpu",
		USL: &model.USL{
			Lambda: between(990, 1000, 1010),
			Sigma:  between(.01, .02, .03),
			Kappa:  between(0, 1e-4, 2e-4),
			R2:     .998,
			PeakN:  99,
			PeakX:  1950,
			Reach:  200,
		},
		Predictions: []model.Prediction{{
			Made:     6,
			Upto:     900,
			Line:     between(1700, 1800, 1900),
			Limit:    "target cpu",
			How:      "a queue with 1 worker",
			Measured: between(1850, 1905, 1960),
			Error:    -.0551,
		}},
		Checks: []model.Check{
			{Step: 1, Law: "Little"},
			{Step: 2, Law: "Little", Breach: true, Sentence: "X·R is 12.1, and 16.0 were in flight"},
		},
		Notes: []string{"the target's processors are shared with the generator"},
	}
}

func TestTheModel(t *testing.T) {
	golden(t, "model.txt", text.Model(aModel()))
	if got := text.Model(&model.Model{}); got != "The run says too little for a model.\n" {
		t.Errorf("%q", got)
	}
}

func TestWhatASurveyFound(t *testing.T) {
	m := &record.Manifest{
		Target: "http://127.0.0.1:8080/api",
		SLO:    "p99<50ms,errors<0.1%",
		Mix:    "GET /api",
	}
	rate := func(low, estimate, high float64) model.Interval {
		return model.Interval{Low: low, Estimate: estimate, High: high, Confidence: .95}
	}
	r := &record.Result{
		Line: record.Line{Interval: rate(1850, 1905, 1960), Found: true},
		Peak: record.Collapse{
			Found:   true,
			Rate:    rate(2000, 2100, 2200),
			Goodput: 1990,
			Why: "at 2,100 requests offered a second, 1,990 were answered well; " +
				"up to 1,905 all were, and from there on some of them were refused at once",
		},
		Collapse: record.Collapse{Why: "goodput held up to 3,900/s, the highest rate offered"},
		Recovery: record.Recovery{Tested: true, Recovered: true, After: 2.5},
		Noise:    record.Noise{P50: .01, P99: .03, Goodput: .002, Measured: true},
		Model:    *aModel(),
		Validity: []record.Validity{
			{What: "the generator kept its schedule", OK: true},
			{What: "two equal steps agree", Why: "p99 differed by 41 %"},
		},

		NotMeasured: []string{"hardware counters: the kernel has none"},
	}
	golden(t, "survey.txt", text.Survey(m, r))
	r.Early, r.Line = "it was stopped", record.Line{Why: "it lies above 1,200/s, which passed"}
	r.Recovery = record.Recovery{Why: "the survey ended before"}
	r.Peak = record.Collapse{Why: "not reached"}
	r.Noise = record.Noise{}
	r.Model.Predictions = nil
	golden(t, "survey-early.txt", text.Survey(m, r))
}

func TestStepsAndProgressOfASurveyAreOneLineEach(t *testing.T) {
	p := measure.StepPlan{
		Number: 7,
		Phase:  "refine",
		Rate:   1900,
		Length: 20e9,
		Why:    "between 1,850/s, which passed,\nand 1,960/s",
	}
	j := &record.Judgement{
		Verdict: record.Fail,
		Goodput: model.Interval{Estimate: 1880},
		Why:     "p99 is 61 ms",
		Objectives: []record.ObjectiveShare{{
			Objective: "p99<50ms",
			Share:     model.Interval{Estimate: .021},
			Allowed:   .01,
		}},
	}
	want := "step 7, refine: 1,900/s for 20.0 s: FAIL, goodput 1,880/s, p99<50ms: 2.10 " +
		"% missed it, 1.00 % allowed (p99 is 61 ms)"
	if got := text.Step(&p, j); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	j.Rate, j.Verdict = 1900, record.Undecided
	j.Objectives[0].Share.High, j.Objectives[0].Allowed = .04, .03
	if got := text.Step(&p, j); !strings.Contains(got, ": OK SO FAR, ") {
		t.Errorf("of an undecided step that held so far: %q", got)
	}
	e := survey.Event{Plan: p, Low: 1850, High: 1960, Left: 95e9}
	w := &measure.Window{Ended: measure.Tally{measure.OK: 100}, Response: spread(100, 2e6, 2e6)}
	want = "refine 7: 1,900/s  p99 2.00 ms  line 1,850 to 1,960/s  95.0 s left  between 1,850/s, " +
		"which passed,·and 1,960/s"
	if got := text.SurveyNow(&e, []*measure.Window{w}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Ctrl-C cuts off what is under way: a person has to see that the target did nothing wrong.
func TestWhatWasCutOffIsExplained(t *testing.T) {
	of := totals()
	of.Ended[measure.Unfinished] = 3
	if got := text.Load(&text.Run{Totals: of, Closed: true}); !strings.Contains(got,
		"unfinished") || !strings.Contains(got, "under way when the run was ended") {
		t.Error(got)
	}
}
