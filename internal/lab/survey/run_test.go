package survey

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/record"
)

// four is a service of four workers and 5 ms, whose line is at 753 a second under Poisson arrivals.
func four() *simBench {
	return &simBench{
		station: queue.Station{Workers: 4, Service: queue.Constant(5 * ms), Room: -1},
		seed:    99,
	}
}

// coldUntilRefined is four, but a quarter as fast until the line is narrowed down.
func coldUntilRefined() *simBench {
	b := four()
	b.station.Service = queue.Constant(20 * ms)
	b.hook = func(p measure.StepPlan) {
		if p.Phase == measure.PhaseRefine {
			b.station.Service = queue.Constant(5 * ms)
		}
	}
	return b
}

func quick(t *testing.T) Options {
	return Options{SLO: parsed(t, "p99<50ms"), Quick: true, Seed: 3}
}

func run(t *testing.T, b Bench, o Options) *record.Result {
	t.Helper()
	r, err := Run(context.Background(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestASurveyGoesThroughItsPhasesInOrder(t *testing.T) {
	b := four()
	r := run(t, b, quick(t))
	var order []string
	for i, p := range b.plans {
		if p.Number != i+1 || p.Why == "" || p.Length <= p.Settle || p.Connections < 1 {
			t.Errorf("step %d: %+v", i+1, p)
		}
		if len(order) == 0 || order[len(order)-1] != p.Phase {
			order = append(order, p.Phase)
		}
	}
	if got := strings.Join(order, " "); got != "warm-up bracket noise refine overload recovery" {
		t.Error(got)
	}
	if len(r.Judgements) != len(b.plans) || !r.Recovery.Recovered || !r.Noise.Measured ||
		!r.Peak.Found || r.Collapse.Found {
		t.Errorf("%+v", r)
	}
	if g := r.Peak.Goodput; g < 760 || g > 840 {
		t.Errorf("the goodput peaks at %v; four workers do 800", g)
	}
	for _, v := range r.Validity {
		if !v.OK {
			t.Errorf("%s: %s", v.What, v.Why)
		}
	}
}

func TestHalfOfTheLineAndTheLineAreOfferedForProfilesAndDoNotMoveIt(t *testing.T) {
	plain, b := run(t, four(), quick(t)), four()
	o := quick(t)
	o.Profiled = true
	r := run(t, b, o)
	if plain.Line != r.Line {
		t.Errorf("with profiles the line is %+v, without %+v", r.Line, plain.Line)
	}
	line, seen := r.Line.Interval.Estimate, map[string]float64{}
	for _, p := range b.plans {
		seen[p.Phase] = p.Rate
	}
	if half, atLine := seen[measure.PhaseHalf], seen[measure.PhaseAtLine]; half < .49*line ||
		half > .51*line || atLine < .99*line || atLine > 1.01*line {
		t.Errorf("the line is %v; %v and %v were offered for profiles", line, half, atLine)
	}
}

func TestWhereThereIsNoLineProfilesAreTakenAtTheHighestGoodRate(t *testing.T) {
	b := four()
	o := quick(t)
	o.Limit, o.Profiled = 300, true
	run(t, b, o)
	last := b.plans[len(b.plans)-1]
	if last.Phase != measure.PhaseAtLine || last.Rate < 295 || last.Rate > 300 {
		t.Errorf("the last step was %+v", last)
	}
}

func TestTheSameSeedGivesTheSameSurvey(t *testing.T) {
	if one, two := run(t, four(), quick(t)), run(t, four(), quick(t)); !reflect.DeepEqual(one,
		two) {
		t.Error("two surveys with one seed differ")
	}
}

func TestNoRateIsEverAboveAMultipleOfTheLastGoodOne(t *testing.T) {
	for _, overshoot := range []float64{1.3, 2} {
		o := quick(t)
		o.Overshoot = overshoot
		good := 0.0
		o.Done = func(s *measure.Step, j record.Judgement) error {
			if good > 0 && s.Plan.Rate > overshoot*good*1.003 {
				t.Errorf("%v a second was offered when %v was the highest good rate",
					s.Plan.Rate, good)
			}
			if (&trial{judgement: j}).passed() {
				good = max(good, s.Plan.Rate)
			}
			return nil
		}
		if r := run(t, four(), o); !r.Line.Found {
			t.Errorf("overshoot %v: %+v", overshoot, r.Line)
		}
	}
}

// A service that breaks its objective when half of its capacity is in use carries 1.4 times its line.
func TestAServiceThatKeepsUpBeyondItsLineIsOfferedMore(t *testing.T) {
	slow := &simBench{seed: 99,
		station: queue.Station{Workers: 4, Service: queue.Exponential(10500 * ms / 1000), Room: -1}}
	for b, want := range map[*simBench]float64{four(): 1.4, slow: 2} {
		r := run(t, b, quick(t))
		highest := 0.0
		for _, p := range b.plans {
			if p.Phase == measure.PhaseOverload {
				highest = max(highest, p.Rate)
			}
		}
		if line := r.Line.Interval.Estimate; math.Abs(highest/line/want-1) > .05 {
			t.Errorf("%v was offered where the line is at %v, not %v times that", highest, line, want)
		}
	}
}

func TestSomeStepsComeFromAboveAndSomeFromBelow(t *testing.T) {
	b := four()
	run(t, b, quick(t))
	above, below := 0, 0
	for _, p := range b.plans {
		if strings.Contains(p.Why, "from above") {
			above++
		}
		if strings.Contains(p.Why, "from below") {
			below++
		}
	}
	if above == 0 || below == 0 {
		t.Errorf("%d from above, %d from below", above, below)
	}
}

func TestWhereTheGeneratorIsTheLimitTheLineIsSaidToBeAbove(t *testing.T) {
	b := four()
	b.generator = 500
	r := run(t, b, quick(t))
	if r.Line.Found || !strings.Contains(r.Line.Why, "above") ||
		!strings.Contains(r.Line.Why, "generator") || r.Early != "" {
		t.Errorf("%+v %q", r.Line, r.Early)
	}
	if low := r.Line.Interval.Low; low < 350 || low > 500 {
		t.Errorf("above %v; 500 is what the generator can do", low)
	}
}

// The requests of a target that leaves the generator too little of the machine are soon slower than
// that explains.
func TestAGeneratorThatIsALittleLateDoesNotHideTheLine(t *testing.T) {
	b := four()
	b.generator, b.late = 500, 20*ms
	r := run(t, b, quick(t))
	i := r.Line.Interval
	if !r.Line.Found || i.Low > 760 || i.High < 740 || i.Low < 500 || i.High > 1100 {
		t.Errorf("%+v", r.Line)
	}
	for _, v := range r.Validity {
		if strings.Contains(v.What, "schedule") && v.OK {
			t.Errorf("%s: %s", v.What, v.Why)
		}
	}
}

func TestWhatWasSaidOfTheGeneratorIsForgottenOnceARateIsTooHigh(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b, farther := four(), false
	b.generator = 500
	b.hook = func(p measure.StepPlan) {
		if strings.Contains(p.Why, "further above") {
			farther, b.late = true, 10*ms
		}
		if farther && p.Phase == measure.PhaseNoise {
			cancel()
		}
	}
	o := quick(t)
	o.Start, o.Overshoot = 350, 4
	r, err := Run(ctx, b, o)
	if err != nil || !farther {
		t.Fatalf("no rate further above was tried: %v", err)
	}
	if strings.Contains(r.Line.Why, "the generator was the limit") || r.Line.Interval.High == 0 {
		t.Errorf("%+v", r.Line)
	}
}

func TestTheRateAtWhichTheGeneratorWasTheLimitFirstIsSaid(t *testing.T) {
	b, o, tried := four(), quick(t), 0.0
	b.generator = 500
	b.hook = func(p measure.StepPlan) {
		if p.Phase == measure.PhaseBracket {
			tried = max(tried, p.Rate)
		}
	}
	o.Start, o.Overshoot = 350, 4
	r := run(t, b, o)
	if tried < 1000 || strings.Contains(r.Line.Why, "limit at "+format.Digits(tried)) ||
		!strings.Contains(r.Line.Why, "the generator was the limit at ") {
		t.Errorf("up to %v was tried: %s", tried, r.Line.Why)
	}
}

func TestAGeneratorThatKeptUpFurtherAboveAndThenNoMoreIsSaid(t *testing.T) {
	b, o := four(), quick(t)
	b.generator = 150
	b.hook = func(p measure.StepPlan) {
		if strings.Contains(p.Why, "further above") && b.generator == 150 {
			b.generator = p.Rate
		}
	}
	o.Start, o.Overshoot = 75, 3
	r := run(t, b, o)
	if b.generator == 150 || r.Line.Found || !strings.Contains(r.Line.Why, "generator was the limit") {
		t.Errorf("the generator kept up to %v: %+v", b.generator, r.Line)
	}
}

func TestTheHighestRateThatMayBeOfferedIsKept(t *testing.T) {
	// All but the first limit are just above the line, where a survey offers rates on both sides.
	// They are not on the grid of rates.
	for _, limit := range []float64{300, 770, 773, 776, 779, 782, 785, 788, 791, 794, 797} {
		b := four()
		o := quick(t)
		o.Limit = limit
		r := run(t, b, o)
		if limit == 300 && (r.Line.Found || !strings.Contains(r.Line.Why, "above 300")) {
			t.Errorf("limit %v: %+v", limit, r.Line)
		}
		for _, p := range b.plans {
			if p.Rate > limit {
				t.Errorf("limit %v: %v a second was offered", limit, p.Rate)
			}
		}
	}
}

func TestAServiceThatDiesEndsTheSurveyAndTheRateIsSaid(t *testing.T) {
	b := four()
	b.dies = 700
	r := run(t, b, quick(t))
	last := b.plans[len(b.plans)-1]
	if !strings.Contains(r.Early, "broke at") || !strings.Contains(r.Early, format.Digits(last.Rate)) ||
		last.Rate < 700 {
		t.Errorf("%q after %+v", r.Early, last)
	}
	if got := r.Judgements[len(r.Judgements)-1]; got.Verdict != record.Fail ||
		!strings.Contains(got.Why, "broke") {
		t.Errorf("%+v", got)
	}
}

func TestAServiceWhoseGoodputFallsIsFoundOut(t *testing.T) {
	b := four()
	b.crumbles = 820
	r := run(t, b, quick(t))
	if !r.Collapse.Found || r.Collapse.Rate.High < 820 || !r.Peak.Found {
		t.Errorf("falls %+v\npeak %+v", r.Collapse, r.Peak)
	}
}

func TestAServiceThatIsColdIsWarmedUpFirst(t *testing.T) {
	warm, cold := four(), four()
	cold.cold = 10
	run(t, warm, quick(t))
	run(t, cold, quick(t))
	count := func(b *simBench) (n int) {
		for _, p := range b.plans {
			if p.Phase == "warm-up" {
				n++
			}
		}
		return n
	}
	if w, c := count(warm), count(cold); w != 2 || c < 3 {
		t.Errorf("%d steps for a warm service, %d for a cold one", w, c)
	}
}

// A service may stay cold for longer than the warm-up takes, or be disturbed just once.
func TestRatesThatFailedOnlyAtFirstDoNotHideALineFarAbove(t *testing.T) {
	b := coldUntilRefined()
	r, want := run(t, b, quick(t)), run(t, four(), quick(t)).Line.Interval
	got := r.Line.Interval
	if !r.Line.Found || got.Low > want.High || got.High < want.Low || got.Estimate < .9*want.Estimate {
		t.Errorf("found %t: %+v, want about %+v: %s", r.Line.Found, got, want, r.Line.Why)
	}
	if r.Line.Caveat != record.CaveatChanges || !strings.Contains(r.Line.Why, "did not pass at first") {
		t.Errorf("%q: %s", r.Line.Caveat, r.Line.Why)
	}
}

func TestALimitThatIsMetFarAboveWhatFailedAtFirstIsSaid(t *testing.T) {
	b := coldUntilRefined()
	o := quick(t)
	o.Limit = 300
	r := run(t, b, o)
	if r.Line.Found || !strings.Contains(r.Line.Why, "above 300 requests a second, "+highestOffered) ||
		strings.Contains(r.Line.Why, "this is the line") {
		t.Errorf("%+v", r.Line)
	}
	for _, p := range b.plans {
		if p.Rate > o.Limit {
			t.Errorf("%v a second was offered", p.Rate)
		}
	}
}

func TestAServiceThatFailsWhenAloneIsSaidToFail(t *testing.T) {
	b := four()
	b.dead = true
	r := run(t, b, quick(t))
	if r.Line.Found || !strings.Contains(r.Early, "broke") {
		t.Errorf("%q %+v", r.Early, r.Line)
	}
	if len(b.plans) != 1 {
		t.Errorf("%d steps", len(b.plans))
	}
}

func TestAnSLOThatNoRateMeetsIsSaid(t *testing.T) {
	b := four()
	o := quick(t)
	o.SLO = parsed(t, "p99<4ms")
	r := run(t, b, o)
	if r.Line.Found || !strings.Contains(r.Line.Why, "not met even by one request at a time") {
		t.Errorf("%+v", r.Line)
	}
}

// broken is a bench on which every step fails.
type broken struct{ simBench }

func (*broken) Step(
	context.Context, measure.StepPlan, func(*measure.Window) string,
) (*measure.Step, string, error) {
	return nil, "", errors.New("connection refused")
}

func TestWhereNotEvenTheFirstStepCanBeDoneThereIsNoResult(t *testing.T) {
	if r, err := Run(context.Background(), &broken{}, quick(t)); r != nil || err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("%v %v", r, err)
	}
	if _, err := Run(context.Background(), four(), Options{}); err == nil {
		t.Error("a survey without an SLO began")
	}
}

func TestASurveyThatIsStoppedAnywhereSaysWhatItKnows(t *testing.T) {
	known, whole := 0, four()
	run(t, whole, quick(t))
	for stop := 1; stop <= len(whole.plans); stop++ {
		ctx, cancel := context.WithCancel(context.Background())
		b := four()
		b.hook = func(p measure.StepPlan) {
			if p.Number == stop {
				cancel()
			}
		}
		r, err := Run(ctx, b, quick(t))
		if err != nil || r == nil || r.Early != "stopped by the user" ||
			len(r.Judgements) != stop-1 || r.Line.Why == "" {
			t.Fatalf("stopped in step %d: %v, %q, %d judgements, %q",
				stop, err, r.Early, len(r.Judgements), r.Line.Why)
		}
		if r.Line.Found {
			known++
		}
	}
	if known == 0 {
		t.Error("the line was never known")
	}
}

func TestAStepThatCannotBeKeptEndsTheSurvey(t *testing.T) {
	full := errors.New("no space left on device")
	o := quick(t)
	steps := 0
	o.Done = func(*measure.Step, record.Judgement) error {
		if steps++; steps == 4 {
			return full
		}
		return nil
	}
	r, err := Run(context.Background(), four(), o)
	if !errors.Is(err, full) || r == nil || len(r.Judgements) != 4 || steps != 4 {
		t.Errorf("%v %+v", err, r)
	}
}

func TestTheModelIsMadeOfAllStepsAndKeepsThePredictions(t *testing.T) {
	o := quick(t)
	o.Predict = func([]measure.Step) *model.Prediction { return &model.Prediction{Limit: "workers"} }
	var numbers []int
	o.Fit = func(steps []measure.Step) model.Model {
		for _, s := range steps {
			numbers = append(numbers, s.Plan.Number)
		}
		return model.Model{Smallest: "processors"}
	}
	r := run(t, four(), o)
	var judged []int
	for _, j := range r.Judgements {
		judged = append(judged, j.Step)
	}
	if !slices.Equal(numbers, judged) || r.Model.Smallest != "processors" ||
		len(r.Model.Predictions) != 1 || r.Model.Predictions[0].Measured != r.Line.Interval {
		t.Errorf("made of steps %v of %v: %+v", numbers, judged, r.Model)
	}
}

func TestTheLineIsPredictedFromBelowHalfOfIt(t *testing.T) {
	o := quick(t)
	o.Predict = func(steps []measure.Step) *model.Prediction {
		highest := 0.0
		for _, s := range steps {
			highest = max(highest, s.Plan.Rate)
		}
		if len(steps) < 4 || highest < 100 || highest > 750/2 {
			t.Errorf("%d steps up to %v a second were shown", len(steps), highest)
		}
		return &model.Prediction{
			Line:  model.Interval{Low: 700, Estimate: 760, High: 800},
			Limit: "workers",
		}
	}
	told := ""
	o.Tell = func(e Event) {
		if strings.Contains(e.Text, "predicted") {
			told = e.Text
		}
		if e.Plan.Phase == "refine" && told == "" {
			t.Fatal("refinement began before the prediction was told")
		}
	}
	r := run(t, four(), o)
	p := r.Model.Predictions[0]
	if len(r.Model.Predictions) != 1 || !strings.Contains(told, "760") || p.Upto < 100 ||
		p.Measured != r.Line.Interval || p.Error != 760/r.Line.Interval.Estimate-1 {
		t.Errorf("%q %+v", told, p)
	}
}

func TestProgressSaysHowLongItWillStillTake(t *testing.T) {
	o := quick(t)
	var elapsed int64
	var last Event
	windows := 0
	o.Tell = func(e Event) {
		if e.Elapsed < elapsed || e.Left < 0 {
			t.Errorf("elapsed %d after %d, left %d", e.Elapsed, elapsed, e.Left)
		}
		if e.Window != nil {
			windows++
		} else {
			elapsed = e.Elapsed
		}
		last = e
	}
	run(t, four(), o)
	if windows < 100 || elapsed < 30*second || last.Left > second || last.Low == 0 ||
		last.High <= last.Low {
		t.Errorf("%d windows, %d s, %s", windows, elapsed/second, fmt.Sprintf("%+v", last))
	}
}

// If other programs use the processors from time to time, each rate may have one such step.
func TestAGeneratorThatWasLateByChanceDoesNotEndASurvey(t *testing.T) {
	o, b := quick(t), four()
	o.Start = 50
	seen := map[float64]bool{}
	b.hook = func(p measure.StepPlan) {
		b.generator = 0
		if p.Phase == measure.PhaseBracket && !seen[p.Rate] {
			seen[p.Rate], b.generator = true, 1e-9
		}
	}
	if r := run(t, b, o); !r.Line.Found || r.Line.Interval.Low > 760 || r.Line.Interval.High < 740 {
		t.Errorf("%d rates had one invalid step each: %+v", len(seen), r.Line)
	}
	if len(seen) < 4 {
		t.Errorf("only %d rates were tried", len(seen))
	}
}

func TestAStepIsRepeatedWhileAHypervisorHoldsTheGeneratorUp(t *testing.T) {
	o, b := quick(t), four()
	held := 0
	b.hook = func(p measure.StepPlan) {
		b.generator, b.stolen = 0, 0
		if p.Phase == measure.PhaseBracket && held < mostDisturbed {
			held++
			b.generator, b.stolen = 1e-9, .05
		}
	}
	r := run(t, b, o)
	if !r.Line.Found || r.Line.Interval.Low > 760 || r.Line.Interval.High < 740 {
		t.Errorf("%d steps were held up: %+v", held, r.Line)
	}
	repeats := 0
	for _, p := range b.plans {
		if strings.Contains(p.Why, "a hypervisor gave 2.50 % of the processors' time to others") {
			repeats++
		}
	}
	if repeats != mostDisturbed {
		t.Errorf("%d steps were repeated, want %d", repeats, mostDisturbed)
	}
}

func TestAHypervisorThatAlwaysHoldsTheGeneratorUpEndsTheSurvey(t *testing.T) {
	b := four()
	b.generator, b.stolen = 1e-9, .05
	r := run(t, b, quick(t))
	if r.Line.Found || !strings.Contains(r.Line.Why, "generator was the limit") ||
		len(b.plans) > mostDisturbed+20 {
		t.Errorf("%d steps: %+v", len(b.plans), r.Line)
	}
}

func TestAGeneratorThatIsTheLimitAgainAndAgainEndsTheBracket(t *testing.T) {
	b := four()
	b.generator = 300
	r := run(t, b, quick(t))
	tried := 0
	for _, p := range b.plans {
		if p.Phase == measure.PhaseBracket && p.Rate > b.generator {
			tried++
		}
	}
	if r.Line.Found || !strings.Contains(r.Line.Why, "generator was the limit") || tried > 3 {
		t.Errorf("%d steps above what the generator can offer: %+v", tried, r.Line)
	}
}
