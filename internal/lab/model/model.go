// Package model computes what the steps of a run mean for loads that were not tried: how much of
// each resource a request uses and the limit that follows, a queue or a universal scalability law
// fitted to the measurements, and whether each step obeys the laws of queueing. It uses only
// measured steps. It must not measure, know a clock or write files.
package model

import (
	"math"

	"plimsoll/internal/lab/measure"
)

// Interval is an estimate and the range in which it may lie.
type Interval struct {
	Low      float64 `json:"low"`
	Estimate float64 `json:"estimate"`
	High     float64 `json:"high"`
	// Confidence is the probability that the true value lies between Low and High, such as 0.95.
	Confidence float64 `json:"confidence"`
}

// Demand is what one request takes of a resource, and the limit that follows.
type Demand struct {
	// Resource: "target cpu", "host cpu", "generator cpu"
	Resource string   `json:"resource"`
	Unit     string   `json:"unit"`        // of Per: "s"
	Per      Interval `json:"per_request"` // demand of one request, in Unit
	// Capacity: how much of it there is per second: cores, workers
	Capacity float64 `json:"capacity"`
	// Bound: requests per second at which it is used up
	Bound Interval `json:"bound_per_second"`
	How   string   `json:"how"` // how it was measured or inferred, for humans
}

// Prediction is a predicted load line, and how good it was.
type Prediction struct {
	Made int `json:"after_step"` // the number of the last step it is based on
	// Upto: the highest rate it is based on, in requests per second
	Upto float64  `json:"upto_per_second"`
	Line Interval `json:"predicted_per_second"` // what it predicted
	// Limit: the predicted bottleneck
	Limit string `json:"limit"`
	How   string `json:"how"` // the model used, for humans
	// Station is what requests wait for, if Limit is its workers.
	Station *Station `json:"station,omitempty"`
	// Measured: the line that was found later; zero until then
	Measured Interval `json:"measured_per_second,omitzero"`
	// Error is Line.Estimate ÷ Measured.Estimate − 1; meaningful only with Measured.
	Error float64 `json:"error_share"`
	// Misses describes what the model leaves out, if its error is over 15 %.
	Misses string `json:"misses,omitempty"`
}

// Station serves a bounded number of requests at a time, like a pool of connections, and makes the
// others wait. It is inferred from how requests delay each other.
type Station struct {
	Workers     int     `json:"workers"` // requests at a time
	WorkersLow  int     `json:"workers_low"`
	WorkersHigh int     `json:"workers_high"`
	Service     float64 `json:"service_seconds"` // time of one request there
}

// Explains reports whether the station's workers set the measured line: the line was predicted from
// them, to within 15 %.
func (p *Prediction) Explains() bool {
	return p.Station != nil && p.Measured.Estimate > 0 && math.Abs(p.Error) <= mostOff
}

// mostOff is the error above which the model lacks something.
const mostOff = .15

// USL is Gunther's universal scalability law, X(N) = λN / (1 + σ(N−1) + κN(N−1)), fitted with σ and
// κ between 0 and 1.
type USL struct {
	Lambda Interval `json:"lambda"`
	Sigma  Interval `json:"sigma"`
	Kappa  Interval `json:"kappa"`
	R2     float64  `json:"r2"`
	// Peak is the concurrency and the throughput at the maximum; zero if it lies beyond Reach.
	PeakN float64 `json:"peak_concurrency"`
	PeakX float64 `json:"peak_per_second"`
	// Reach is the maximum concurrency for which the law may be used: twice the highest measured
	// one.
	Reach float64 `json:"reach_concurrency"`
	// Note: why there is no fit, or what the fit leaves out
	Note string `json:"note,omitempty"`
}

// Check is the check of one law in one step.
type Check struct {
	Step     int     `json:"step"`
	Law      string  `json:"law"` // "Little", "utilization"
	Want     float64 `json:"expected"`
	Got      float64 `json:"found"`
	Breach   bool    `json:"breach"`
	Sentence string  `json:"sentence"` // for humans
}

// Model is everything computed from a run.
type Model struct {
	Demands []Demand `json:"demands,omitempty"`
	// Smallest: the resource with the lowest bound; never the generator, which only bounds the load
	// that can be offered
	Smallest    string       `json:"smallest_resource"`
	USL         *USL         `json:"usl"`
	Predictions []Prediction `json:"predictions,omitempty"`
	Checks      []Check      `json:"checks,omitempty"`
	Notes       []string     `json:"notes,omitempty"`
}

// Fit computes everything from a run's steps except predictions, which are made during the run. The
// same steps and options give the same model.
func Fit(steps []measure.Step, o Options) Model {
	m := Model{
		Demands: Demands(steps, o),
		USL:     FitUSL(Points(steps), o.Seed),
		Checks:  CheckPhysics(steps, o),
	}
	lowest := math.Inf(1)
	for _, d := range m.Demands {
		if d.Resource != "generator cpu" && d.Bound.Estimate > 0 && d.Bound.Estimate < lowest {
			lowest, m.Smallest = d.Bound.Estimate, d.Resource
		}
	}
	if len(m.Demands) == 0 {
		m.Notes = append(m.Notes, "no processor time was sampled, "+
			"so no demand of a request is known")
	}
	if o.Local {
		m.Notes = append(m.Notes, "the generator shared the target's cores: "+
			"a bound of the host counts the work of both")
	}
	return m
}
