package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/plan"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/text"
)

type planCommand struct {
	Dir        string        `arg:"" name:"run" help:"The run directory of a survey."`
	Rate       float64       `required:"" placeholder:"RATE" help:"The peak rate of all instances together, in requests a second."`
	Headroom   plan.Share    `default:"20%" placeholder:"SHARE" help:"Keep this share of an instance's load line free (${default})."`
	PodStart   time.Duration `default:"40s" placeholder:"TIME" help:"The time from requesting an instance until it serves (${default})."`
	Growth     plan.Growth   `default:"5%/min" placeholder:"SHARE/min" help:"The fastest growth of the load to plan for (${default})."`
	Zones      int           `default:"3" placeholder:"N" help:"The number of zones to spread the instances over; one may be lost (${default})."`
	Database   int           `name:"db-max-connections" placeholder:"N" help:"The number of connections that the database allows, to share among the instances."`
	Idle       int           `placeholder:"N" help:"Estimate the memory of an instance with N idle connections."`
	Active     int           `placeholder:"M" help:"Estimate the memory of an instance with M connections that have a request under way."`
	Memory     []string      `sep:"none" placeholder:"RUN" help:"Take more memory data from this run of the same service. May be repeated."`
	Deployment string        `default:"service" placeholder:"NAME" help:"The Deployment's name, for the manifest (${default})."`
	Manifest   string        `placeholder:"FILE" help:"Write the HorizontalPodAutoscaler here, as YAML."`
	OnHeadroom string        `placeholder:"FILE" help:"Write a KEDA ScaledObject here, which scales on the headroom that plimsoll gateways measure, as YAML."`
	JSON       bool          `help:"Print the plan as JSON."`
}

// Help is shown by plimsoll plan --help.
func (planCommand) Help() string {
	return `Plans production from a surveyed load line (the highest rate that still meets the
objectives): how many instances carry a rate, also when one of them or a whole zone is lost; the
autoscaler's target, so that new instances serve in time; how many database connections each
instance may have; how much memory a number of connections takes. It measures nothing, and every
figure says where it comes from. What the run does not show is not guessed.

Exit codes: 0, everything requested is planned; 1, the command line is wrong, or the directory is
not a run directory or is damaged; 2, the manifest cannot be written; 3, the run lacks something,
such as a load line or the target's processor time: the plan says what is missing and how to obtain
it, and plans the rest.

Examples:

    plimsoll plan runs/shop --rate 40000
    plimsoll plan runs/shop --rate 40000 --headroom 30% --pod-start 90s --growth 20%/min --manifest hpa.yaml --deployment shop
    plimsoll plan runs/shop --rate 40000 --db-max-connections 500
    plimsoll plan runs/shop --rate 40000 --idle 900000 --active 100000 --memory runs/c2000 --memory runs/c20000`
}

// mostMemoryRuns bounds the further runs, of which each may take half a gigabyte to read.
const mostMemoryRuns = 16

// Run plans.
func (k *planCommand) Run(c *console) error {
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
		err = c.print([]byte(planWords(p) + written(k.Manifest, manifest)))
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

// planWords is a plan for a person.
func planWords(p *plan.DeploymentPlan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, as long as %s\n",
		format.Clean(p.Target), format.Clean(cmp.Or(p.Mix, "its requests")), format.Clean(p.SLO))
	parts := []func(*strings.Builder, *plan.DeploymentPlan){
		planInstances, planCPU, planAutoscaler, planDatabase, planMemory,
	}
	for _, part := range parts {
		part(&b, p)
	}
	for _, m := range p.Missing {
		fmt.Fprintf(&b, "\nNot planned: %s.\n", format.Clean(m))
	}
	if len(p.Cautions) > 0 {
		b.WriteString("\nBear in mind:\n")
	}
	for _, caution := range p.Cautions {
		fmt.Fprintf(&b, "  - %s.\n", format.Clean(caution))
	}
	return b.String()
}

