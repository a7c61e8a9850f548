package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

const (
	// fewestSteps is in how many steps something has to be counted for its growth to be told from
	// chance, and straight which part of its variance the number of requests explains at least: a
	// pool that has grown once is a step, and a pool that follows the load goes up and down.
	// straightest is the same for what would be too little otherwise.
	fewestSteps, straight, straightest = 5, .9, .97
	// fallen is the part of a rate that was served well at which the service fails later, when it
	// has degraded.
	fallen = .8
	// answered is the part of the requests that end well at least while a service keeps up.
	answered = .97
)

// climb is by how much values that are taken at one pace grow from the first to the last, by the
// straight line that fits them best: the last of them alone may be one tooth of a saw.
func climb(values []float64) float64 {
	at := make([]float64, len(values))
	for i := range at {
		at[i] = float64(i)
	}
	slope, _ := fitted(at, values)
	return slope * float64(len(values)-1)
}

// fitted is the slope of the straight line that fits points best, and which part of the variance of
// y it explains.
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

// byRequests is a gauge's mean in each step from one on, less what less says, beside how many
// requests had been served by the middle of the step.
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

// beside is what of says in each step in which it says something, beside how many requests had been
// served by the middle of the step.
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

// growsWithRequests says that a gauge follows the number of requests that have been served,
// whatever the load was. Connections of clients have a descriptor each, and in some servers a
// thread.
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

// memoryAllAlong is memory that has grown with each request from the first step to the last, where
// a survey ended before it came back to a gentle load: as one does when the service does not become
// again what it was.
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

// degraded is the highest rate that was served well before the service failed at far lower ones,
// the line among them; 0 where that is not so.
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
		// A short step leaves the objectives open, and shows that all was answered.
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
	// costsMore is by how much more processor time the same load has to take at the end, and
	// fewestCores how much more that has to be.
	costsMore, fewestCores = 2, .1
	// fewFailed is the share of requests from which on those that fail take a part of the time.
	fewFailed = .03
)

// costGrown is the finding that the same load takes far more processor time after everything than
// before, though nothing else was seen to stay behind: timers and listeners that are never taken
// away, a list or a table that each request makes longer and goes through. Programs that compile
// as they run become faster, and not slower.
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

// settled is a counter's growth in a second in the second half of a step: what an overload has left
// to do is done by then.
func (m *Moment) settled(name string) float64 {
	all, from, to := m.values(name)
	if len(all) < 4 || to <= from {
		return m.PerSecond(name)
	}
	half := len(all) / 2
	took := float64(to-from) / 1e9 * float64(len(all)-1-half) / float64(len(all)-1)
	return max(all[len(all)-1]-all[half], 0) / took
}

// grewAllAlong says that what a request costs rose from step to step, by how many had been served.
func (e *Evidence) grewAllAlong() bool {
	served, costs := e.beside(func(m *Moment) (cost float64, is bool) {
		refused := m.Step.Plan.Phase == measure.PhaseOverload || m.Failed() > fewFailed
		cost = m.PerRequest(measure.TargetCPU)
		return cost, cost > 0 && !refused
	})
	slope, explained := fitted(served, costs)
	// One step less than elsewhere, as the overload is left out.
	return len(served) >= fewestSteps-1 && slope > 0 && explained >= mostlyExplained
}

// mostlyExplained is which part of the variance of what a request costs the number of those that
// were served has to explain: the load is another part of it.
const mostlyExplained = .5
