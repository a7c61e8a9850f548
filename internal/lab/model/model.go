// Package model says what the steps of a run mean for loads that were not tried: the demand each
// request makes on each resource and the bound it sets, a queue or a universal scalability law
// fitted to what was measured, and whether the physics of each step adds up. It works on measured
// steps alone; it must not measure, know a clock or write files.
package model

import (
	"math"

	"plimsoll/internal/lab/measure"
)

// Interval is an estimate with the range it may lie in.
type Interval struct {
	Low, Estimate, High float64
	// Confidence that the true value lies between Low and High, such as 0.95.
	Confidence float64
}

// Demand is what one request takes of a resource, and what follows.
type Demand struct {
	Resource string   // "target cpu", "host cpu", "generator cpu"
	Unit     string   // of Per: "s"
	Per      Interval // demand of one request, in Unit
	Capacity float64  // how much of it there is in a second: cores, workers
	Bound    Interval // requests a second at which it is used up
	How      string   // how it was measured or inferred, for a person
}

// Prediction is a load line that was predicted, and how well.
type Prediction struct {
	Made     int      // the number of the last step that it knew
	Upto     float64  // the highest rate that it knew, requests a second
	Line     Interval // what it predicted
	Limit    string   // the resource that it said would be the bottleneck
	How      string   // by which model, for a person
	Measured Interval // the line that was then found; zero while there is none
	// Error is Line.Estimate ÷ Measured.Estimate − 1; meaningful when Measured is there.
	Error float64
	// Misses says what the model leaves out, when its error is over 15 %.
	Misses string `json:",omitempty"`
}

// USL is Gunther's universal scalability law, X(N) = λN / (1 + σ(N−1) + κN(N−1)), fitted with σ and
// κ between 0 and 1.
type USL struct {
	Lambda, Sigma, Kappa Interval
	R2                   float64
	// Peak is the concurrency and the throughput at the maximum; zero when it lies beyond Reach.
	PeakN, PeakX float64
	// Reach is the concurrency up to which the law may be asked: twice the highest measured one.
	Reach float64
	Note  string `json:",omitempty"` // why there is no fit, or what it refuses
}

// Check is one law of physics checked in one step.
type Check struct {
	Step     int
	Law      string // "Little", "utilisation"
	Want     float64
	Got      float64
	Breach   bool
	Sentence string // for a person
}

// Model is all that was made of a run.
type Model struct {
	Demands     []Demand
	Smallest    string // the resource with the lowest bound; never the generator, which bounds what can be offered
	USL         *USL
	Predictions []Prediction
	Checks      []Check
	Notes       []string `json:",omitempty"`
}

// Fit makes all of a run's steps but predictions, which are made while it runs. The same steps and
// options give the same model.
func Fit(steps []measure.Step, o Options) Model {
	m := Model{Demands: Demands(steps, o), USL: FitUSL(Points(steps), o.Seed), Checks: CheckPhysics(steps, o)}
	lowest := math.Inf(1)
	for _, d := range m.Demands {
		if d.Resource != "generator cpu" && d.Bound.Estimate > 0 && d.Bound.Estimate < lowest {
			lowest, m.Smallest = d.Bound.Estimate, d.Resource
		}
	}
	if len(m.Demands) == 0 {
		m.Notes = append(m.Notes, "no processor time was sampled, so no demand of a request is known")
	}
	if o.Local {
		m.Notes = append(m.Notes, "the generator shared the target's cores: a bound of the host counts the work of both")
	}
	return m
}
