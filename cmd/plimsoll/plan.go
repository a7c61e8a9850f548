package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/plan"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/text"
)

type planCommand struct {
	Dir        string        `arg:"" name:"run" help:"The run directory of a survey."`
	Rate       float64       `required:"" placeholder:"RATE" help:"${plan_rate}"`
	Headroom   plan.Share    `default:"20%" placeholder:"SHARE" help:"${plan_headroom} (${default})."`
	PodStart   time.Duration `default:"40s" placeholder:"TIME" help:"${plan_pod_start} (${default})."`
	Growth     plan.Growth   `default:"5%/min" placeholder:"SHARE/min" help:"${plan_growth} (${default})."`
	Zones      int           `default:"3" placeholder:"N" help:"${plan_zones} (${default})."`
	Database   int           `name:"db-max-connections" placeholder:"N" help:"${plan_database}"`
	Idle       int           `placeholder:"N" help:"${plan_idle}"`
	Active     int           `placeholder:"M" help:"${plan_active}"`
	Memory     []string      `sep:"none" placeholder:"RUN" help:"${plan_memory}"`
	Deployment string        `default:"service" placeholder:"NAME" help:"${plan_deployment} (${default})."`
	Manifest   string        `placeholder:"FILE" help:"Write the HorizontalPodAutoscaler to this YAML file."`
	OnHeadroom string        `placeholder:"FILE" help:"${plan_on_headroom}"`
	JSON       bool          `help:"Print the plan as JSON."`
}

// Help is shown by plimsoll plan --help.
func (planCommand) Help() string {
	return `Plans production from a surveyed load line (the highest rate that still meets the
objectives). It measures nothing, says where every figure comes from, and does not guess what the
run does not show. It computes:

  - how many instances can carry a rate, even if one of them or a whole zone is lost;
  - the target of the autoscaler, so that new instances serve in time;
  - how many database connections each instance may have;
  - how much memory a number of connections takes.

Exit codes: 0, everything requested is planned; 1, the command line is wrong, or the directory is
not a run directory or is damaged; 2, the manifest cannot be written; 3, the run lacks something,
such as a load line or the target's CPU time: the plan says what is missing and how to obtain it,
and plans the rest.

Examples:

    plimsoll plan runs/shop --rate 40000
    plimsoll plan runs/shop --rate 40000 --headroom 30% --pod-start 90s --growth 20%/min --manifest hpa.yaml --deployment shop
    plimsoll plan runs/shop --rate 40000 --db-max-connections 500
    plimsoll plan runs/shop --rate 40000 --idle 900000 --active 100000 --memory runs/c2000 --memory runs/c20000`
}

// mostMemoryRuns bounds the further runs, of which each may take half a gigabyte to read.
const mostMemoryRuns = 16

// Run plans.
func (k *planCommand) Run(_ context.Context, c *console) error {
	if len(k.Memory) > mostMemoryRuns {
		return withExit{exitUsage, fmt.Errorf("--memory: up to %d runs are read", mostMemoryRuns)}
	}
	if err := errors.Join(hasFolder("--manifest", k.Manifest),
		hasFolder("--on-headroom", k.OnHeadroom)); err != nil {
		return withExit{exitUsage, err}
	}
	run, err := openRun(c, k.Dir)
	if err != nil {
		return err
	}
	var more []*record.Run
	for _, dir := range k.Memory {
		further, err := openRun(c, dir)
		if err != nil {
			return err
		}
		more = append(more, further)
	}
	p, err := plan.Make(run, more, plan.Options{
		Rate:                k.Rate,
		Headroom:            float64(k.Headroom),
		PodStart:            k.PodStart,
		Growth:              float64(k.Growth),
		Zones:               k.Zones,
		DatabaseConnections: k.Database,
		Idle:                k.Idle,
		Active:              k.Active,
		Deployment:          k.Deployment,
	})
	if err != nil {
		return withExit{exitUsage, err}
	}
	manifest := p.Manifest()
	if err := writeManifest(k.Manifest, manifest); err != nil {
		return err
	}
	if err := writeManifest(k.OnHeadroom, p.HeadroomManifest()); err != nil {
		return err
	}
	if k.JSON {
		err = c.json(document.NewDeploymentPlan(k.Dir, manifest, p))
	} else {
		err = c.print([]byte(text.DeploymentPlan(p) + written(k.Manifest, manifest)))
	}
	if err == nil && len(p.Missing) > 0 {
		err = withExit{exitUnexpected, silent{errors.New("not all of it can be planned")}}
	}
	return err
}

// writeManifest writes one that was asked for, where there is one.
func writeManifest(path string, manifest []byte) error {
	if path == "" || manifest == nil {
		return nil
	}
	return writeFile(path, manifest)
}

// written says where the manifest is, or that there is none, or shows it where it was given no
// place.
func written(path string, manifest []byte) string {
	switch {
	case manifest == nil && path != "":
		return "\nmanifest: not written, as no autoscaler can be planned; if there is a file " +
			path + ", it is of another plan\n"
	case manifest == nil:
		return ""
	case path != "":
		return "\nmanifest  " + path + "\n"
	}
	return "\nManifest (--manifest FILE writes it):\n\n" + string(manifest)
}
