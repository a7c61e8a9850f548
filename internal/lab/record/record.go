// Package record reads and writes run directories: raw results as plain files. They are written
// during an experiment and read later by reports, comparisons and models, possibly on other
// machines. The package must not know how results are made or shown. docs/run-directory.md
// describes the files for other programs.
//
//	run.json               the manifest: what was done, to what, with what, on what machine;
//	                       it makes the directory a run directory
//	steps.jsonl            one line for each complete step, appended and synced at its end
//	steps/0001/windows.jsonl   one line for each window: its counters
//	steps/0001/response.hlog   HDR log with a histogram for each window; also service.hlog
//	                           and lag.hlog
//	steps/0001/totals.hlog     HDR log with the histograms of the whole step, and of each kind
//	                           of request
//	steps/0001/samples.jsonl   one line for each sample of the probes
//	steps/0001/cpu.pb.gz       the target's processor profile, if one was taken; also
//	                           allocs, heap, goroutine, mutex and block
//	result.json            the result; replaced as a whole, also if a run ends early
//
// A run that was cut off is readable up to its last complete step.
package record

import (
	"slices"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
)

// SchemaVersion is the version of the files that this program writes and reads. Files of version 1
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
	Mix           string    `json:"mix"` // the mix of requests in words; the results hold for it
	// Settings are the options of the run by name, including defaults.
	Settings map[string]string `json:"settings,omitempty"`
	Machine  Machine           `json:"machine"`
}

// Machine describes the generator's machine.
type Machine struct {
	Host        string `json:"host"`
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes uint64 `json:"memory_bytes"`
	// TargetLocal says that the target runs on this machine. It then shares the cores with the
	// generator, unless Apart says that all generators were on other machines.
	TargetLocal bool `json:"target_local"`
	Apart       bool `json:"generators_apart,omitempty"`
	TargetPID   int  `json:"target_pid,omitempty"`
	// TargetRuntime is the runtime of the target's process, as named by probe.Runtime,
	// TargetVersion its version, and TargetServer the program that serves the target's requests;
	// each is empty if unknown.
	TargetRuntime string `json:"target_runtime,omitempty"`
	TargetVersion string `json:"target_version,omitempty"`
	TargetServer  string `json:"target_server,omitempty"`
	// TargetKnobs are the limits with which the process was started, such as "GOGC=20" and
	// "-Xmx256m".
	TargetKnobs []string `json:"target_knobs,omitempty"`
}

// Shared reports whether the generator and the target shared the machine's cores.
func (m *Machine) Shared() bool { return m.TargetLocal && !m.Apart }

// SLOVerdict is the verdict on whether a step meets the SLO.
type SLOVerdict string

// The verdicts.
const (
	Pass      SLOVerdict = "PASS"
	Fail      SLOVerdict = "FAIL"
	Undecided SLOVerdict = "UNDECIDED"
	// Invalid means that the generator was the limit, so the step says nothing about the target.
	Invalid SLOVerdict = "INVALID"
)

// SoFar is shown for an undecided step in which nothing speaks against the objectives: it is too
// short to prove that they hold.
const SoFar SLOVerdict = "OK SO FAR"

// Shown is the verdict to display.
func (j *Judgement) Shown() SLOVerdict {
	if j.OKSoFar() {
		return SoFar
	}
	return j.Verdict
}

// OKSoFar reports whether a step at a rate is undecided and each objective held in what was
// observed.
func (j *Judgement) OKSoFar() bool {
	return j.Verdict == Undecided && j.Rate > 0 && len(j.Objectives) > 0 &&
		!slices.ContainsFunc(j.Objectives, func(o ObjectiveShare) bool {
			return o.Share.Estimate > o.Allowed
		})
}

// Judgement is a step's verdict and its reasons.
type Judgement struct {
	Step       int              `json:"step"`
	Rate       float64          `json:"rate_per_second"`
	Verdict    SLOVerdict       `json:"verdict"`
	Objectives []ObjectiveShare `json:"objectives,omitempty"`
	// Goodput: requests per second that ended well
	Goodput model.Interval `json:"goodput_per_second"`
	Why     string         `json:"why"` // for a person
}

// ObjectiveShare is the share of requests that broke one objective, with its interval and the
// allowed share.
type ObjectiveShare struct {
	Objective string         `json:"objective"`
	Share     model.Interval `json:"share"`
	Allowed   float64        `json:"allowed_share"`
}

// Line is the load line: the highest rate that still meets the SLO.
type Line struct {
	Interval model.Interval `json:"rate_per_second,omitzero"`
	// Found is false if the line could not be bracketed. Why then says what is known ("above 20000,
	// where the generator was the limit").
	Found bool   `json:"found"`
	Why   string `json:"why"`
	// Caveat is a keyword for what else a reader must know, or for why there is no line: one of the
	// caveats below, or empty. Why explains it in a sentence.
	Caveat string `json:"caveat,omitempty"`
}

// The caveats of a line.
const (
	// CaveatChanges: the service changed during the measurement (it warmed up or was scaled), so
	// the interval may describe a service that no longer exists.
	CaveatChanges = "changes"
	// CaveatCollapses: once overloaded, the service stays overloaded at rates that it carried
	// before, so chance decides how long it carries a rate near the line.
	CaveatCollapses = "collapses"
	// CaveatLimiter: a rate limiter refuses everything above a flat rate (429). The line does not
	// say what the service could carry without it.
	CaveatLimiter = "rate-limited"
	// CaveatAlways: at any load, as many requests break an objective as it allows, so no rate
	// decides whether it is met.
	CaveatAlways = "whatever-the-load"
)

// Collapse is the rate at which goodput stops rising (Result.Peak) or falls (Result.Collapse). The
// interval is between two steps or from a fit.
type Collapse struct {
	Found   bool           `json:"found"`
	Rate    model.Interval `json:"rate_per_second,omitzero"`
	Goodput float64        `json:"goodput_per_second,omitempty"` // at the peak
	Why     string         `json:"why"`
}

// Recovery says whether the target recovered when the load fell.
type Recovery struct {
	Tested    bool `json:"tested"`
	Recovered bool `json:"recovered"`
	// After: seconds until the response times were the same again as earlier at this rate; only
	// valid if Recovered
	After float64 `json:"after_seconds"`
	Why   string  `json:"why"`
}

// Noise is the difference between two equal steps. A comparison cannot see anything smaller.
type Noise struct {
	// P50, P99, Goodput, CPU: shares: 0.03 is 3 %
	P50      float64 `json:"p50_share"`
	P99      float64 `json:"p99_share"`
	Goodput  float64 `json:"goodput_share"`
	CPU      float64 `json:"cpu_share"`
	Measured bool    `json:"measured"`
}

// Validity is one condition for the results to be meaningful.
type Validity struct {
	What string `json:"what"` // "the generator kept its schedule"
	OK   bool   `json:"ok"`
	Why  string `json:"why"` // the measured values
}

// Result is result.json.
type Result struct {
	SchemaVersion int       `json:"schema_version"`
	Ended         time.Time `json:"ended"`
	// Early: why the run ended before it was done; empty if it was done
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
	// NotMeasured: what could not be read, and why; each only once
	NotMeasured []string `json:"not_measured,omitempty"`
}

// Run is the content of a run directory.
type Run struct {
	Dir      string
	Manifest Manifest
	Steps    []measure.Step
	Result   *Result // nil if there is none
	// Notes say what is incomplete, for example that the run was cut off.
	Notes []string
}
