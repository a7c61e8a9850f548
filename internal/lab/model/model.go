// Package model says what the steps of a run mean for loads that were not tried: how much of each
// resource a request uses and the limit that this sets, a queue or a universal scalability law
// fitted to the measurements, and whether the physics of each step adds up. It uses measured steps
// alone. It must not measure, know a clock or write files.
package model

import (
	"math"

	"plimsoll/internal/lab/measure"
)

// Interval is an estimate with the range it may lie in.
type Interval struct {
	Low      float64 `json:"low"`
	Estimate float64 `json:"estimate"`
	High     float64 `json:"high"`
	// Confidence that the true value lies between Low and High, such as 0.95.
	Confidence float64 `json:"confidence"`
}

// Demand is what one request takes of a resource, and what follows.
type Demand struct {
	// Resource: "target cpu", "host cpu", "generator cpu"
	Resource string   `json:"resource"`
	Unit     string   `json:"unit"`        // of Per: "s"
	Per      Interval `json:"per_request"` // demand of one request, in Unit
	// Capacity: how much of it there is in a second: cores, workers
	Capacity float64 `json:"capacity"`
	// Bound: requests a second at which it is used up
	Bound Interval `json:"bound_per_second"`
	How   string   `json:"how"` // how it was measured or inferred, for a person
}

// Prediction is a load line that was predicted, and how well.
type Prediction struct {
	Made int `json:"after_step"` // the number of the last step that it knew
	// Upto: the highest rate that it knew, requests a second
	Upto float64  `json:"upto_per_second"`
	Line Interval `json:"predicted_per_second"` // what it predicted
	// Limit: the resource that it said would be the bottleneck
	Limit string `json:"limit"`
	How   string `json:"how"` // by which model, for a person
	// Station is what requests wait for, where Limit is its workers.
	Station *Station `json:"station,omitempty"`
	// Measured: the line that was then found; zero while there is none
	Measured Interval `json:"measured_per_second,omitzero"`
	// Error is Line.Estimate ÷ Measured.Estimate − 1; meaningful when Measured is there.
	Error float64 `json:"error_share"`
	// Misses says what the model leaves out, when its error is over 15 %.
	Misses string `json:"misses,omitempty"`
}

// Station is something that serves a bounded number of requests at a time, as a pool of connections
// does, and lets the others wait. It is inferred from how requests delay each other.
type Station struct {
	Workers     int     `json:"workers"` // requests at a time
	WorkersLow  int     `json:"workers_low"`
	WorkersHigh int     `json:"workers_high"`
	Service     float64 `json:"service_seconds"` // time that one takes there
}

// Explains says whether the station's workers set the line that was found: it was predicted from
// them, and within 15 %.
func (p *Prediction) Explains() bool {
	return p.Station != nil && p.Measured.Estimate > 0 && math.Abs(p.Error) <= mostOff
}

// mostOff is by how much a prediction may be off before the model lacks something.
const mostOff = .15

// USL is Gunther's universal scalability law, X(N) = λN / (1 + σ(N−1) + κN(N−1)), fitted with σ and
// κ between 0 and 1.
type USL struct {
	Lambda Interval `json:"lambda"`
	Sigma  Interval `json:"sigma"`
	Kappa  Interval `json:"kappa"`
	R2     float64  `json:"r2"`
	// Peak is the concurrency and the throughput at the maximum; zero when it lies beyond Reach.
	PeakN float64 `json:"peak_concurrency"`
	PeakX float64 `json:"peak_per_second"`
	// Reach is the concurrency up to which the law may be asked: twice the highest measured one.
	Reach float64 `json:"reach_concurrency"`
	// Note: why there is no fit, or what it refuses
	Note string `json:"note,omitempty"`
}

// Check is one law of physics checked in one step.
type Check struct {
	Step     int     `json:"step"`
	Law      string  `json:"law"` // "Little", "utilization"
	Want     float64 `json:"expected"`
	Got      float64 `json:"found"`
	Breach   bool    `json:"breach"`
	Sentence string  `json:"sentence"` // for a person
}

// Model is all that was made of a run.
type Model struct {
	Demands []Demand `json:"demands,omitempty"`
	// Smallest: the resource with the lowest bound; never the generator, which bounds what can be
	// offered
	Smallest    string       `json:"smallest_resource"`
	USL         *USL         `json:"usl"`
	Predictions []Prediction `json:"predictions,omitempty"`
	Checks      []Check      `json:"checks,omitempty"`
	Notes       []string     `json:"notes,omitempty"`
}

// Fit makes all of a run's steps but predictions, which are made while it runs. The same steps and
// options give the same model.
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
