// Package record is the run directory: raw results as plain files, written while an experiment goes
// on, and read again by reports, comparisons and models, later and elsewhere. It must know nothing
// of how results are made or shown. docs/run-directory.md describes the files for other programs.
//
//	run.json               the manifest: what was done, to what, with what, on what machine; what makes it a run directory
//	steps.jsonl            one line for each step that is whole, appended and synced when it has ended
//	steps/0001/windows.jsonl   one line for each window: its counters
//	steps/0001/response.hlog   HDR log with a histogram for each window; also service.hlog and lag.hlog
//	steps/0001/totals.hlog     HDR log with the histograms of the whole step, and of each kind of request
//	steps/0001/samples.jsonl   one line for each sample of the probes
//	steps/0001/cpu.pb.gz       the target's processor profile, where one was taken; also allocs, heap, goroutine, mutex and block
//	result.json            what was found; replaced whole, also when a run is ended early
//
// A run that was cut off anywhere is readable up to its last whole step.
package record

import (
	"slices"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
)

// Format is the version of the layout that this program writes, and the highest that it reads.
const Format = 1

// The kinds of runs.
const (
	KindSurvey = "survey"
	KindLoad   = "load"
)

// Manifest is run.json.
type Manifest struct {
	Format  int
	Kind    string // KindSurvey or KindLoad
	Tool    string // plimsoll and its version
	Command []string
	Started time.Time
	Target  string
	SLO     string `json:",omitempty"`
	Mix     string // the mix of requests the results hold for, in words
	// Settings are the options that shaped the run, defaults included, by name.
	Settings map[string]string
	Machine  Machine
}

// Machine is where the generator ran.
type Machine struct {
	Host, OS, Kernel, CPU string
	Cores                 int
	MemoryBytes           uint64
	// TargetLocal says that the target runs on the same machine, and shares its cores with the
	// generator.
	TargetLocal bool
	TargetPID   int `json:",omitempty"`
}

// SLOVerdict is what a step says about the SLO.
type SLOVerdict string

// The verdicts.
const (
	Pass      SLOVerdict = "PASS"
	Fail      SLOVerdict = "FAIL"
	Undecided SLOVerdict = "UNDECIDED"
	// Invalid says that the generator was the limit, so that the step says nothing of the target.
	Invalid SLOVerdict = "INVALID"
)

// SoFar is how an undecided step is shown against which nothing speaks: it is too short to prove
// that the objectives hold.
const SoFar SLOVerdict = "OK SO FAR"

// Shown is the verdict for a person.
func (j *Judgement) Shown() SLOVerdict {
	if j.OKSoFar() {
		return SoFar
	}
	return j.Verdict
}

// OKSoFar says that a step is undecided and that each objective held in what was seen of it.
func (j *Judgement) OKSoFar() bool {
	return j.Verdict == Undecided && !slices.ContainsFunc(j.Objectives, func(o ObjectiveShare) bool {
		return o.Share.Estimate > o.Allowed
	})
}

// Judgement is a step's verdict and its grounds.
type Judgement struct {
	Step       int
	Rate       float64
	Verdict    SLOVerdict
	Objectives []ObjectiveShare
	Goodput    model.Interval // requests that ended well, a second
	Why        string         // for a person
}

// ObjectiveShare is the share of requests that broke one objective, with its interval, against the
// share allowed.
type ObjectiveShare struct {
	Objective string
	Share     model.Interval
	Allowed   float64
}

// Line is the load line: the highest rate that still meets the SLO.
type Line struct {
	Interval model.Interval // requests a second
	// Found is false when the line could not be bracketed: Why then says what is known ("above
	// 20000, where the generator was the limit").
	Found bool
	Why   string
}

// Collapse is the rate at which goodput stops rising (Result.Peak) or falls (Result.Collapse), as
// an interval between two steps or from a fit.
type Collapse struct {
	Found   bool
	Rate    model.Interval
	Goodput float64 `json:",omitempty"` // at the peak
	Why     string
}

// Recovery is whether the target came back when the load fell.
type Recovery struct {
	Tested    bool
	Recovered bool
	After     float64 // seconds until the response times were back to what they were at this rate; meaningful when Recovered
	Why       string
}

// Noise is what two equal steps differed by: what a comparison cannot see below.
type Noise struct {
	P50, P99, Goodput, CPU float64 // as shares: 0.03 is 3 %
	Measured               bool
}

// Validity is one thing that has to be right for the results to mean something.
type Validity struct {
	What string // "the generator kept its schedule"
	OK   bool
	Why  string // the figures
}

// Result is result.json.
type Result struct {
	Format      int
	Ended       time.Time
	Early       string `json:",omitempty"` // why the run ended before it was done; empty when it was
	Line        Line
	Peak        Collapse
	Collapse    Collapse // where goodput falls as the offered load rises
	Recovery    Recovery
	Noise       Noise
	Judgements  []Judgement
	Model       model.Model
	Validity    []Validity
	NotMeasured []string `json:",omitempty"` // what could not be read, and why, once each
}

// Run is a run directory as it was read.
type Run struct {
	Dir      string
	Manifest Manifest
	Steps    []measure.Step
	Result   *Result // nil where there is none
	// Notes say what was found incomplete, for a person: a run that was cut off is one.
	Notes []string
}
