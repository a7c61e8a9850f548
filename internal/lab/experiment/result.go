package experiment

import (
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/probe"
)

// Format is the version of the files that this program writes, and the highest that it reads.
const Format = 1

// Manifest is experiment.json: what was to be done, with everything that the analysis needs.
type Manifest struct {
	Format         int
	Tool           string // plimsoll and its version
	Command        []string
	Started        time.Time
	Name, Question string
	Variable       string
	Values         []Value
	Pairing
	Figures  []Figure
	Repeat   int
	Alpha    float64
	Relevant float64
	Seed     uint64
	Machine  probe.Facts
	File     string // the text of the experiment's file
}

// Run is a line of rounds.jsonl: one value in one round.
type Run struct {
	Round, Turn int // from 1: Turn is the place that the value had in the round
	Value       string
	Began       time.Time
	// Failed says why nothing could be measured, with the end of what the service printed; empty
	// when something was.
	Failed string `json:",omitempty"`
	Output string `json:",omitempty"`
	// Unused says why the figures are not the service's; they are kept, and not judged.
	Unused string `json:",omitempty"`
	// Figures that were measured, and why others were not.
	Figures map[string]float64 `json:",omitempty"`
	Missing []string           `json:",omitempty"`
	// Totals of the load, and what the probes and the metrics page said before and after it: for
	// others, as the analysis takes none of it. Open leaves them out.
	Totals        *measure.Totals    `json:",omitempty"`
	Before, After map[string]float64 `json:",omitempty"`
}

// Record is an experiment's directory as it was read.
type Record struct {
	Manifest Manifest
	Runs     []Run
	// Early is why the experiment ended before it was done; empty when it was.
	Early string
	// Notes say what was found incomplete, for a person.
	Notes []string
}

// Estimate is a value and the range that the true one lies in.
type Estimate struct{ Low, Median, High float64 }

// Result is what an experiment has shown.
type Result struct {
	Format int
	// Early is why it ended before it was done; empty when it was.
	Early string `json:",omitempty"`
	// Rounds is how many runs the value with the most of them has that could be judged, of the
	// Repeat asked for; Needed is how many it takes before any difference can be called real.
	Rounds, Repeat, Needed int
	// Tests is how many differences were judged together.
	Tests           int
	Alpha, Relevant float64
	Values          []ValueResult
	Figures         []FigureResult
	// Real is how many differences are.
	Real int
	// Notes say what a reader should know before believing anything.
	Notes []string `json:",omitempty"`
}

// ValueResult is how the runs of one value went.
type ValueResult struct {
	Name, Value            string
	Runs, Failures, Unused int
	// Why and Output are of the last failure.
	Why    string `json:",omitempty"`
	Output string `json:",omitempty"`
}

// FigureResult is what came of one figure.
type FigureResult struct {
	Figure
	// Medians are those of the values, in their order; nil for one that has none.
	Medians     []*Estimate
	Comparisons []Comparison
}

// DifferenceVerdict is what a comparison says.
type DifferenceVerdict string

// The verdicts.
const (
	// Real is a difference that is neither chance nor too small to matter.
	Real DifferenceVerdict = "real"
	// Small is one that is not due to chance, and smaller than what matters.
	Small DifferenceVerdict = "too small to matter"
	// Same says that a difference that matters can be ruled out.
	Same DifferenceVerdict = "the same"
	// NotSeen says that none was seen: there may be one that is smaller than Detectable.
	NotSeen DifferenceVerdict = "not seen"
	// TooFew says that there are too few runs to call anything real.
	TooFew DifferenceVerdict = "too few runs"
)

// Comparison is how a figure differs between two values.
type Comparison struct {
	Than, Value string
	// Pairs of runs of the same round.
	Pairs int
	// Share says that Shift, Low, High and Detectable are shares of the figure at Than (0.1: 10 %
	// more); else they are in the figure's unit, as some of its values are 0.
	Share            bool
	Shift, Low, High float64
	// P is the probability of the test alone, Corrected what is left of it when all tests of the
	// experiment are looked at together.
	P, Corrected float64
	Verdict      DifferenceVerdict
	// Detectable is the difference that would have been called real nine times in ten; 0 is not
	// known.
	Detectable float64 `json:",omitempty"`
	// Better says whether a real difference is good news; nil when it is none, or nobody can say.
	Better *bool `json:",omitempty"`
	Says   string
}
