// Package plan computes what a load line means for production: how many instances carry a rate,
// what happens if some are lost, what an autoscaler should aim at, how many database connections
// each instance may have, and how much memory a number of connections takes. It is arithmetic on
// the run directory of a survey. It must not measure, or know a clock, a network or a terminal.
// Every number says where it comes from. What a run does not show is reported as missing, not
// guessed.
package plan

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// Limits of the options. Beyond them a plan would be meaningless.
const (
	// MostConnections is the maximum number of connections of one instance to compute memory for.
	MostConnections = 1_000_000
	mostRate        = 1e9
	mostInstances   = 100_000
	mostGrowth      = 100 // times a minute
	longestStart    = time.Hour
	mostZones       = 100
	mostDatabase    = 1_000_000
)

// Options are the requirements of a plan.
type Options struct {
	// Rate is the peak rate in requests per second that all instances carry together.
	Rate float64 `json:"rate_per_second"`
	// Headroom is the share of the line's lower end to keep free, from 0 to below 1.
	Headroom float64 `json:"headroom_share"`
	// PodStart is the time from an instance's creation until it serves as fast as the others; 0
	// means at once.
	PodStart time.Duration `json:"pod_start_ns"`
	// Growth is the share by which the load may grow per minute; 0 means that it grows no faster
	// than the autoscaler follows.
	Growth float64 `json:"growth_share_per_minute"`
	// DatabaseConnections is the database's limit over all clients; 0 plans no pool.
	DatabaseConnections int `json:"database_connections"`
	// Zones is how many zones the instances are spread over evenly; 0 means one.
	Zones int `json:"zones"`
	// Idle and Active are the connections of one instance to compute memory for; both 0 computes
	// none.
	Idle   int `json:"idle"`
	Active int `json:"active"`
	// Deployment is the name of the Deployment that the autoscaler scales; default "service".
	Deployment string `json:"deployment"`
}

var deploymentName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// check rejects options for which there is no plan. Its errors say what to give instead.
func (o *Options) check() error {
	switch {
	case !(o.Rate > 0 && o.Rate <= mostRate):
		return fmt.Errorf("the rate must be above 0 and at most %.0g requests a second",
			float64(mostRate))
	case o.Headroom == 1:
		return errors.New("a headroom of 100 % leaves nothing to serve with: " +
			"give less, such as 20 %")
	case !(o.Headroom >= 0 && o.Headroom < 1):
		return errors.New("the headroom is a share from 0 % to below 100 %")
	case o.PodStart < 0 || o.PodStart > longestStart:
		return fmt.Errorf("an instance's start takes 0s to %v", longestStart)
	case !(o.Growth >= 0 && o.Growth <= mostGrowth):
		return fmt.Errorf("the growth is 0 %% to %d %% a minute", mostGrowth*100)
	case o.DatabaseConnections < 0 || o.DatabaseConnections > mostDatabase:
		return fmt.Errorf("the database allows 1 to %d connections", mostDatabase)
	case o.Zones < 1 || o.Zones > mostZones:
		return fmt.Errorf("there are 1 to %d zones", mostZones)
	case o.Idle < 0 || o.Active < 0 || o.Idle > MostConnections || o.Active > MostConnections ||
		o.Idle+o.Active > MostConnections:
		return fmt.Errorf("idle and active connections are 0 to %d together", MostConnections)
	case !deploymentName.MatchString(o.Deployment):
		return errors.New("a Deployment's name is up to 63 small letters, digits and hyphens, " +
			"and begins and ends with a letter or a digit")
	}
	return nil
}

// Figure is a number and where it comes from.
type Figure struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "/s", "cores", "bytes", "s", "connections"
	How   string  `json:"how"`
}

// DeploymentPlan is the result. A part that is nil could not be planned or was not requested;
// Missing distinguishes the two.
type DeploymentPlan struct {
	Target  string  `json:"target"`
	SLO     string  `json:"slo"`
	Mix     string  `json:"mix"`
	Options Options `json:"options"`
	// Line is the surveyed load line of one instance.
	Line       *model.Interval `json:"line_per_second,omitempty"`
	Instances  *Instances      `json:"instances,omitempty"`
	CPU        *CPU            `json:"cpu,omitempty"`
	Autoscaler *Autoscaler     `json:"autoscaler,omitempty"`
	Database   *Database       `json:"database,omitempty"`
	Memory     *Memory         `json:"memory,omitempty"`
	// Cautions are what to keep in mind. Missing lists what was requested and cannot be planned,
	// and how to make it available.
	Cautions []string `json:"cautions,omitempty"`
	Missing  []string `json:"missing,omitempty"`
}

// Make plans from the run of a survey. more are further runs of the same service, for the memory at
// other numbers of connections. An error is only about the options, or a rate that needs too many
// instances; what the runs do not show is in Missing.
func Make(run *record.Run, more []*record.Run, o Options) (*DeploymentPlan, error) {
	if o.Zones == 0 {
		o.Zones = 1
	}
	if o.Deployment == "" {
		o.Deployment = "service"
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &DeploymentPlan{
		Target:  run.Manifest.Target,
		SLO:     run.Manifest.SLO,
		Mix:     run.Manifest.Mix,
		Options: o,
	}
	p.memory(run, more)
	if p.line(run) {
		if err := p.instances(); err != nil {
			return nil, err
		}
		p.processor(run)
		p.autoscaler(run)
		p.database(run)
	}
	return p, nil
}

// line takes the load line from a run; ok is false if the run has none to plan with.
func (p *DeploymentPlan) line(run *record.Run) (ok bool) {
	missing := func(why string) bool {
		p.Missing = append(p.Missing, "instances, autoscaler and database pools: "+why)
		return false
	}
	switch {
	case run.Result == nil:
		return missing("the run was cut off before its load line was found: run the survey again")
	case !run.Result.Line.Found && run.Manifest.Kind != "" &&
		run.Manifest.Kind != record.KindSurvey:
		return missing("they are computed from a load line, and this run is not a survey: " +
			"give a run of plimsoll survey")
	case !run.Result.Line.Found:
		why := run.Result.Line.Why
		if why == "" {
			why = run.Result.Early
		}
		return missing("the survey found no load line (" + why + "): survey again, " +
			"on a machine with less else to do, or with a higher --limit if there is one")
	}
	line := run.Result.Line.Interval
	if !(line.Low > 0) || math.IsInf(line.Low, 0) {
		return missing("the lower end of the line's interval is 0, so that no rate is safe: " +
			"survey again with more --runs, so that the line is better known")
	}
	p.Line = &line
	if run.Result.Early != "" {
		p.caution("the survey ended early (%s), so the line is less sure than it could be",
			run.Result.Early)
	}
	for _, v := range run.Result.Validity {
		if !v.OK {
			p.caution("the survey itself reports that this does not hold: %s (%s)", v.What, v.Why)
		}
	}
	if run.Manifest.Machine.Shared() {
		p.caution("the generator shared the target's cores: on a machine of its own an " +
			"instance may carry more")
	}
	return true
}

func (p *DeploymentPlan) caution(format string, args ...any) {
	p.Cautions = append(p.Cautions, fmt.Sprintf(format, args...))
}
