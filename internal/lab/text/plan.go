package text

import (
	"cmp"
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/plan"
)

// DeploymentPlan describes a plan of instances, and where each figure comes from.
func DeploymentPlan(p *plan.DeploymentPlan) string {
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
	var table Table
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
	var table Table
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
	var table Table
	table.Row("connections", "memory", "±")
	for _, r := range m.Table {
		table.Row(format.Count(r.Connections), format.Bytes(r.Bytes), format.Bytes(r.Error))
	}
	b.WriteString(table.String())
}
