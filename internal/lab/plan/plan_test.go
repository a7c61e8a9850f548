package plan_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/plan"
	"plimsoll/internal/lab/record"
)

// step returns a step that offered a rate for 10 s, the first second of which is not judged. values
// returns the values of a sample at a time of the step.
func step(
	number int, rate float64, connections int, values func(seconds float64) map[string]float64,
) measure.Step {
	s := measure.Step{
		Plan: measure.StepPlan{
			Number:      number,
			Phase:       "refine",
			Rate:        rate,
			Length:      10e9,
			Settle:      1e9,
			Connections: connections,
		},
	}
	for i := range 40 {
		w := measure.Window{Start: int64(i) * 250e6, Length: 250e6}
		w.Ended[measure.OK] = uint64(rate / 4)
		s.Windows = append(s.Windows, w)
		s.Totals.Ended.Add(&w.Ended)
		if values != nil {
			s.Samples = append(s.Samples, measure.Sample{
				At:     w.End(),
				Values: values(float64(w.End()) / 1e9),
			})
		}
	}
	s.Totals.Length = 10e9
	s.Totals.Due = uint64(10 * rate)
	s.Totals.ConnectionsMade = uint64(connections)
	s.Totals.Peak = connections / 2
	return s
}

// cpu is a service that takes .1 core and 500 µs a request.
func cpu(rate float64) func(float64) map[string]float64 {
	return func(t float64) map[string]float64 {
		return map[string]float64{"target.cpu.seconds": 7 + t*(.1+.0005*rate)}
	}
}

// surveyed is a run whose line is 1000 to 1100 requests a second.
func surveyed(steps ...measure.Step) *record.Run {
	return &record.Run{
		Manifest: record.Manifest{
			Kind:   "survey",
			Target: "http://10.0.0.1/",
			SLO:    "p99<50ms",
			Mix:    "GET /",
		},
		Steps: steps,
		Result: &record.Result{
			Line: record.Line{
				Found:    true,
				Interval: model.Interval{Low: 1000, Estimate: 1050, High: 1100, Confidence: .95},
			},
		},
	}
}

func usual() *record.Run {
	return surveyed(step(1, 200, 64, cpu(200)), step(2, 500, 64, cpu(500)),
		step(3, 800, 64, cpu(800)), step(4, 1000, 64, cpu(1000)))
}

