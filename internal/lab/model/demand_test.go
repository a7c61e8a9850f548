package model_test

import (
	"math"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/queue"
)

// sampleCPU gives a step the samples of a process that uses perRequest seconds per request and idle
// seconds per second at any rate. They are as coarse as the kernel's usual accounting: user and
// system time in ticks of 10 ms.
func sampleCPU(s *measure.Step, perRequest, idle float64) {
	s.Samples = nil
	done := 0.0
	tick := func(v float64) float64 { return math.Floor(v*100) / 100 }
	for i := 0; i <= len(s.Windows); i++ {
		at := int64(i) * window
		busy := done*perRequest + idle*float64(at)/1e9
		s.Samples = append(s.Samples, measure.Sample{At: at, Values: map[string]float64{
			"target.cpu.seconds":    10 + tick(busy*.7) + tick(busy*.3),
			"host.cpu.busy_seconds": 100 + 2*busy, "host.cores": 2,
		}})
		if i < len(s.Windows) {
			done += float64(s.Windows[i].Ended[measure.OK])
		}
	}
}

// sampled are steps with samples.
func sampled(perRequest, idle float64, rates ...float64) []measure.Step {
	var steps []measure.Step
	for i, rate := range rates {
		l := load{
			station: queue.Station{Workers: 8, Service: queue.Exponential(2 * ms), Room: -1},
			rate:    rate,
			length:  4 * second,
			seed:    uint64(i),
		}
		s := l.step(i + 1)
		sampleCPU(&s, perRequest, idle)
		steps = append(steps, s)
	}
	return steps
}

// demand is the one of a resource.
func demand(t *testing.T, all []model.Demand, resource string) model.Demand {
	t.Helper()
	for _, d := range all {
		if d.Resource == resource {
			return d
		}
	}
	t.Fatalf("no demand of %s in %+v", resource, all)
	return model.Demand{}
}

func TestTheDemandOfARequestIsTheSlopeAndIdlingIsTakenOff(t *testing.T) {
	d := demand(t, model.Demands(sampled(.0005, .2, 300, 600, 1200), model.Options{}), "target cpu")
	if math.Abs(d.Per.Estimate/.0005-1) > .03 || d.Per.Low > .0005 || d.Per.High < .0005 {
		t.Errorf("a request costs 0.5 ms, and %+v", d)
	}
	// Two cores, a fifth of one of them used at any rate.
	if want := 1.8 / .0005; math.Abs(d.Bound.Estimate/want-1) > .03 || d.Bound.Low > want ||
		d.Bound.High < want || d.Capacity != 2 {
		t.Errorf("the bound is 3600, and %+v", d)
	}
}

func TestOneRateCannotTellIdlingFromDemandAndSaysSo(t *testing.T) {
	d := demand(t, model.Demands(sampled(.0005, .1, 1000, 1050), model.Options{Cores: 4}),
		"target cpu")
	if !strings.Contains(d.How, "alike") || math.Abs(d.Per.Estimate/.0006-1) > .04 ||
		d.Capacity != 4 {
		t.Errorf("%+v", d)
	}
}

func TestWithoutCoresThereIsADemandAndNoBound(t *testing.T) {
	steps := sampled(.0005, 0, 300, 900)
	for i := range steps {
		for _, s := range steps[i].Samples {
			delete(s.Values, "host.cores")
		}
	}
	d := demand(t, model.Demands(steps, model.Options{}), "target cpu")
	if d.Bound != (model.Interval{}) || d.Per.Estimate == 0 ||
		!strings.Contains(d.How, "not known") {
		t.Errorf("%+v", d)
	}
}

func TestTheHostCountsOnItsOwnMachineOnlyAndWithoutTheGeneratorsSpinning(t *testing.T) {
	steps := sampled(.0005, 0, 300, 600, 1200)
	for i := range steps {
		t := &steps[i].Totals
		length := float64(t.Length+t.Drain) / 1e9
		// The generator works for 20 µs per request and spins for half of the time; both are in the
		// host's counter.
		work := 20e-6 * float64(t.Ended[measure.OK])
		t.Generator = measure.Generator{
			Loops: 1,
			Busy:  work / length,
			CPU:   int64((work + .5*length) * 1e9),
		}
		for _, s := range steps[i].Samples {
			s.Values["host.cpu.busy_seconds"] += .5 * float64(s.At) / 1e9
		}
	}
	for _, d := range model.Demands(steps, model.Options{}) {
		if d.Resource == "host cpu" {
			t.Errorf("the host is not the target's: %+v", d)
		}
	}
	all := model.Demands(steps, model.Options{Local: true})
	if d := demand(t, all, "host cpu"); math.Abs(d.Per.Estimate/.001-1) > .03 ||
		math.Abs(d.Bound.Estimate/2000-1) > .05 {
		t.Errorf("the host spends 1 ms on a request: %+v", d)
	}
	if d := demand(t, all, "generator cpu"); math.Abs(d.Per.Estimate/20e-6-1) > .03 ||
		d.Capacity != 1 {
		t.Errorf("the generator spends 20 µs on a request: %+v", d)
	}
	m := model.Fit(steps, model.Options{Local: true})
	if m.Smallest != "host cpu" || len(m.Notes) == 0 || m.USL == nil {
		t.Errorf("%+v", m)
	}
}

func TestStepsWithoutSamplesHaveNoDemand(t *testing.T) {
	l := load{
		station: queue.Station{Workers: 8, Service: queue.Exponential(2 * ms), Room: -1},
		rate:    500,
		length:  second,
	}
	if all := model.Demands([]measure.Step{l.step(1)}, model.Options{
		Cores: 2,
		Local: true,
	}); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	m := model.Fit(nil, model.Options{})
	if len(m.Demands) != 0 || m.USL.Note == "" || len(m.Checks) != 0 || len(m.Notes) == 0 {
		t.Errorf("%+v", m)
	}
}
