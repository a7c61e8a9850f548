// Package record reads and writes run directories: raw results as plain files, written while an
// experiment runs, and read later by reports, comparisons and models, also on other machines. It
// must know nothing of how results are made or shown. docs/run-directory.md describes the files for
// other programs.
//
//	run.json               the manifest: what was done, to what, with what, on what machine;
//	                       what makes it a run directory
//	steps.jsonl            one line for each step that is whole, appended and synced when it
//	                       has ended
//	steps/0001/windows.jsonl   one line for each window: its counters
//	steps/0001/response.hlog   HDR log with a histogram for each window; also service.hlog
//	                           and lag.hlog
//	steps/0001/totals.hlog     HDR log with the histograms of the whole step, and of each kind
//	                           of request
//	steps/0001/samples.jsonl   one line for each sample of the probes
//	steps/0001/cpu.pb.gz       the target's processor profile, where one was taken; also
//	                           allocs, heap, goroutine, mutex and block
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

// SchemaVersion is the version of the files that this program writes and reads. Those of version 1
// had other keys; scripts/convert_run.py converts them.
const SchemaVersion = 2

// The kinds of runs.
const (
	KindSurvey = "survey"
	KindLoad   = "load"
)

// Manifest is run.json.
type Manifest struct {
	SchemaVersion int       `json:"schema_version"`
	Kind          string    `json:"kind"` // KindSurvey or KindLoad
	Tool          string    `json:"tool"` // plimsoll and its version
	Command       []string  `json:"command,omitempty"`
	Started       time.Time `json:"started"`
	Target        string    `json:"target"`
	SLO           string    `json:"slo,omitempty"`
	Mix           string    `json:"mix"` // the mix of requests the results hold for, in words
	// Settings are the options that shaped the run, defaults included, by name.
	Settings map[string]string `json:"settings,omitempty"`
	Machine  Machine           `json:"machine"`
}

// Machine is where the generator ran.
type Machine struct {
	Host        string `json:"host"`
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes uint64 `json:"memory_bytes"`
	// TargetLocal says that the target runs on this machine, and shares its cores with the
	// generator unless Apart says that all generators were on other machines.
	TargetLocal bool `json:"target_local"`
	Apart       bool `json:"generators_apart,omitempty"`
	TargetPID   int  `json:"target_pid,omitempty"`
	// TargetRuntime is what the target's process runs on, as probe.Runtime names it, TargetVersion
	// the version of that, and TargetServer the program that serves for it; each empty where it is
	// not known.
	TargetRuntime string `json:"target_runtime,omitempty"`
	TargetVersion string `json:"target_version,omitempty"`
	TargetServer  string `json:"target_server,omitempty"`
	// TargetKnobs are the bounds that the process was started with, as "GOGC=20" and "-Xmx256m".
	TargetKnobs []string `json:"target_knobs,omitempty"`
}

// Shared says that the generator and the target shared the machine's cores.
func (m *Machine) Shared() bool { return m.TargetLocal && !m.Apart }

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

// OKSoFar says that a step at a rate is undecided and that each objective held in what was seen of
// it.
func (j *Judgement) OKSoFar() bool {
	return j.Verdict == Undecided && j.Rate > 0 && len(j.Objectives) > 0 &&
		!slices.ContainsFunc(j.Objectives, func(o ObjectiveShare) bool {
			return o.Share.Estimate > o.Allowed
		})
}

// Judgement is a step's verdict and its grounds.
type Judgement struct {
	Step       int              `json:"step"`
	Rate       float64          `json:"rate_per_second"`
	Verdict    SLOVerdict       `json:"verdict"`
	Objectives []ObjectiveShare `json:"objectives,omitempty"`
	// Goodput: requests that ended well, a second
	Goodput model.Interval `json:"goodput_per_second"`
	Why     string         `json:"why"` // for a person
}

// ObjectiveShare is the share of requests that broke one objective, with its interval, against the
// share allowed.
type ObjectiveShare struct {
	Objective string         `json:"objective"`
	Share     model.Interval `json:"share"`
	Allowed   float64        `json:"allowed_share"`
}

// Line is the load line: the highest rate that still meets the SLO.
type Line struct {
	Interval model.Interval `json:"rate_per_second,omitzero"`
	// Found is false when the line could not be bracketed: Why then says what is known ("above
	// 20000, where the generator was the limit").
	Found bool   `json:"found"`
	Why   string `json:"why"`
	// Caveat says in a word what has to be known besides, or why there is no line: one of the
	// caveats below, empty when there is none. Why says it in a sentence.
	Caveat string `json:"caveat,omitempty"`
}

// The caveats of a line.
const (
	// CaveatChanges: the service changed while it was measured (it warmed up, or was scaled), so
	// that the interval may be of a service that is no more.
	CaveatChanges = "changes"
	// CaveatCollapses: once the service is overloaded it stays so at rates that it carried before,
	// so that chance decides how long it carries a rate near the line.
	CaveatCollapses = "collapses"
	// CaveatLimiter: what is beyond the line is refused at a flat rate (429), by a rate limiter: the
	// line says nothing of what the service could carry without it.
	CaveatLimiter = "rate-limited"
	// CaveatAlways: as many requests as an objective allows break it whatever the load, so that no
	// rate decides whether it is kept.
	CaveatAlways = "whatever-the-load"
)

// Collapse is the rate at which goodput stops rising (Result.Peak) or falls (Result.Collapse), as
// an interval between two steps or from a fit.
type Collapse struct {
	Found   bool           `json:"found"`
	Rate    model.Interval `json:"rate_per_second,omitzero"`
	Goodput float64        `json:"goodput_per_second,omitempty"` // at the peak
	Why     string         `json:"why"`
}

// Recovery is whether the target came back when the load fell.
type Recovery struct {
	Tested    bool `json:"tested"`
	Recovered bool `json:"recovered"`
	// After: seconds until the response times were back to what they were at this rate; meaningful
	// when Recovered
	After float64 `json:"after_seconds"`
	Why   string  `json:"why"`
}

// Noise is what two equal steps differed by: what a comparison cannot see below.
type Noise struct {
	// P50, P99, Goodput, CPU: as shares: 0.03 is 3 %
	P50      float64 `json:"p50_share"`
	P99      float64 `json:"p99_share"`
	Goodput  float64 `json:"goodput_share"`
	CPU      float64 `json:"cpu_share"`
	Measured bool    `json:"measured"`
}

// Validity is one thing that has to be right for the results to mean something.
type Validity struct {
	What string `json:"what"` // "the generator kept its schedule"
	OK   bool   `json:"ok"`
	Why  string `json:"why"` // the figures
}

// Result is result.json.
type Result struct {
	SchemaVersion int       `json:"schema_version"`
	Ended         time.Time `json:"ended"`
	// Early: why the run ended before it was done; empty when it was
	Early string   `json:"early,omitempty"`
	Line  Line     `json:"line"`
	Peak  Collapse `json:"peak"`
	// Collapse: where goodput falls as the offered load rises
	Collapse   Collapse    `json:"collapse"`
	Recovery   Recovery    `json:"recovery"`
	Noise      Noise       `json:"noise"`
	Judgements []Judgement `json:"judgements,omitempty"`
	Model      model.Model `json:"model"`
	Validity   []Validity  `json:"validity,omitempty"`
	// NotMeasured: what could not be read, and why, once each
	NotMeasured []string `json:"not_measured,omitempty"`
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