func planned(t *testing.T, run *record.Run, o plan.Options) *plan.DeploymentPlan {
	t.Helper()
	p, err := plan.Make(run, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestTheInstancesCarryTheRateAlsoWhenSomeAreLost(t *testing.T) {
	for name, c := range map[string]struct {
		o             plan.Options
		needed, count int
		added         string
	}{
		// 800/s each is safe, which takes 50 instances. They also carry the loss of one, as
		// 40000 ÷ 49 is within the line.
		"one zone":                         {plan.Options{Rate: 40000, Headroom: .2}, 50, 50, ""},
		"of three zones one may be lost":   {plan.Options{Rate: 40000, Headroom: .2, Zones: 3}, 50, 60, "one zone of 3"},
		"of two zones one may be lost":     {plan.Options{Rate: 40000, Headroom: .2, Zones: 2}, 50, 80, "one zone of 2"},
		"enough headroom for a zone":       {plan.Options{Rate: 40000, Headroom: .5, Zones: 3}, 80, 80, ""},
		"no headroom":                      {plan.Options{Rate: 40000}, 40, 41, "one instance"},
		"less than one instance":           {plan.Options{Rate: 5, Headroom: .2}, 1, 2, "one instance"},
		"less than one instance, in zones": {plan.Options{Rate: 5, Headroom: .2, Zones: 3}, 1, 2, "one zone of 3"},
		"exactly two":                      {plan.Options{Rate: 1600, Headroom: .2}, 2, 3, "one instance"},
		"exactly the line":                 {plan.Options{Rate: 1000}, 1, 2, "one instance"},
		"an uneven spread":                 {plan.Options{Rate: 2000, Headroom: .2, Zones: 3}, 3, 3, ""},
		"almost no headroom left":          {plan.Options{Rate: 100, Headroom: .99}, 10, 10, ""},
	} {
		p := planned(t, usual(), c.o)
		i := p.Instances
		if i.Needed != c.needed || i.Count != c.count || i.Added != c.added {
			t.Errorf("%s: %d needed, %d with losses because of %q; want %d, %d, %q",
				name, i.Needed, i.Count, i.Added, c.needed, c.count, c.added)
		}
		near(t, name+": the rate of each", i.Each.Value, c.o.Rate/float64(c.count), 1e-9)
		for _, l := range i.Losses {
			if !l.Holds || l.Each > 1000+1e-6 || l.Left < 1 || l.Lost+l.Left != c.count {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if wants := 1 + min(max(c.o.Zones-1, 0), 1); len(i.Losses) != wants {
			t.Errorf("%s: %d kinds of loss, want %d", name, len(i.Losses), wants)
		}
	}
}

func TestWhatALossWouldHaveDoneWithoutMoreInstancesIsSaid(t *testing.T) {
	i := planned(t, usual(), plan.Options{Rate: 40000, Headroom: .2, Zones: 3}).Instances
	zone := i.Losses[1]
	if zone.Lost != 20 || zone.Left != 40 || zone.Each != 1000 || zone.Before == nil {
		t.Fatalf("%+v", zone)
	}
	if b := zone.Before; b.Lost != 17 || b.Left != 33 || b.Holds ||
		math.Abs(b.Share-1.2121) > .001 {
		t.Errorf("%+v", *b)
	}
}

func TestTheProcessorsShareIsFittedOverTheSteps(t *testing.T) {
	run := usual()
	warm := step(5, 900, 64, cpu(90000))
	warm.Plan.Phase = "warm-up"
	profiled := step(6, 1000, 64, cpu(90000))
	profiled.Plan.Phase = measure.PhaseAtLine
	beyond := step(10, 900, 64, cpu(90000))
	beyond.Plan.Phase = measure.PhaseOverload
	recovering := step(11, 300, 64, cpu(90000))
	recovering.Plan.Phase = measure.PhaseRecovery
	overloaded := step(7, 1500, 64, cpu(90000))
	refusing := step(8, 500, 64, cpu(90000))
	refusing.Totals.Ended[measure.BadStatus] += refusing.Totals.Ended[measure.OK]
	run.Steps = append(run.Steps, warm, profiled, beyond, recovering, overloaded, refusing,
		step(9, 700, 64, nil))
	c := planned(t, run, plan.Options{Rate: 40000, Headroom: .2}).CPU
	if c == nil || c.Steps != 4 {
		t.Fatalf("%+v: the four gentle steps count", c)
	}
	near(t, "what idling costs", c.Idle.Value, .1, .001)
	near(t, "what a request costs", c.PerRequest.Value, .0005, .001)
	near(t, "at the safe rate", c.AtSafe.Value, .5, .001)
	near(t, "at the line", c.AtLine.Value, .6, .001)
}

func TestWhatIsSampledInTheDrainDoesNotCount(t *testing.T) {
	draining := func(number int, rate float64) measure.Step {
		s := step(number, rate, 64, holding(rate, 50))
		last := s.Samples[len(s.Samples)-1].Values["target.cpu.seconds"]
		for i := range 20 {
			// It finishes the remaining requests on two cores, with a database connection for each.
			s.Samples = append(s.Samples, measure.Sample{
				At: 10e9 + int64(i+1)*250e6,
				Values: map[string]float64{
					"target.cpu.seconds":      last + float64(i+1)*.5,
					"db.in_use":               50,
					"target.memory.rss_bytes": 9e9,
				},
			})
		}
		return s
	}
	p := planned(t, surveyed(draining(1, 200), draining(2, 500), draining(3, 1000)),
		plan.Options{Rate: 8000, Headroom: .2, DatabaseConnections: 500})
	near(t, "what idling costs", p.CPU.Idle.Value, .1, .001)
	near(t, "what a request costs", p.CPU.PerRequest.Value, .0005, .001)
	if d := p.Database; d.Needed == nil || d.Needed.Value != 28 {
		t.Errorf("%+v", d.Needed)
	}
}

func TestALastSampleThatComesALittleLateCounts(t *testing.T) {
	run := usual()
	for i := range run.Steps {
		s := &run.Steps[i]
		// at 1 s, where the judged part begins, and at 10 s
		s.Samples = []measure.Sample{s.Samples[3], s.Samples[39]}
		s.Samples[1].At += 40e6
	}
	if c := planned(t, run, plan.Options{Rate: 4000, Headroom: .2}).CPU; c == nil || c.Steps != 4 {
		t.Errorf("%+v", c)
	}
}

// Values that no measurement gives, in a run directory from elsewhere, must not become infinities,
// which JSON cannot represent.
func TestAbsurdFiguresInARunLeaveAPlanThatCanBePrinted(t *testing.T) {
	for name, absurd := range map[string]map[string]float64{
		"a negative pool":       {"db.in_use": -5000},
		"an enormous pool":      {"db.in_use": 1e308},
		"processor time":        {"target.cpu.seconds": 1e308},
		"negative time":         {"target.cpu.seconds": -1e308},
		"resident memory":       {"target.memory.rss_bytes": 1.7e308},
		"a number of listeners": {"listener.connections.established": 1e308},
	} {
		run := surveyed(step(1, 200, 64, holding(200, 50)), step(2, 600, 64, holding(600, 50)),
			step(3, 1000, 64, holding(1000, 50)),
			holder(4, 100, 5, 0), holder(5, 1000, 5, 0), holder(6, 2000, 5, 0))
		for i := range run.Steps {
			samples := run.Steps[i].Samples
			for key, v := range absurd {
				samples[i+10].Values[key], samples[len(samples)-1].Values[key] = v, v
			}
		}
		p := planned(t, run, plan.Options{
			Rate:                40000,
			Headroom:            .2,
			Zones:               3,
			DatabaseConnections: 500,
			Idle:                5000,
		})
		if _, err := json.Marshal(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := p.Database; d == nil || d.Needed == nil || d.Needed.Value > 100 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestStepsOfOneRateCannotTellIdlingFromWork(t *testing.T) {
	for name, run := range map[string]*record.Run{
		"one step": surveyed(step(1, 1000, 64, cpu(1000))),
		"much alike": surveyed(step(1, 900, 64, cpu(900)), step(2, 950, 64, cpu(950)),
			step(3, 1000, 64, cpu(1000))),
		"below 0": surveyed(step(1, 100, 64, cpu(-180)), step(2, 500, 64, cpu(500)),
			step(3, 1000, 64, cpu(1500))),
		"two of them": surveyed(step(1, 100, 64, cpu(100)), step(2, 1000, 64, cpu(1000))),
	} {
		c := planned(t, run, plan.Options{Rate: 40000, Headroom: .2}).CPU
		if c == nil || c.Idle.Value != 0 || c.PerRequestError != 0 || c.PerRequest.Value < .0005 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestTheAutoscalersTargetLeavesRoomForWhatIsComing(t *testing.T) {
	for name, c := range map[string]struct {
		o    plan.Options
		rate float64 // of an instance, to aim at
		cpu  int     // % of the request, which is .6 of a core at the line
		most int
		why  string
	}{
		// Safe is 800; the line less tolerance 909; less one of 9 808.
		"nothing grows": {plan.Options{Rate: 40000, Headroom: .2}, 800, 83, 50, "safe rate"},
		"it grows": {
			plan.Options{Rate: 40000, Headroom: .2, Growth: .05, PodStart: 30 * time.Second},
			800 / 1.05, 80, 53,
			"grow by 5.00 % a minute for 60 s",
		},
		"it grows fast": {
			plan.Options{Rate: 40000, Headroom: .2, Growth: 1, PodStart: 30 * time.Second}, 400, 50,
			100, "grow by 100 % a minute",
		},
		"no headroom":       {plan.Options{Rate: 40000, Zones: 1}, 1000 * 8. / 9 / 1.1, 84, 50, "one instance may be lost"},
		"a zone of 3":       {plan.Options{Rate: 40000, Headroom: .2, Zones: 3}, 600 / 1.1, 62, 74, "one zone of 3 may be lost"},
		"a start in itself": {plan.Options{Rate: 40000, Headroom: .2, PodStart: 10 * time.Minute}, 800, 83, 50, "safe rate"},
	} {
		p := planned(t, usual(), c.o)
		a := p.Autoscaler
		near(t, name+": the rate to aim at", a.TargetRate.Value, c.rate, .001)
		near(t, name+": the request", a.RequestCPU.Value, .6, .02)
		if a.TargetCPU < c.cpu-1 || a.TargetCPU > c.cpu || a.MaxReplicas != c.most ||
			!strings.Contains(a.TargetRate.How, c.why) {
			t.Errorf("%s: %d %% of up to %d because of %q; want %d %%, %d, %q",
				name, a.TargetCPU, a.MaxReplicas, a.TargetRate.How, c.cpu, c.most, c.why)
		}
		// The highest rate that the autoscaler allows for an instance, with all planned effects, is
		// within the line.
		if worst := a.TargetRate.Value * a.Grown * 1.1; worst > 1000.01 {
			t.Errorf("%s: an instance may come to %v/s", name, worst)
		}
		if a.MinReplicas < max(2, c.o.Zones) || a.MaxReplicas < a.MinReplicas ||
			a.Surge*4 < a.MaxReplicas {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestAnyNumberOfInstancesThatMayRunSurvivesALoss(t *testing.T) {
	for name, c := range map[string]struct {
		o      plan.Options
		rate   float64 // of an instance, to aim at
		fewest int
		why    string
	}{
		// Of 4 over 3 zones half is lost, and of 7 more than 4 tenths: 8 lose 3, and 10 lose 4.
		"three zones": {plan.Options{Rate: 40000, Headroom: .2, Zones: 3}, 600 / 1.1, 8, "one zone of 3 may be lost (4 of 10 instances)"},
		"two zones": {
			plan.Options{Rate: 40000, Headroom: .2, Zones: 2}, 1000 * 5. / 11 / 1.1, 10,
			"one zone of 2 may be lost (6 of 11 instances)",
		},
		"ten zones": {
			plan.Options{Rate: 40000, Headroom: .2, Zones: 10}, 1000 * 9. / 11 / 1.1, 10,
			"one zone of 10 may be lost (2 of 11 instances)",
		},
		"one zone": {plan.Options{Rate: 40000, Headroom: .2}, 800, 9, "safe rate"},
		// Where the target is lower for another reason, fewer instances survive a loss.
		"much headroom": {plan.Options{Rate: 40000, Headroom: .5, Zones: 3}, 500, 5, "safe rate"},
		"growing fast": {
			plan.Options{
				Rate:     40000,
				Headroom: .2,
				Zones:    3,
				Growth:   1,
				PodStart: 30 * time.Second,
			},
			400,
			3,
			"may grow",
		},
		"a small one":                  {plan.Options{Rate: 2000, Headroom: .2, Zones: 3}, 1000 * 2. / 3 / 1.1, 3, "(1 of 3 instances)"},
		"a very small one":             {plan.Options{Rate: 5, Headroom: .2, Zones: 3}, 500 / 1.1, 3, "(1 of 2 instances)"},
		"a very small one in one zone": {plan.Options{Rate: 5, Headroom: .2}, 500 / 1.1, 2, "one instance may be lost"},
	} {
		p := planned(t, usual(), c.o)
		a := p.Autoscaler
		near(t, name+": the rate to aim at", a.TargetRate.Value, c.rate, 1e-6)
		if a.MinReplicas != c.fewest || !strings.Contains(a.TargetRate.How, c.why) {
			t.Errorf("%s: from %d, because of %q; want %d, %q",
				name, a.MinReplicas, a.TargetRate.How, c.fewest, c.why)
		}
		for n := a.MinReplicas; n <= a.MaxReplicas; n++ {
			lost := 1
			if z := c.o.Zones; z > 1 {
				lost = (n + z - 1) / z
			}
			// With all of the tolerance used up; there is never more than the planned rate.
			load := min(c.o.Rate, float64(n)*a.TargetRate.Value*1.1)
			if each := load / float64(n-lost); each > 1000.001 {
				t.Errorf("%s: of %d instances %d are lost, and the others get %v/s each",
					name, n, lost, each)
			}
		}
	}
}

func TestASmallServiceStillHasOneInEachZone(t *testing.T) {
	p := planned(t, usual(), plan.Options{Rate: 5, Headroom: .2, Zones: 3})
	if a := p.Autoscaler; a.MinReplicas != 3 || a.MaxReplicas != 3 {
		t.Errorf("%d to %d", a.MinReplicas, a.MaxReplicas)
	}
}

func TestWhereIdlingCostsMostTheProcessorIsAPoorGuide(t *testing.T) {
	lazy := func(rate float64) func(float64) map[string]float64 {
		return func(t float64) map[string]float64 {
			return map[string]float64{"target.cpu.seconds": t * (1.9 + .0001*rate)}
		}
	}
	run := surveyed(step(1, 200, 64, lazy(200)), step(2, 600, 64, lazy(600)),
		step(3, 1000, 64, lazy(1000)))
	if p := planned(t, run, plan.Options{
		Rate:     4000,
		Headroom: .2,
	}); !strings.Contains(strings.Join(p.Cautions, "\n"), "scale on requests a second") {
		t.Error(p.Cautions)
	}
	if p := planned(t, usual(), plan.Options{
		Rate:     4000,
		Headroom: .2,
	}); strings.Contains(strings.Join(p.Cautions, "\n"), "scale on requests a second") {
		t.Error(p.Cautions)
	}
}

func TestWhatARunDoesNotShowIsMissingRatherThanGuessed(t *testing.T) {
	noLine := usual()
	noLine.Result.Line = record.Line{Why: "above 20000, where the generator was the limit"}
	cutOff := usual()
	cutOff.Result = nil
	zero := usual()
	zero.Result.Line.Interval.Low = 0
	loaded := usual()
	loaded.Manifest.Kind, loaded.Result.Line = "load", record.Line{}
	noCPU := surveyed(step(1, 500, 64, nil), step(2, 1000, 64, nil))
	for name, c := range map[string]struct {
		run       *record.Run
		want      string
		instances bool
	}{
		"no line":           {noLine, "above 20000, where the generator was the limit", false},
		"cut off":           {cutOff, "cut off before its load line was found", false},
		"a line that is 0":  {zero, "no rate is safe", false},
		"a load":            {loaded, "this run is not a survey", false},
		"no processor time": {noCPU, "--pid", true},
	} {
		p := planned(t, c.run, plan.Options{Rate: 4000, Headroom: .2, DatabaseConnections: 100})
		if len(p.Missing) != 1 || !strings.Contains(p.Missing[0], c.want) ||
			(p.Instances != nil) != c.instances || p.Autoscaler != nil || p.Manifest() != nil {
			t.Errorf("%s: %+v", name, p)
		}
		if c.instances && p.Database == nil {
			t.Errorf("%s: the pools need no processor time", name)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	good := plan.Options{Rate: 100}
	for want, change := range map[string]func(o *plan.Options){
		"the rate must be above 0":  func(o *plan.Options) { o.Rate = 0 },
		"at most 1e+09":             func(o *plan.Options) { o.Rate = math.Inf(1) },
		"the rate must":             func(o *plan.Options) { o.Rate = math.NaN() },
		"leaves nothing to serve":   func(o *plan.Options) { o.Headroom = 1 },
		"from 0 % to below 100 %":   func(o *plan.Options) { o.Headroom = -.1 },
		"takes 0s to 1h":            func(o *plan.Options) { o.PodStart = 2 * time.Hour },
		"the growth is":             func(o *plan.Options) { o.Growth = math.NaN() },
		"the database allows":       func(o *plan.Options) { o.DatabaseConnections = -1 },
		"zones":                     func(o *plan.Options) { o.Zones = -1 },
		"0 to 1000000 together":     func(o *plan.Options) { o.Idle, o.Active = 600_000, 600_000 },
		"small letters, digits":     func(o *plan.Options) { o.Deployment = "Shop\nkind: Secret" },
		"more than 100000 instance": func(o *plan.Options) { o.Rate = 1e9 },
	} {
		o := good
		change(&o)
		if _, err := plan.Make(usual(), nil, o); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestSharesAndGrowthsAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]float64{
		"20%":  .2,
		"20 %": .2,
		"0.2":  .2,
		"0":    0,
		"150%": 1.5,
	} {
		var s plan.Share
		if err := s.UnmarshalText([]byte(text)); err != nil || math.Abs(float64(s)-want) > 1e-12 {
			t.Errorf("%q is %v, %v", text, s, err)
		}
	}
	for text, want := range map[string]float64{
		"5%/min": .05,
		"5%":     .05,
		"0.1%/s": .06,
		"60%/h":  .01,
		"0.05/m": .05,
	} {
		var g plan.Growth
		if err := g.UnmarshalText([]byte(text)); err != nil || math.Abs(float64(g)-want) > 1e-12 {
			t.Errorf("%q is %v, %v", text, g, err)
		}
	}
	for _, text := range []string{"", "%", "much", "NaN", "inf%", "5%/fortnight", "5%/", "0x"} {
		var g plan.Growth
		if err := g.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %v", text, g)
		}
	}
}
