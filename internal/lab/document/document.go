// Package document defines what plimsoll's commands print with --json, and the JSON Schemas of
// these documents and of the files in run directories. docs/json.md explains them. The package
// combines the results of other packages. It must not compute anything except percentiles, and must
// read nothing.
package document

import (
	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/doctor"
	"plimsoll/internal/lab/experiment"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/plan"
	"plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/report"
	"plimsoll/internal/lab/wrkcheck"
)

// SchemaVersion is the version of these documents. It increases if a key changes its meaning or is
// removed, not if one is added.
const SchemaVersion = 1

// Head begins every document.
type Head struct {
	SchemaVersion int    `json:"schema_version"`
	Command       string `json:"command"` // the command that printed it
}

func head(command string) Head { return Head{SchemaVersion, command} }

// Survey is printed by survey.
type Survey struct {
	Head
	Directory string           `json:"directory"`
	Report    string           `json:"report"` // the path of the page
	Manifest  *record.Manifest `json:"manifest"`
	// null if the survey ended before it had one
	Result *record.Result `json:"result"`
	// absent if no step could be examined
	Diagnosis *diagnose.Diagnosis `json:"diagnosis,omitempty"`
}

// NewSurvey makes the document of a run as it was read back, with its page and its diagnosis.
func NewSurvey(run *record.Run, page string, d *diagnose.Diagnosis) Survey {
	return Survey{head("survey"), run.Dir, page, &run.Manifest, run.Result, d}
}

// Diagnose is printed by diagnose.
type Diagnose struct {
	Head
	Directory string              `json:"directory"`
	Diagnosis *diagnose.Diagnosis `json:"diagnosis"`
}

// NewDiagnose makes the document of the run in a directory.
func NewDiagnose(dir string, d *diagnose.Diagnosis) Diagnose {
	return Diagnose{head("diagnose"), dir, d}
}

// Compare is printed by compare.
type Compare struct {
	Head
	A          string             `json:"a"` // the run directories
	B          string             `json:"b"`
	Report     string             `json:"report"`
	Comparison *report.Comparison `json:"comparison"`
}

// NewCompare makes the document of the runs in two directories.
func NewCompare(a, b, page string, c *report.Comparison) Compare {
	return Compare{head("compare"), a, b, page, c}
}

// Experiment is printed by experiment.
type Experiment struct {
	Head
	Directory string             `json:"directory"`
	Name      string             `json:"name"`
	Question  string             `json:"question"`
	Variable  string             `json:"variable"`
	Result    *experiment.Result `json:"result"`
}

// NewExperiment makes the document of an experiment in a directory.
func NewExperiment(dir string, m *experiment.Manifest, r *experiment.Result) Experiment {
	return Experiment{head("experiment"), dir, m.Name, m.Question, m.Variable, r}
}

// DeploymentPlan is printed by plan.
type DeploymentPlan struct {
	Head
	Directory string `json:"directory"`
	// for Kubernetes, as YAML; empty if none can be made
	Manifest string               `json:"manifest"`
	Plan     *plan.DeploymentPlan `json:"plan"`
}

// NewDeploymentPlan makes the document of the run in a directory.
func NewDeploymentPlan(dir string, manifest []byte, p *plan.DeploymentPlan) DeploymentPlan {
	return DeploymentPlan{head("plan"), dir, string(manifest), p}
}

// Doctor is printed by doctor.
type Doctor struct {
	Head
	doctor.Report
}

// NewDoctor makes the document of a doctor's report.
func NewDoctor(r *doctor.Report) Doctor { return Doctor{head("doctor"), *r} }

// Model is printed by model.
type Model struct {
	Head
	Directory string       `json:"directory"`
	Model     *model.Model `json:"model"`
}

// NewModel makes the document of the run in a directory.
func NewModel(dir string, m *model.Model) Model { return Model{head("model"), dir, m} }

// Profile is printed by profile.
type Profile struct {
	Head
	File   string `json:"file"`
	Format string `json:"format"` // found from its content: "folded stacks"
	// Before is the file for comparison; absent if there is none.
	Before string           `json:"before,omitempty"`
	Pprof  string           `json:"pprof,omitempty"` // the files written
	Flame  string           `json:"flame,omitempty"`
	Where  *profile.Summary `json:"profile"`
}

// NewProfile makes the document of the profile in a file.
func NewProfile(file, format, before string, s *profile.Summary) Profile {
	return Profile{Head: head("profile"), File: file, Format: format, Before: before, Where: s}
}

// Verify is printed by verify-against-wrk and verify-against-h2load.
type Verify struct {
	Head
	Comparison *wrkcheck.Report `json:"comparison"`
}

// NewVerify makes the document of a comparison with wrk or h2load.
func NewVerify(r *wrkcheck.Report) Verify {
	name, _ := r.Theirs()
	return Verify{head("verify-against-" + name), r}
}
