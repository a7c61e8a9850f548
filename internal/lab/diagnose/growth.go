package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

const (
	// fewestSteps is the minimum number of steps in which something must be counted to distinguish
	// its growth from chance. straight is the minimum share of its variance that the number of
	// requests must explain: a pool that grew once makes a step, and a pool that follows the load
	// goes up and down. straightest is the same for growth that would otherwise be too small to
	// report.
	fewestSteps, straight, straightest = 5, .9, .97
	// fallen is the fraction of a once well served rate below which a failing service has degraded.
	fallen = .8
	// answered is the minimum share of requests that end well while a service keeps up.
	answered = .97
)

// climb returns how much values that were sampled at equal intervals grow from the first to the
// last, by the straight line that fits them best. The last value alone may be the tooth of a
// sawtooth.
func climb(values []float64) float64 {
	at := make([]float64, len(values))
	for i := range at {
		at[i] = float64(i)
	}
	slope, _ := fitted(at, values)
	return slope * float64(len(values)-1)
}

// fitted returns the slope of the straight line that fits the points best, and the share of the
// variance of y that it explains.
func fitted(x, y []float64) (slope, explained float64) {
	n := float64(len(x))
	if n < 2 {
		return 0, 0
	}
	meanX, meanY := 0.0, 0.0
	for i := range x {
		meanX, meanY = meanX+x[i]/n, meanY+y[i]/n
	}
	xx, xy, yy := 0.0, 0.0, 0.0
	for i := range x {
		dx, dy := x[i]-meanX, y[i]-meanY
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	if xx == 0 || yy == 0 {
		return 0, 0
	}
	return xy / xx, xy * xy / (xx * yy)
}

// byRequests returns a gauge's mean in each step from the step number from on, reduced by less, and
// how many requests had been served by the middle of each step.
func (e *Evidence) byRequests(
	name string, from int, less func(m *Moment) float64,
) (served, values []float64) {
	return e.beside(func(m *Moment) (value float64, is bool) {
		if m.Step.Plan.Number < from || !m.Has(name) {
			return 0, false
		}
		return m.Mean(name) - less(m), true
	})
}

// beside returns the value that of gives for each step, if any, and how many requests had been
// served by the middle of that step.
func (e *Evidence) beside(
	of func(m *Moment) (value float64, is bool),
) (served, values []float64) {
	sum := 0.0
	for i := range e.Run.Steps {
		m := &Moment{Step: &e.Run.Steps[i], near: true}
		ended := float64(m.Step.Totals.Ended.Total())
		if value, is := of(m); is {
			served, values = append(served, sum+ended/2), append(values, value)
		}
		sum += ended
	}
	return served, values
}

func nothing(*Moment) float64 { return 0 }

// growsWithRequests reports whether a gauge follows the number of requests served, whatever the
// load was. It also tries the gauge without the clients' connections, each of which has a
// descriptor and, in some servers, a thread.
func (e *Evidence) growsWithRequests(name string) bool {
	clients := func(m *Moment) float64 {
		return cmp.Or(m.Mean(measure.ListenerEstablished), float64(m.Step.Plan.Connections))
	}
	up := func(less func(m *Moment) float64) bool {
		served, values := e.byRequests(name, e.Before.Step.Plan.Number, less)
		slope, explained := fitted(served, values)
		return len(served) >= fewestSteps && slope > 0 && explained >= straight
	}
	return up(nothing) || name != measure.TargetOutgoingEstablished && up(clients)
}

// memoryAllAlong returns memory that has grown with each request from the first step to the last,
// for a survey that ended before it came back to a gentle load. A survey ends like that when the
// service does not recover.
func (e *Evidence) memoryAllAlong() *grown {
	served, all := e.byRequests(measure.TargetRSS, 0, nothing)
	if len(served) < fewestSteps || e.neverAsked() {
		return nil
	}
	before, after := all[0], all[len(all)-1]
	each, explained := fitted(served, all)
	if explained < straight || each < fewestBytes || after-before < mostBytes || after < 1.3*before {
		return nil
	}
	return &grown{"memory", measure.TargetRSS, before, after, each, size, nil}
}

// degraded returns the highest rate that was served well before the service failed at far lower
// rates, including the line; 0 if that did not happen.
func (e *Evidence) degraded() float64 {
	if e.Run.Result == nil || !e.Run.Result.Line.Found {
		return 0
	}
	all := slices.Clone(e.Run.Result.Judgements)
	slices.SortStableFunc(all, func(a, b record.Judgement) int {
		return cmp.Compare(a.Step, b.Step)
	})
	passed, failed := 0.0, 0
	for _, j := range all {
		// A short step leaves the objectives undecided, but shows that all requests were answered.
		open := j.Verdict == record.Undecided && j.Goodput.Estimate >= answered*j.Rate
		switch {
		case j.Verdict == record.Pass || open:
			passed = max(passed, j.Rate)
		case j.Verdict == record.Fail && j.Rate < fallen*passed:
			failed++
		}
	}
	if failed < 2 || e.Line >= fallen*passed {
		return 0
	}
	return passed
}

const (
	// costsMore is how many times as much processor time the same load must take at the end, and
	// fewestCores is the minimum increase in processors.
	costsMore, fewestCores = 2, .1
	// fewFailed is the share of failed requests above which they take a part of the time.
	fewFailed = .03
)

// costGrown is the finding that the same load takes far more processor time at the end than before,
// although nothing else was seen to stay behind: timers and listeners that are never removed, or a
// list or table that each request makes longer and goes through. Programs that compile as they run
// get faster, not slower.
func (e *Evidence) costGrown() *Finding {
	if e.Before == nil || e.After == nil || e.Before.Goodput() == 0 ||
		e.After.Failed() > fewFailed || !e.grewAllAlong() {
		return nil
	}
	before, after := e.Before.PerSecond(measure.TargetCPU), e.After.settled(measure.TargetCPU)
	if before <= 0 || after < costsMore*before || after < before+fewestCores {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("Requests become more expensive: at the same load the service uses %s "+
			"processors after the survey where it used %s before, as something that they leave "+
			"behind is gone through again and again", number(after), number(before)),
		Rank:       Risk,
		Confidence: .7,
		Evidence: []Fact{
			{
				What:  "processors in use at a gentle load, before and after",
				Value: number(before) + " and " + number(after),
			},
			{
				What: "memory of the process, before and after",
				Value: size(e.Before.Mean(measure.TargetRSS)) + " and " +
					size(e.After.Mean(measure.TargetRSS)),
			},
		},
		Advice: []Action{
			{
				Text: "look for timers, intervals, listeners and subscriptions that requests make and " +
					"nobody takes away, and for lists, queues, files and tables that requests add to " +
					"and others go through: give them an end, a bound or an index",
			},
			{
				Text:    "see what it does: profile it when it is new, and when it has served much",
				Command: e.filled("perf top -p PID"),
			},
		},
		Gain: Gain{
			Factor: 1,
			Low:    1,
			High:   2,
			Why:    "the line does not move at once: it falls while the process lives",
		},
	}
	if once := e.degraded(); once > 0 {
		f.Rank, f.whatever, f.Gain = Binding, true, e.gainOfYouth(once)
	}
	return f
}

// settled returns a counter's growth per second in the second half of a step. By then the work left
// over from an overload is done.
func (m *Moment) settled(name string) float64 {
	all, from, to := m.values(name)
	if len(all) < 4 || to <= from {
		return m.PerSecond(name)
	}
	half := len(all) / 2
	took := float64(to-from) / 1e9 * float64(len(all)-1-half) / float64(len(all)-1)
	return max(all[len(all)-1]-all[half], 0) / took
}

// grewAllAlong reports whether the cost of a request rose from step to step with the number of
// requests served.
func (e *Evidence) grewAllAlong() bool {
	served, costs := e.beside(func(m *Moment) (cost float64, is bool) {
		refused := m.Step.Plan.Phase == measure.PhaseOverload || m.Failed() > fewFailed
		cost = m.PerRequest(measure.TargetCPU)
		return cost, cost > 0 && !refused
	})
	slope, explained := fitted(served, costs)
	// One step less than elsewhere, because the overload is left out.
	return len(served) >= fewestSteps-1 && slope > 0 && explained >= mostlyExplained
}

// mostlyExplained is the share of the variance of a request's cost that the number of requests
// served must explain. The load explains another part.
const mostlyExplained = .5
