package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/report"
)

func TestDataIsSmallWhateverTheRun(t *testing.T) {
	long := plain()
	long.rates = append(append(append([]float64{}, long.rates...), long.rates...), long.rates...)
	for name, c := range map[string]struct {
		shop shop
		most int
	}{"twelve steps": {plain(), 150_000}, "thirty-six steps": {long, 300_000}} {
		text, err := json.Marshal(report.MakeData(c.shop.survey()))
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > c.most {
			t.Errorf("%s: %d bytes of data, more than %d", name, len(text), c.most)
		}
	}
}

func TestTheSameRunGivesTheSameData(t *testing.T) {
	a, _ := json.Marshal(report.MakeData(plain().survey()))
	b, _ := json.Marshal(report.MakeData(plain().survey()))
	if string(a) != string(b) {
		t.Error("two reductions of one run differ")
	}
}

// windows makes a step of windows that are given as response times in milliseconds and a number of
// requests that timed out.
func windows(settle int, all ...struct {
	ms     []int64
	failed uint64
}) measure.Step {
	const length = int64(1e9)
	s := measure.Step{Plan: measure.StepPlan{Number: 1, Rate: 3, Settle: int64(settle) * length}}
	for i, w := range all {
		var h measure.Histogram
		for _, ms := range w.ms {
			h.Record(ms * 1e6)
		}
		win := measure.Window{
			Start:    int64(i) * length,
			Length:   length,
			Due:      uint64(len(w.ms)) + w.failed,
			Response: h.Sparse(),
			Service:  h.Sparse(),
		}
		win.Ended[measure.OK], win.Ended[measure.Timeout] = uint64(len(w.ms)), w.failed
		s.Windows = append(s.Windows, win)
		s.Totals.Ended.Add(&win.Ended)
		s.Totals.Length += length
	}
	return s
}

type w = struct {
	ms     []int64
	failed uint64
}

func TestOnlyWhatCameAfterTheSettlingIsReported(t *testing.T) {
	d := report.MakeData(&record.Run{
		Steps: []measure.Step{
			windows(1, w{[]int64{900, 900}, 3}, w{[]int64{10, 10, 10}, 0},
				w{[]int64{10, 10, 10}, 0}),
		},
	})
	s := d.Steps[0]
	if s.Errors != 0 || s.Max > 11e6 || s.Judged != 2 || s.Throughput != 3 ||
		s.Goodput.Estimate != 3 {
		t.Errorf("%+v", s)
	}
}

func TestAPercentileAmongFailuresHasNoValue(t *testing.T) {
	d := report.MakeData(&record.Run{
		Steps: []measure.Step{windows(0, w{[]int64{10, 10, 10, 10, 10, 10, 10, 10}, 2})},
	})
	s := d.Steps[0]
	if s.P50 == nil || s.P90 != nil || s.P99 != nil || math.Abs(s.Errors-.2) > 1e-9 {
		t.Errorf("%+v", s)
	}
	if end := s.Curve[len(s.Curve)-1]; math.Abs(end.X-5) > 1e-6 {
		t.Errorf("8 of 10 requests were answered, and the curve ends at 1/(1-p) = %v, not at 5",
			end.X)
	}
}

func TestTheCurveIsThatOfTheHistogram(t *testing.T) {
	run := plain().survey()
	for i, s := range report.MakeData(run).Steps {
		var h measure.Histogram
		var all uint64
		for j := range run.Steps[i].Windows {
			if win := &run.Steps[i].Windows[j]; win.Start >= run.Steps[i].Plan.Settle {
				h.MergeSparse(&win.Response)
				all += win.Ended.Total()
			}
		}
		sparse := h.Sparse()
		if len(s.Curve) < 20 || len(s.Curve) > 102 {
			t.Errorf("step %d: %d points", s.Number, len(s.Curve))
		}
		// the last is the longest duration, not its bucket's end
		for _, p := range s.Curve[:len(s.Curve)-1] {
			slower := sparse.Over(int64(p.Y)) + float64(all-sparse.Count())
			if want := float64(all) / p.X; p.X < float64(all) &&
				math.Abs(slower-want) > want*.001+.01 {
				t.Errorf("step %d: %v requests are slower than %v ns, the curve says %v",
					s.Number, slower, p.Y, want)
			}
		}
	}
}

func TestTheTimelineLosesNoRequest(t *testing.T) {
	run := plain().survey()
	d := report.MakeData(run)
	for i, span := range d.Timeline.Steps {
		var spots int
		for _, at := range d.Timeline.At {
			if at > span.From && at < span.To {
				spots++
			}
		}
		if spots == 0 ||
			math.Abs(span.To-span.From-
				seconds(run.Steps[i].Totals.Length+run.Steps[i].Totals.Drain)) > 1e-6 {
			t.Errorf("step %d: %d spots between %v and %v", span.Number, spots, span.From, span.To)
		}
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func TestSaturationComesFromTheCounters(t *testing.T) {
	s := windows(1, w{[]int64{10}, 0}, w{[]int64{10, 10}, 0}, w{[]int64{10, 10}, 0})
	for i, v := range []float64{5, 7, 8, 9} {
		s.Samples = append(s.Samples, measure.Sample{At: int64(i) * 1e9, Values: map[string]float64{
			"target.cpu.seconds": 2 * v, "host.cores": 4}})
	}
	s.Totals.Generator.CPU = 3e9
	u := report.MakeData(&record.Run{Steps: []measure.Step{s}}).Steps[0].Use
	if u.Target == nil || *u.Target != .5 || u.PerRequest == nil || *u.PerRequest != 1 ||
		u.Generator == nil || *u.Generator != .25 {
		t.Errorf("4 s of processor time in 2 s on 4 cores for 4 requests: %+v", u)
	}
	if u.Host != nil {
		t.Error("a share of the host although its counter was not read")
	}
}

// A run directory may come from anywhere: whatever its texts and lists hold, the page stays one
// that a browser opens.
func TestDataIsSmallWhateverTheTextsOfARun(t *testing.T) {
	run := plain().survey()
	long := strings.Repeat("é", 1<<20)
	run.Manifest.Target, run.Manifest.Mix = long, long
	run.Manifest.Settings = map[string]string{}
	for i := range 5000 {
		run.Manifest.Command = append(run.Manifest.Command, long)
		run.Manifest.Settings[fmt.Sprint(i, long[:1000])] = long
		run.Result.NotMeasured = append(run.Result.NotMeasured, long)
	}
	run.Result.Early, run.Result.Line.Why = long, long
	run.Notes = append(run.Notes, long)
	for i := range run.Result.Judgements {
		run.Result.Judgements[i].Why = long
	}
	for i := range run.Steps {
		run.Steps[i].Plan.Why = long
		run.Steps[i].Plan.Phase = long
		run.Steps[i].Totals.Generator.Invalid = long
	}
	var page bytes.Buffer
	if err := report.Write(&page, run, nil); err != nil {
		t.Fatal(err)
	}
	if page.Len() > 1<<20 {
		t.Errorf("a page of %d bytes", page.Len())
	}
	if len(run.Manifest.Command) < 5000 || run.Manifest.Target != long {
		t.Error("the run itself was changed")
	}
}
