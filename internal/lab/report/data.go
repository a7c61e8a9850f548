package report

import (
	"time"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// Data is a run made small for a page: what was found, figures for each step, and curves of bounded
// length. It is also what the page offers to download. Every field is plain JSON; durations are
// nanoseconds and rates are requests a second.
type Data struct {
	Manifest record.Manifest
	Result   *record.Result // nil where the run has none
	Goals    []Goal         // the SLO's objectives, as far as they can be read
	Steps    []Step         // in the order they were run
	Timeline Timeline
	Notes    []string `json:",omitempty"`
	// Diagnosis is without its flames, which are in Flames; both are nil where no diagnosis was
	// made.
	Diagnosis *diagnose.Diagnosis `json:",omitempty"`
	Flames    *Flames             `json:",omitempty"`
}

// Goal is one objective of the SLO.
type Goal struct {
	Text  string
	Limit int64 // nanoseconds of response time; 0 where it is about failures
}

// Step is what a page says of one step.
type Step struct {
	Number      int
	Phase       string
	Why         string  `json:",omitempty"`
	Rate        float64 // offered; what was sent where Closed
	Closed      bool    `json:",omitempty"` // the next request was sent when the last had its answer
	Connections int
	Seconds     float64 // of offered load, settling included
	Judged      float64 // seconds that the figures below are of
	Verdict     record.SLOVerdict
	Because     string `json:",omitempty"` // the verdict's grounds
	Goodput     model.Interval
	Throughput  float64 // requests that got a whole answer, good or bad
	// The percentiles of the response time are nil where they lie among the requests that failed.
	P50, P90, P99, P999 *int64
	Mean, ServiceMean   float64
	Max                 int64
	LagP99              int64
	Errors              float64 // share of requests that did not end well
	Concurrency         float64 // requests in the target on average, by Little's law from throughput and service time
	Use                 Use
	Curve               []Point
	Failures            []Failure `json:",omitempty"`
	Invalid             string    `json:",omitempty"`
}

// Use is how much of the processors was used, as shares of all of them; nil where it was not
// measured.
type Use struct {
	Target, Host, Generator *float64
	PerRequest              *float64 // seconds of the target's processor time a request
}

// Point is one point of a percentile curve: a share 1 − 1/X of all requests took at most Y
// nanoseconds.
type Point struct{ X, Y float64 }

// Failure is one kind of failure in a step.
type Failure struct {
	Kind    string
	Count   uint64
	Example string `json:",omitempty"`
}

// judged are a step's windows that count for its verdict: those after the settling, or all when it
// ended before that.
func judged(s *measure.Step) []measure.Window {
	for i := range s.Windows {
		if s.Windows[i].Start >= s.Plan.Settle {
			return s.Windows[i:]
		}
	}
	return s.Windows
}

// total adds windows up. The last window holds the drain and is longer than its offered load, so
// lengths are not added here.
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

// MakeData reduces a run. It is a pure function, and shares no memory with the run.
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
		Number: s.Plan.Number, Phase: clip(s.Plan.Phase, 30), Why: clip(s.Plan.Why, mostText), Rate: s.Plan.Rate, Connections: s.Plan.Connections,
		Seconds: float64(s.Totals.Length) / float64(time.Second), Judged: seconds,
		Verdict: record.SLOVerdict(clip(string(j.Shown()), 30)), Because: clip(j.Why, mostText), Goodput: j.Goodput,
		Mean: t.Response.Mean(), ServiceMean: t.Service.Mean(), Max: t.Response.Max, LagP99: t.Lag.Quantile(.99),
		Curve: curve(&t.Response, t.Ended.Total()), Invalid: clip(s.Totals.Generator.Invalid, mostText),
	}
	if out.Rate <= 0 {
		out.Rate, out.Closed = s.Totals.Rate(), true
	}
	if n := t.Ended.Total(); n > 0 {
		out.Errors = float64(t.Ended.Failed()) / float64(n)
	}
	if seconds > 0 {
		// The last window holds the drain: what ended in it is none of what was done in these
		// seconds.
		ok := t.Ended[measure.OK] - min(s.Totals.Drained, t.Ended[measure.OK])
		out.Throughput = float64(ok+t.Ended[measure.BadStatus]+t.Ended[measure.BadAnswer]) / seconds
		if out.Goodput.Estimate <= 0 {
			good := float64(ok) / seconds
			out.Goodput = model.Interval{Low: good, Estimate: good, High: good}
		}
		out.Concurrency = float64(t.Ended[measure.OK]) / seconds * t.Service.Mean() / float64(time.Second)
	}
	out.P50, out.P90, out.P99, out.P999 = quantile(&t, .5), quantile(&t, .9), quantile(&t, .99), quantile(&t, .999)
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

// clip bounds a text from outside to n bytes, at the boundary of a letter.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
