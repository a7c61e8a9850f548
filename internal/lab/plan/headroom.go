package plan

import (
	"bytes"
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
)

// HeadroomManifest returns a ScaledObject (KEDA 2) as YAML. It scales the Deployment by the
// headroom that a plimsoll gateway in front of it measures, instead of by processor time: headroom
// also shows limits that no processor metric does, such as a connection pool. It is nil if the plan
// has no autoscaler.
func (p *DeploymentPlan) HeadroomManifest() []byte {
	a := p.Autoscaler
	if a == nil || p.Line.Estimate <= 0 {
		return nil
	}
	var b bytes.Buffer
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	note := func(indent, format string, args ...any) {
		comment(&b, indent, fmt.Sprintf(format, args...))
	}
	note("", "Planned by plimsoll from a survey of %s: %s, as long as %s.", p.Target, p.Mix, p.SLO)
	note("", "It needs KEDA, and a Prometheus that scrapes the plimsoll gateways in front of the")
	note("", "Deployment, in whose configuration the upstream is called %s.", p.Options.Deployment)
	say("apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata:\n  name: %s\nspec:",
		p.Options.Deployment)
	say("  scaleTargetRef:\n    apiVersion: apps/v1\n    kind: Deployment\n    name: %s",
		p.Options.Deployment)
	say("  minReplicaCount: %d\n  maxReplicaCount: %d", a.MinReplicas, a.MaxReplicas)
	say("  pollingInterval: 15")
	say("  advanced:\n    horizontalPodAutoscalerConfig:")
	p.behavior(&b, "      ")
	say("  triggers:\n    - type: prometheus\n      metricType: Value\n      metadata:")
	note("        ", "Put your Prometheus here.")
	say("        serverAddress: http://prometheus.monitoring.svc:9090")
	note("        ", "The share of the capacity that is in use, of the gateway that has the least left.")
	say("        query: max(1 - plimsoll_upstream_headroom{upstream=%q})", p.Options.Deployment)
	note("        ", "%s of each instance: %s", format.Rate(a.TargetRate.Value), a.TargetRate.How)
	say("        threshold: \"%.2f\"", p.usedShare())
	note("        ", "While the headroom is not known the number of instances stays as it is.")
	say("        ignoreNullValues: \"false\"")
	return b.Bytes()
}

// usedShare returns the share of the line to use of each instance, rounded down to hundredths.
func (p *DeploymentPlan) usedShare() float64 {
	share := p.Autoscaler.TargetRate.Value / p.Line.Estimate
	return min(max(math.Floor(100*share)/100, .01), .99)
}
