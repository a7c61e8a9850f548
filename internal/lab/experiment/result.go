package experiment

import (
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/probe"
)

// SchemaVersion is the version of the files that this program writes and reads. Those of version 1
// had other keys; scripts/convert_run.py converts them.
const SchemaVersion = 2

// Manifest is experiment.json: what was to be done, with everything that the analysis needs.
type Manifest struct {
	SchemaVersion int       `json:"schema_version"`
	Tool          string    `json:"tool"` // plimsoll and its version
	Command       []string  `json:"command,omitempty"`
	Started       time.Time `json:"started"`
	Name          string    `json:"name"`
	Question      string    `json:"question"`
	Variable      string    `json:"variable"`
	Values        []Value   `json:"values,omitempty"`
	Pairing
	Figures  []Figure    `json:"figures,omitempty"`
	Repeat   int         `json:"repeat"`
	Alpha    float64     `json:"alpha"`
	Relevant float64     `json:"relevant_share"`
	Seed     uint64      `json:"seed"`
	Machine  probe.Facts `json:"machine"`
	File     string      `json:"file"` // the text of the experiment's file
}

// Run is a line of rounds.jsonl: one value in one round.
type Run struct {
	// Round, Turn: from 1: Turn is the place that the value had in the round
	Round int       `json:"round"`
	Turn  int       `json:"turn"`
	Value string    `json:"value"`
	Began time.Time `json:"began"`
	// Failed says why nothing could be measured, with the end of what the service printed; empty
	// when something was.
	Failed string `json:"failed,omitempty"`
	Output string `json:"output,omitempty"`
	// Unused says why the figures are not the service's; they are kept, and not judged.
	Unused string `json:"unused,omitempty"`
	// Figures that were measured, and why others were not.
	Figures map[string]float64 `json:"figures,omitempty"`
	Missing []string           `json:"missing,omitempty"`
	// Totals of the load, and what the probes and the metrics page said before and after it: for
	// others, as the analysis takes none of it. Open leaves them out.
	Totals *measure.Totals    `json:"totals,omitempty"`
	Before map[string]float64 `json:"before,omitempty"`
	After  map[string]float64 `json:"after,omitempty"`
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
type Estimate struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
}

// Result is what an experiment has shown.
type Result struct {
	SchemaVersion int `json:"schema_version"`
	// Early is why it ended before it was done; empty when it was.
	Early string `json:"early,omitempty"`
	// Rounds is how many runs the value with the most of them has that could be judged, of the
	// Repeat asked for; Needed is how many it takes before any difference can be called real.
	Rounds int `json:"rounds"`
	Repeat int `json:"repeat"`
	Needed int `json:"needed"`
	// Tests is how many differences were judged together.
	Tests    int            `json:"tests"`
	Alpha    float64        `json:"alpha"`
	Relevant float64        `json:"relevant_share"`
	Values   []ValueResult  `json:"values,omitempty"`
	Figures  []FigureResult `json:"figures,omitempty"`
	// Real is how many differences are.
	Real int `json:"real"`
	// Notes say what a reader should know before believing anything.
	Notes []string `json:"notes,omitempty"`
}

// ValueResult is how the runs of one value went.
type ValueResult struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Runs     int    `json:"runs"`
	Failures int    `json:"failures"`
	Unused   int    `json:"unused"`
	// Why and Output are of the last failure.
	Why    string `json:"why,omitempty"`
	Output string `json:"output,omitempty"`
}

// FigureResult is what came of one figure.
type FigureResult struct {
	Figure
	// Medians are those of the values, in their order; nil for one that has none.
	Medians     []*Estimate  `json:"medians,omitempty"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
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
	Than  string `json:"than"`
	Value string `json:"value"`
	// Pairs of runs of the same round.
	Pairs int `json:"pairs"`
	// Share says that Shift, Low, High and Detectable are shares of the figure at Than (0.1: 10 %
	// more); else they are in the figure's unit, as some of its values are 0.
	Share bool    `json:"relative"`
	Shift float64 `json:"shift"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// P is the probability of the test alone, Corrected what is left of it when all tests of the
	// experiment are looked at together.
	P         float64           `json:"p"`
	Corrected float64           `json:"corrected"`
	Verdict   DifferenceVerdict `json:"verdict"`
	// Detectable is the difference that would have been called real nine times in ten; 0 is not
	// known.
	Detectable float64 `json:"detectable,omitempty"`
	// Better says whether a real difference is good news; nil when it is none, or nobody can say.
	Better *bool  `json:"better,omitempty"`
	Says   string `json:"says"`
}