func planInstances(b *strings.Builder, p *plan.DeploymentPlan) {
	i := p.Instances
	if i == nil {
		return
	}
	fmt.Fprintf(b, "\nINSTANCES  %d for %s\n", i.Count, format.Rate(p.Options.Rate))
	fmt.Fprintf(b, "  An instance is given %s at most: %s.\n",
		format.Rate(i.Safe.Value), format.Clean(i.Safe.How))
	if i.Added == "" {
		fmt.Fprintf(b, "  %d carry the rate when all are up, and when some are lost.\n", i.Needed)
	} else {
		fmt.Fprintf(b, "  %d carry the rate when all are up; "+
			"%d more are there for the loss of %s.\n", i.Needed, i.Count-i.Needed, i.Added)
	}
	var table text.Table
	table.Left = []int{4}
	table.Row("", "instances", "each", "of the line", "")
	table.Row("all are up", format.Count(i.Count), format.Rate(i.Each.Value),
		format.Percent(i.Each.Value/p.Line.Low), "")
	for _, l := range i.Losses {
		table.Row(l.What+" lost", format.Count(l.Left), format.Rate(l.Each),
			format.Percent(l.Share), "holds")
		if before := l.Before; before != nil {
			verdict, each, share := "holds", format.Rate(before.Each), format.Percent(before.Share)
			if !before.Holds {
				verdict = "would not hold"
			}
			if before.Left == 0 {
				each, share = "-", "-"
			}
			table.Row(fmt.Sprintf("  with only %d", i.Needed), format.Count(before.Left), each,
				share, verdict)
		}
	}
	b.WriteString("\n" + table.String())
}

func planCPU(b *strings.Builder, p *plan.DeploymentPlan) {
	u := p.CPU
	if u == nil {
		return
	}
	cost := format.Duration(u.PerRequest.Value * 1e9)
	if u.PerRequestError > 0 {
		cost += " (± " + format.Duration(u.PerRequestError*1e9) + ")"
	}
	fmt.Fprintf(b, "\nPROCESSOR  %s a request, and %.2g cores whatever the rate\n",
		cost, u.Idle.Value)
	fmt.Fprintf(b, "  %s.\n  At %s that is %.3g cores, at the line's lower end %.3g.\n",
		format.Clean(u.PerRequest.How), format.Rate(p.Instances.Safe.Value),
		u.AtSafe.Value, u.AtLine.Value)
}

func planAutoscaler(b *strings.Builder, p *plan.DeploymentPlan) {
	a := p.Autoscaler
	if a == nil {
		return
	}
	fmt.Fprintf(b, "\nAUTOSCALER  at %d %% of a request of %.0f m, %d to %d instances\n",
		a.TargetCPU, a.RequestCPU.Value*1000, a.MinReplicas, a.MaxReplicas)
	fmt.Fprintf(b, "  That is %s of each instance: %s.\n",
		format.Rate(a.TargetRate.Value), format.Clean(a.TargetRate.How))
	fmt.Fprintf(b, "  A new instance serves %s after the load has risen: %s.\n",
		format.Duration(a.Lag.Value*1e9), format.Clean(a.Lag.How))
	var table text.Table
	table.Left = []int{1}
	for _, l := range a.Limits {
		table.Row(format.Rate(l.Rate), format.Clean(l.Why))
	}
	fmt.Fprintf(b, "  The target is the lowest of these:\n\n%s", table.String())
}

func planDatabase(b *strings.Builder, p *plan.DeploymentPlan) {
	d := p.Database
	if d == nil {
		return
	}
	fmt.Fprintf(b, "\nDATABASE  a pool of %.0f connections for each instance\n  %s.\n",
		d.PerInstance.Value, format.Clean(d.PerInstance.How))
	if n := d.Needed; n != nil {
		verdict := "That is enough"
		if !d.Enough {
			verdict = "THAT IS TOO FEW"
		}
		fmt.Fprintf(b, "  %s: an instance needs %.0f (%s).\n",
			verdict, n.Value, format.Clean(n.How))
	}
}

func planMemory(b *strings.Builder, p *plan.DeploymentPlan) {
	m := p.Memory
	if m == nil {
		return
	}
	fmt.Fprintf(b, "\nMEMORY  %s ± %s of an instance, for %s idle and %s active connections\n",
		format.Bytes(m.Total.Value), format.Bytes(m.Error),
		format.Count(m.Idle), format.Count(m.Active))
	fmt.Fprintf(b, "  %s, and %s (± %s) for each connection",
		format.Bytes(m.Base.Value), format.Bytes(m.PerConnection.Value),
		format.Bytes(m.PerConnectionError))
	if m.PerActive != nil {
		fmt.Fprintf(b, ", and %s (± %s) more for each active one",
			format.Bytes(m.PerActive.Value), format.Bytes(m.PerActiveError))
	} else {
		b.WriteString("; these steps do not distinguish idle from active ones")
	}
	fmt.Fprintf(b, ": %s.\n\n", format.Clean(m.Total.How))
	var table text.Table
	table.Row("connections", "memory", "±")
	for _, r := range m.Table {
		table.Row(format.Count(r.Connections), format.Bytes(r.Bytes), format.Bytes(r.Error))
	}
	b.WriteString(table.String())
}
