package plan

import (
	"bytes"
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
)

// Manifest returns the HorizontalPodAutoscaler as YAML, for kubectl apply. Comments contain the
// part of the Deployment that it relies on. It is nil if the plan has no autoscaler.
func (p *DeploymentPlan) Manifest() []byte {
	a := p.Autoscaler
	if a == nil {
		return nil
	}
	var b bytes.Buffer
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	note := func(indent, format string, args ...any) {
		comment(&b, indent, fmt.Sprintf(format, args...))
	}
	note("", "Planned by plimsoll from a survey of %s: %s, as long as %s.", p.Target, p.Mix, p.SLO)
	note("", "Load line of one instance: %s to %s. Planned for %s with %s of headroom.",
		format.Rate(p.Line.Low), format.Rate(p.Line.High),
		format.Rate(p.Options.Rate), format.Percent(p.Options.Headroom))
	note("", "")
	note("",
		"The percentage below is one of this request, so the Deployment's container needs it. "+
			"It sets no processor limit: a quota")
	note("", "stops an instance in the middle of requests, and the line was measured without one.")
	if p.Options.Zones > 1 {
		note("", "The loss of a zone is planned for %d over which the instances are spread evenly.",
			p.Options.Zones)
	}
	note("", "")
	comment(&b, "",
		"spec:\n  template:\n    spec:\n"+p.spread()+"      containers:\n        - name: "+
			p.Options.Deployment+"\n          resources:\n"+p.resources())
	note("", "")
	note("", "cpu: %s", a.RequestCPU.How)
	if a.RequestMemory.Value > 0 {
		note("", "memory: %s", a.RequestMemory.How)
	}
	say("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: %s\nspec:",
		p.Options.Deployment)
	say("  scaleTargetRef:\n    apiVersion: apps/v1\n    kind: Deployment\n    name: %s",
		p.Options.Deployment)
	if a.MinReplicas > max(fewestReplicas, p.Options.Zones) {
		note("  ",
			"Of fewer a loss would take so large a share that the others could not carry the load.")
	}
	say("  minReplicas: %d\n  maxReplicas: %d", a.MinReplicas, a.MaxReplicas)
	say("  metrics:\n" +
		"    - type: Resource\n" +
		"      resource:\n" +
		"        name: cpu\n" +
		"        target:\n" +
		"          type: Utilization")
	note("          ", "%s of each instance: %s", format.Rate(a.TargetRate.Value), a.TargetRate.How)
	say("          averageUtilization: %d", a.TargetCPU)
	p.behavior(&b, "  ")
	return b.Bytes()
}

// behavior writes how fast the number of instances may change.
func (p *DeploymentPlan) behavior(b *bytes.Buffer, indent string) {
	a := p.Autoscaler
	say := func(format string, args ...any) { fmt.Fprintf(b, indent+format+"\n", args...) }
	say("behavior:")
	say("  scaleUp:")
	say("    stabilizationWindowSeconds: 0")
	say("    selectPolicy: Max")
	say("    policies:")
	comment(b, indent+"      ",
		"Twice as many by the time that the ones asked for serve, and never less than 4.")
	say("      - type: Percent\n%s        value: 100\n%s        periodSeconds: %d", indent, indent,
		a.ScaleUpPeriod)
	say("      - type: Pods\n%s        value: 4\n%s        periodSeconds: %d", indent, indent,
		a.ScaleUpPeriod)
	say("  scaleDown:")
	comment(b, indent+"    ", fmt.Sprintf(
		"An instance that goes too early is missed for %.0f s: go slowly.", a.Lag.Value))
	say("    stabilizationWindowSeconds: %d", a.ScaleDownWindow)
	say("    selectPolicy: Max")
	say("    policies:")
	say("      - type: Percent\n%s        value: 10\n%s        periodSeconds: 60", indent, indent)
	say("      - type: Pods\n%s        value: 1\n%s        periodSeconds: 60", indent, indent)
}

// spread returns the constraint that keeps the instances even over the zones, indented for a pod's
// spec; empty if there is one zone. A zone whose nodes are gone must not count as a zone without
// instances, or nothing could start in the others.
func (p *DeploymentPlan) spread() string {
	if p.Options.Zones < 2 {
		return ""
	}
	return "      topologySpreadConstraints:\n" +
		"        - topologyKey: topology.kubernetes.io/zone\n" +
		"          maxSkew: 1\n" +
		"          whenUnsatisfiable: DoNotSchedule\n" +
		"          nodeTaintsPolicy: Honor\n" +
		"          labelSelector: # as the Deployment's own selector has it\n" +
		"            matchLabels:\n" +
		"              app: " + p.Options.Deployment + "\n"
}

// resources returns the value of a container's resources, indented to go under it.
func (p *DeploymentPlan) resources() string {
	a := p.Autoscaler
	s := fmt.Sprintf("            requests:\n              cpu: %.0fm\n", a.RequestCPU.Value*1000)
	if a.RequestMemory.Value > 0 {
		s += fmt.Sprintf("              memory: %.0fMi\n", a.RequestMemory.Value/(1<<20))
	}
	return s
}

// comment writes a text as comments. A run directory may come from anywhere, and its text must not
// end a comment. So every character with a special meaning for YAML or a terminal is replaced.
func comment(b *bytes.Buffer, indent, text string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString(strings.TrimRight(indent+"# "+format.Clean(line), " ") + "\n")
	}
}
