package model

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/stats"
)

// CheckPhysics checks two laws in each step. Little's law: the mean number of requests in the
// system is the throughput times the mean response time. The utilization law: the processor's busy
// time is that of the served requests, at the demand that all steps together show. A breach means
// that a measurement is wrong, not that the target is.
func CheckPhysics(steps []measure.Step, o Options) []Check {
	var all []Check
	for i := range steps {
		if c, ok := little(&steps[i]); ok {
			all = append(all, c)
		}
	}
	for _, r := range resources(steps, o) {
		if r.name == "target cpu" && len(r.steps) >= 3 {
			fit := robust(r.steps)
			for _, s := range goodSteps(steps) {
				if c, ok := utilization(s, fit); ok {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// settled returns the judged windows except the last one, which includes the drain.
func settled(s *measure.Step) []measure.Window {
	var all []measure.Window
	for _, w := range s.Windows {
		if w.Start >= s.Plan.Settle && w.Length > 0 {
			all = append(all, w)
		}
	}
	return all[:max(len(all)-1, 0)]
}

// fewest is how many windows a mean of samples needs.
const fewest = 4

// little checks a step by the number of requests inside at the windows' ends. These are few
// samples, and not independent. So the tolerance is four times their standard error, as if only
// every second one counted, with at least the variance of Poisson arrivals. It adds 10 % for the
// time between a request's end and its count, and one request, because evenly spaced arrivals are
// in step with the windows' ends.
func little(s *measure.Step) (Check, bool) {
	windows := settled(s)
	var inside, squares, sum, ok, failed, length float64
	for i := range windows {
		w := &windows[i]
		n := float64(w.InFlight + w.Waiting)
		inside, squares = inside+n, squares+n*n
		sum = sum + float64(w.Response.Sum)
		ok = ok + float64(w.Ended[measure.OK])
		failed = failed + float64(w.Ended.Failed())
		length += float64(w.Length)
	}
	m := float64(len(windows))
	if len(windows) < fewest || ok == 0 {
		return Check{}, false
	}
	c := Check{Step: s.Plan.Number, Law: "Little", Want: sum / length, Got: inside / m}
	if failed > .01*ok {
		c.Sentence = fmt.Sprintf("%.3g %% of the requests failed, and how long they were inside "+
			"is not recorded: the law cannot be checked in this step",
			100*failed/(ok+failed))
		c.Got, c.Want = 0, 0
		return c, true
	}
	deviation := math.Sqrt(max(squares/m-c.Got*c.Got, c.Want))
	// A request that is inside at the start of the first window, and not at the end of the last,
	// adds its whole time to one side of the equation.
	drift := math.Abs(float64(windows[len(windows)-1].InFlight+windows[len(windows)-1].Waiting)-
		float64(windows[0].InFlight+windows[0].Waiting)) *
		sum / ok / length
	tolerance := 4*deviation/math.Sqrt(m/2) + .1*c.Want + 1 + drift*c.Want
	c.Breach = math.Abs(c.Got-c.Want) > tolerance
	served := fmt.Sprintf("%.4g a second × %.3g ms = %.4g inside; counted %.4g",
		ok/length*1e9, sum/ok/1e6, c.Want, c.Got)
	c.Sentence = served + ": Little's law holds"
	if c.Breach {
		c.Sentence = served +
			fmt.Sprintf(", further off than %.3g: times or counts of this step are wrong",
				tolerance)
	}
	return c, true
}

// robust returns a line through the steps that a single odd step does not move: the median of the
// slopes between any two steps (Theil-Sen), and the median of the residuals.
func robust(steps [][]reading) straight {
	var x, y, slopes, left []float64
	for _, step := range steps {
		var seconds, requests, busy float64
		for _, r := range step {
			seconds, requests, busy = seconds+r.seconds, requests+r.requests, busy+r.busy
		}
		for i := range x {
			if dx := requests/seconds - x[i]; math.Abs(dx) > .1*x[i] {
				slopes = append(slopes, (busy/seconds-y[i])/dx)
			}
		}
		x, y = append(x, requests/seconds), append(y, busy/seconds)
	}
	if len(slopes) < 2 {
		return fitStraight(steps)
	}
	f := straight{demand: max(stats.Median(slopes), 0)}
	for i := range x {
		left = append(left, y[i]-f.demand*x[i])
	}
	f.idle = max(stats.Median(left), 0)
	return f
}

// utilization checks a step's processor time against the demand of all steps. The tolerance is 15 %
// for a cost per request that changes with the load, and two ticks of the kernel's accounting, for
// when the processes' own clocks cannot be read.
func utilization(s *measure.Step, f straight) (Check, bool) {
	var seconds, requests, busy float64
	for _, r := range readings(s, measure.TargetCPU, 0) {
		seconds, requests, busy = seconds+r.seconds, requests+r.requests, busy+r.busy
	}
	if seconds == 0 {
		return Check{}, false
	}
	c := Check{
		Step: s.Plan.Number,
		Law:  "utilization",
		Want: f.idle + f.demand*requests/seconds,
		Got:  busy / seconds,
	}
	const share, ticks = .15, .02
	tolerance := share*c.Want + ticks/seconds + .01
	c.Breach = math.Abs(c.Got-c.Want) > tolerance
	figures := fmt.Sprintf("%.4g requests a second × %.3g µs + %.3g cores idle = %.3g cores; "+
		"measured %.3g",
		requests/seconds, f.demand*1e6, f.idle, c.Want, c.Got)
	c.Sentence = figures + ": the utilization law holds"
	if c.Breach {
		c.Sentence = figures + ": a request costs something else at this load than at the others"
	}
	return c, true
}
