package experiment

import (
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/probe"
)

// SchemaVersion is the version of the files that this program writes and reads. Files of version 1
// had other keys; scripts/convert_run.py converts them.
const SchemaVersion = 2

// Manifest is experiment.json: the plan of the experiment, with everything that the analysis needs.
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
	// Round, Turn: both from 1; Turn is the value's place in the round
	Round int       `json:"round"`
	Turn  int       `json:"turn"`
	Value string    `json:"value"`
	Began time.Time `json:"began"`
	// Failed says why nothing was measured, and Output is the end of the service's output; both are
	// empty otherwise.
	Failed string `json:"failed,omitempty"`
	Output string `json:"output,omitempty"`
	// Unused says why the figures are not the service's; they are kept but not judged.
	Unused string `json:"unused,omitempty"`
	// Figures are the measured figures; Missing says why others are missing.
	Figures map[string]float64 `json:"figures,omitempty"`
	Missing []string           `json:"missing,omitempty"`
	// Totals of the load, and the readings of the probes and the metrics page before and after it.
	// They are for other programs: the analysis does not use them, and Open leaves them out.
	Totals *measure.Totals    `json:"totals,omitempty"`
	Before map[string]float64 `json:"before,omitempty"`
	After  map[string]float64 `json:"after,omitempty"`
}

// Record is the content of an experiment's directory.
type Record struct {
	Manifest Manifest
	Runs     []Run
	// Early is why the experiment ended before it was done; empty if it was done.
	Early string
	// Notes say what is incomplete.
	Notes []string
}

// Estimate is a median and the interval that contains the true one.
type Estimate struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
}

// Result is what an experiment has shown.
type Result struct {
	SchemaVersion int `json:"schema_version"`
	// Early is why the experiment ended before it was done; empty if it was done.
	Early string `json:"early,omitempty"`
	// Rounds is the number of usable runs of the value that has the most of them, out of the
	// requested Repeat. Needed is the number required before any difference can be called real.
	Rounds int `json:"rounds"`
	Repeat int `json:"repeat"`
	Needed int `json:"needed"`
	// Tests is the number of differences judged together.
	Tests    int            `json:"tests"`
	Alpha    float64        `json:"alpha"`
	Relevant float64        `json:"relevant_share"`
	Values   []ValueResult  `json:"values,omitempty"`
	Figures  []FigureResult `json:"figures,omitempty"`
	// Real is the number of real differences.
	Real int `json:"real"`
	// Notes say what a reader should know before trusting the result.
	Notes []string `json:"notes,omitempty"`
}

// ValueResult sums up the runs of one value.
type ValueResult struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Runs     int    `json:"runs"`
	Failures int    `json:"failures"`
	Unused   int    `json:"unused"`
	// Why and Output are from the last failure.
	Why    string `json:"why,omitempty"`
	Output string `json:"output,omitempty"`
}

// FigureResult is the result of one figure.
type FigureResult struct {
	Figure
	// Medians are in the order of the values; nil for a value without one.
	Medians     []*Estimate  `json:"medians,omitempty"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
}

// DifferenceVerdict is the verdict of a comparison.
type DifferenceVerdict string

// The verdicts.
const (
	// Real is a difference that is neither chance nor too small to matter.
	Real DifferenceVerdict = "real"
	// Small is a difference that is not due to chance, but too small to matter.
	Small DifferenceVerdict = "too small to matter"
	// Same means that a difference that matters can be ruled out.
	Same DifferenceVerdict = "the same"
	// NotSeen means that no difference was seen. There may be one smaller than Detectable.
	NotSeen DifferenceVerdict = "not seen"
	// TooFew means that there are too few runs to call anything real.
	TooFew DifferenceVerdict = "too few runs"
)

// Comparison is the difference of a figure between two values.
type Comparison struct {
	Than  string `json:"than"`
	Value string `json:"value"`
	// Pairs is the number of pairs of runs of the same round.
	Pairs int `json:"pairs"`
	// Share says that Shift, Low, High and Detectable are shares of the figure at Than (0.1: 10 %
	// more). Otherwise they are in the figure's unit, because some of its values are 0.
	Share bool    `json:"relative"`
	Shift float64 `json:"shift"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// P is the probability from this test alone, Corrected the one after correction for all tests
	// of the experiment.
	P         float64           `json:"p"`
	Corrected float64           `json:"corrected"`
	Verdict   DifferenceVerdict `json:"verdict"`
	// Detectable is the difference that would have been called real nine times in ten; 0 if
	// unknown.
	Detectable float64 `json:"detectable,omitempty"`
	// Better says whether a real difference is an improvement; nil if it is not real, or unknown.
	Better *bool  `json:"better,omitempty"`
	Says   string `json:"says"`
}
