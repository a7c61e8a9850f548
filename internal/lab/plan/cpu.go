package plan

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// CPU is an instance's processor usage: busy cores = Idle + PerRequest × requests per second.
type CPU struct {
	Idle       Figure `json:"idle"`        // cores, at any rate
	PerRequest Figure `json:"per_request"` // seconds
	// PerRequestError is the half width of the 95 % interval of PerRequest, in seconds; 0 if there
	// are too few steps.
	PerRequestError float64 `json:"per_request_error_seconds"`
	// AtSafe, AtLine: cores
	AtSafe Figure `json:"at_safe"`
	AtLine Figure `json:"at_line"`
	// Error is the half width of the 95 % interval of AtLine, in cores; 0 if there are too few
	// steps.
	Error float64 `json:"error_cores"`
	Steps int     `json:"steps"` // used for the fit
}

// point is the mean value of a gauge in a step, at the step's rate.
type point struct{ rate, value float64 }

// The steps used for the cost of a request.
const (
	mostFailed = .05 // share of a step's requests; refusing costs differently from answering
	// alike is the ratio of the highest to the lowest rate below which the cost of idling cannot be
	// separated from the cost of a request.
	alike = 1.5
	// beyond is how far above the line's upper end a step may be: further above there are retries
	// and queues.
	beyond = 1.05
	// Upper limits of plausible samples. A run directory may come from anywhere, and larger values
	// would give results that are not finite.
	mostCores = 1e12 // busy
	mostHeld  = 1e9  // connections
	mostBytes = 1e18 // resident
)

// processor fits the target's processor time to the rates of the steps.
func (p *DeploymentPlan) processor(run *record.Run) {
	points := p.busy(run)
	c := fitBusy(points, p.Line.Low)
	if c == nil {
		p.Missing = append(p.Missing, "the autoscaler's target: the run has no processor time of "+
			"the target (target.cpu.seconds): survey it where it runs, "+
			"or name its process with --pid")
		return
	}
	safe := p.Instances.Safe.Value
	formula := fmt.Sprintf("%.3g + %.3g s × %%s", c.Idle.Value, c.PerRequest.Value)
	c.AtSafe = Figure{c.at(safe), "cores", fmt.Sprintf(formula, format.Rate(safe))}
	c.AtLine = Figure{c.at(p.Line.Low), "cores", fmt.Sprintf(formula, format.Rate(p.Line.Low))}
	p.CPU = c
	if c.Error > .2*c.AtLine.Value {
		p.caution("what the processor does at the line is only known to ±%.0f %%: "+
			"a longer survey would tell better", 100*c.Error/c.AtLine.Value)
	}
}

func (c *CPU) at(rate float64) float64 { return c.Idle.Value + c.PerRequest.Value*rate }

// usable reports whether a step shows what requests cost: the service was warm and not profiled,
// the step is not of the overload or the recovery, and its requests were served.
func usable(s *measure.Step) bool {
	switch s.Plan.Phase {
	case measure.PhaseWarmUp, measure.PhaseHalf, measure.PhaseAtLine, measure.PhaseOverload,
		measure.PhaseRecovery:
		return false
	}
	total := s.Totals.Ended.Total()
	return total > 0 && float64(s.Totals.Ended.Failed()) <= mostFailed*float64(total)
}

// busy returns how many cores the target kept busy in each step that counts.
func (p *DeploymentPlan) busy(run *record.Run) (points []point) {
	for i := range run.Steps {
		s := &run.Steps[i]
		if !usable(s) {
			continue
		}
		cores, rate, ok := s.Spent(measure.TargetCPU)
		if ok && cores > 0 && cores <= mostCores && rate > 0 && rate <= beyond*p.Line.High {
			points = append(points, point{rate, cores})
		}
	}
	return points
}

// fitBusy returns nil without points. The error is the one at rate.
func fitBusy(points []point, rate float64) *CPU {
	if len(points) == 0 {
		return nil
	}
	c := &CPU{Steps: len(points)}
	if l, ok := straight(points); ok && l.coefficients[0] >= 0 && l.coefficients[1] > 0 {
		how := fmt.Sprintf("least squares over %d steps of %s to %s",
			len(points), format.Rate(lowest(points)), format.Rate(highest(points)))
		c.Idle = Figure{l.coefficients[0], "cores", how}
		c.PerRequest, c.PerRequestError = Figure{l.coefficients[1], "s", how}, l.error(1)
		c.Error = l.doubt([]float64{1, rate})
		return c
	}
	busy, requests := 0.0, 0.0
	for _, at := range points {
		busy, requests = busy+at.value, requests+at.rate
	}
	why := "which are too few, or have rates too similar, to show what idling costs"
	if highest(points) >= alike*lowest(points) && len(points) > 2 {
		why = "whose line would begin below 0"
	}
	c.Idle = Figure{0, "cores", "taken for 0"}
	c.PerRequest = Figure{
		busy / requests,
		"s",
		fmt.Sprintf("processor time ÷ requests over %d steps, %s", len(points), why),
	}
	return c
}

// straight fits value = a + b × rate; ok is false if the rates are too few or too similar.
func straight(points []point) (line, bool) {
	if len(points) == 0 || highest(points) < alike*lowest(points) {
		return line{}, false
	}
	rows, values := make([][]float64, len(points)), make([]float64, len(points))
	for i, at := range points {
		rows[i], values[i] = []float64{1, at.rate}, at.value
	}
	return leastSquares(rows, values)
}

func lowest(points []point) float64 {
	v := math.Inf(1)
	for _, p := range points {
		v = min(v, p.rate)
	}
	return v
}

func highest(points []point) float64 {
	v := 0.0
	for _, p := range points {
		v = max(v, p.rate)
	}
	return v
}
