package report

import (
	"time"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// Data is a run reduced for a page: the result, figures for each step, and curves of bounded
// length. The page also offers it for download. Every field is plain JSON. Durations are in
// nanoseconds and rates in requests a second.
type Data struct {
	Manifest record.Manifest `json:"manifest"`
	Result   *record.Result  `json:"result"` // nil if the run has none
	// Goals: the SLO's objectives; empty if the SLO cannot be parsed
	Goals    []Goal   `json:"goals,omitempty"`
	Steps    []Step   `json:"steps,omitempty"` // in the order they were run
	Timeline Timeline `json:"timeline"`
	Notes    []string `json:"notes,omitempty"`
	// Diagnosis lacks its flame graphs, which are in Flames. Both are nil without a diagnosis.
	Diagnosis *diagnose.Diagnosis `json:"diagnosis,omitempty"`
	Flames    *Flames             `json:"flames,omitempty"`
}

// Goal is one objective of the SLO.
type Goal struct {
	Text string `json:"text"`
	// Limit: nanoseconds of response time; 0 if the objective is about failures
	Limit int64 `json:"limit_ns"`
}

// Step is a step of the run as a page shows it.
type Step struct {
	Number int     `json:"number"`
	Phase  string  `json:"phase"`
	Why    string  `json:"why,omitempty"`
	Rate   float64 `json:"rate_per_second"` // offered; the rate sent if Closed
	// Closed: each request was sent after the answer to the one before
	Closed      bool    `json:"closed,omitempty"`
	Connections int     `json:"connections"`
	Seconds     float64 `json:"seconds"` // of offered load, settling included
	// Judged: how many seconds the figures below cover
	Judged  float64           `json:"judged_seconds"`
	Verdict record.SLOVerdict `json:"verdict"`
	Because string            `json:"because,omitempty"` // the reason for the verdict
	Goodput model.Interval    `json:"goodput_per_second"`
	// Throughput: requests that got a whole answer, good or bad
	Throughput float64 `json:"throughput_per_second"`
	// A percentile of the response time is nil if it lies among the failed requests.
	P50         *int64  `json:"p50_ns"`
	P90         *int64  `json:"p90_ns"`
	P99         *int64  `json:"p99_ns"`
	P999        *int64  `json:"p99_9_ns"`
	Mean        float64 `json:"mean_ns"`
	ServiceMean float64 `json:"service_mean_ns"`
	Max         int64   `json:"max_ns"`
	LagP99      int64   `json:"lag_p99_ns"`
	// Errors: share of requests that did not end well
	Errors float64 `json:"error_share"`
	// Concurrency: average number of requests in the target, by Little's law from throughput and
	// service time
	Concurrency float64   `json:"concurrency"`
	Use         Use       `json:"use"`
	Curve       []Point   `json:"curve,omitempty"`
	Failures    []Failure `json:"failures,omitempty"`
	Invalid     string    `json:"invalid,omitempty"`
	// Full: why the generator may have limited a closed loop
	Full string `json:"full,omitempty"`
}

// Use is the use of the processors, as shares of all of them; nil if it was not measured.
type Use struct {
	Target    *float64 `json:"target_share"`
	Host      *float64 `json:"host_share"`
	Generator *float64 `json:"generator_share"`
	// PerRequest: seconds of the target's processor time per request
	PerRequest *float64 `json:"seconds_per_request"`
}

// Point is one point of a percentile curve: a share 1 − 1/X of all requests took at most Y
// nanoseconds.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Failure is one kind of failure in a step.
type Failure struct {
	Kind    string `json:"kind"`
	Count   uint64 `json:"count"`
	Example string `json:"example,omitempty"`
}

// judged returns the windows that count for a step's verdict: those after the settling, or all if
// the step ended before that.
func judged(s *measure.Step) []measure.Window {
	for i := range s.Windows {
		if s.Windows[i].Start >= s.Plan.Settle {
			return s.Windows[i:]
		}
	}
	return s.Windows
}

// total adds windows up. It does not add their lengths: the last window includes the drain and is
// longer than its offered load.
func total(ws []measure.Window) measure.Totals {
	var t measure.Totals
	var response, service, lag measure.Histogram
	for i := range ws {
		w := &ws[i]
		t.Due += w.Due
		t.Sent += w.Sent
		t.Ended.Add(&w.Ended)
		response.MergeSparse(&w.Response)
		service.MergeSparse(&w.Service)
		lag.MergeSparse(&w.Lag)
	}
	t.Response, t.Service, t.Lag = response.Sparse(), service.Sparse(), lag.Sparse()
	return t
}

// MakeData reduces a run. It is a pure function. The result shares no memory with the run.
func MakeData(run *record.Run) *Data {
	d := &Data{}
	var steps []measure.Step
	d.Manifest, d.Result, steps, d.Notes = shortened(run)
	if goals, err := slo.Parse(run.Manifest.SLO); err == nil {
		for _, o := range goals {
			d.Goals = append(d.Goals, Goal{o.Text, o.Limit})
		}
	}
	grounds := map[int]record.Judgement{}
	if run.Result != nil {
		for _, j := range run.Result.Judgements {
			grounds[j.Step] = j
		}
	}
	for i := range steps {
		s := &steps[i]
		d.Steps = append(d.Steps, makeStep(s, grounds[s.Plan.Number], run.Manifest.Machine.Cores))
	}
	d.Timeline = makeTimeline(steps)
	return d
}

func makeStep(s *measure.Step, j record.Judgement, cores int) Step {
	ws := judged(s)
	t := total(ws)
	length := s.Totals.Length
	if len(ws) > 0 {
		length -= ws[0].Start
	}
	if t.Ended.Total() == 0 || length <= 0 {
		t, length = s.Totals, s.Totals.Length
	}
	seconds := float64(length) / float64(time.Second)
	out := Step{
		Number:      s.Plan.Number,
		Phase:       clip(s.Plan.Phase, 30),
		Why:         clip(s.Plan.Why, mostText),
		Rate:        s.Plan.Rate,
		Connections: s.Plan.Connections,
		Seconds:     float64(s.Totals.Length) / float64(time.Second),
		Judged:      seconds,
		Verdict:     record.SLOVerdict(clip(string(j.Shown()), 30)),
		Because:     clip(j.Why, mostText),
		Goodput:     j.Goodput,
		Mean:        t.Response.Mean(),
		ServiceMean: t.Service.Mean(),
		Max:         t.Response.Max,
		LagP99:      t.Lag.Quantile(.99),
		Curve:       curve(&t.Response, t.Ended.Total()),
		Invalid:     clip(s.Totals.Generator.Invalid, mostText),
		Full:        clip(s.Totals.Generator.Full, 300),
	}
	if out.Rate <= 0 {
		out.Rate, out.Closed = s.Totals.Rate(), true
	}
	if n := t.Ended.Total(); n > 0 {
		out.Errors = float64(t.Ended.Failed()) / float64(n)
	}
	if seconds > 0 {
		// The last window includes the drain. What ended in the drain was not done in these
		// seconds.
		ok := t.Ended[measure.OK] - min(s.Totals.Drained, t.Ended[measure.OK])
		out.Throughput = float64(ok+t.Ended[measure.BadStatus]+t.Ended[measure.BadAnswer]) / seconds
		if out.Goodput.Estimate <= 0 {
			good := float64(ok) / seconds
			out.Goodput = model.Interval{Low: good, Estimate: good, High: good}
		}
		out.Concurrency = float64(t.Ended[measure.OK]) / seconds * t.Service.Mean() /
			float64(time.Second)
	}
	out.P50, out.P90, out.P99, out.P999 = quantile(&t, .5), quantile(&t, .9), quantile(&t, .99),
		quantile(&t, .999)
	out.Failures = failures(&s.Totals)
	out.Use = use(s, cores)
	return out
}

func quantile(t *measure.Totals, q float64) *int64 {
	ns, ok := t.Quantile(q)
	if !ok {
		return nil
	}
	return &ns
}

func failures(t *measure.Totals) (all []Failure) {
	for kind := measure.OK + 1; int(kind) < measure.Kinds; kind++ {
		if n := t.Ended[kind]; n > 0 {
			all = append(all, Failure{kind.String(), n, clip(t.Examples[kind.String()], 300)})
		}
	}
	return all
}

// clip cuts a text from outside to n bytes, between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
