package plan

import (
	"fmt"
	"math"
	"time"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
)

// Kubernetes behavior that a plan must take into account.
const (
	// Reaction is how long the load may have risen before the autoscaler asks for an instance: it
	// checks every 15 s, and its metrics from the kubelet and the metrics server are updated every
	// 15 s.
	Reaction = 30 * time.Second
	// tolerance is the share by which an instance's load may exceed the target before the
	// autoscaler acts (its default).
	tolerance = .1
	// surge is the share of extra instances during a rolling update (a Deployment's default).
	surge = .25

	// uneven is how much smaller the share left by a loss may be with fewer than the planned
	// instances. Numbers with a smaller share are not scaled down to: of four over three zones, a
	// loss leaves half.
	uneven = .1

	downWindow, longestWindow = 300, 3600 // seconds; the first is the default
	longestPeriod             = 1800      // seconds, of a scaling policy
	fewestReplicas            = 2
	cpuStep                   = .01 // cores; requests are rounded up to it
	memoryStep                = 16 << 20
)

// Autoscaler is a HorizontalPodAutoscaler that keeps each instance at a rate from which it survives
// the planned growth and losses.
type Autoscaler struct {
	// TargetRate is the requests per second of one instance that it aims at. Limits are the bounds
	// on it; the lowest one decides.
	TargetRate Figure  `json:"target_rate"`
	Limits     []Limit `json:"limits,omitempty"`
	// RequestCPU is resources.requests.cpu: what an instance uses at the line. TargetCPU is the
	// percentage of it to aim at.
	RequestCPU Figure `json:"request_cpu"`
	TargetCPU  int    `json:"target_cpu_percent"`
	// RequestMemory is resources.requests.memory in bytes; its value is 0 if no resident memory was
	// sampled and none was computed for connections.
	RequestMemory Figure `json:"request_memory"`
	MinReplicas   int    `json:"min_replicas"`
	MaxReplicas   int    `json:"max_replicas"`
	// Lag is the time from a rise of the load until a new instance serves. Grown is the factor by
	// which the load may have grown by then.
	Lag   Figure  `json:"lag"`
	Grown float64 `json:"growth_factor"`
	// ScaleDownWindow and ScaleUpPeriod are in seconds.
	ScaleDownWindow int `json:"scale_down_window_seconds"`
	ScaleUpPeriod   int `json:"scale_up_period_seconds"`
	// Surge is how many instances a rolling update may run in addition to MaxReplicas.
	Surge int `json:"surge"`
}

// Limit is a bound on the target's rate.
type Limit struct {
	Rate float64 `json:"rate_per_second"`
	Why  string  `json:"why"`
}

// autoscaler computes the rate of an instance to aim at. Three things must hold at the highest load
// that the autoscaler allows. Grown until a new instance serves, the load is at most the safe rate.
// The same with the whole tolerance used up is within the line. It is also within the line when
// instances are lost, however many there are at that moment.
func (p *DeploymentPlan) autoscaler(run *record.Run) {
	if p.CPU == nil {
		return
	}
	o, i, low := &p.Options, p.Instances, p.Line.Low
	lag := o.PodStart + Reaction
	a := &Autoscaler{
		Lag: Figure{
			lag.Seconds(),
			"s",
			fmt.Sprintf("%v until an instance serves (--pod-start), and %v until the autoscaler "+
				"has seen and decided",
				o.PodStart, Reaction),
		},
		Grown: 1 + o.Growth*lag.Minutes(),
	}
	thin, what := p.thinnest(), i.Losses[len(i.Losses)-1].What
	grown := "the safe rate"
	if o.Growth > 0 {
		grown = fmt.Sprintf("safe rate %s ÷ %.3g, as the load may grow by %s a minute for %.3g s "+
			"before a new instance serves",
			format.Rate(i.Safe.Value), a.Grown, format.Percent(o.Growth), lag.Seconds())
	}
	a.Limits = []Limit{
		{i.Safe.Value / a.Grown, grown},
		{
			low / a.Grown / (1 + tolerance),
			fmt.Sprintf("lower end of the line %s ÷ %.3g ÷ %.3g, as the autoscaler does nothing "+
				"below %.0f %% over its target",
				format.Rate(low), a.Grown, 1+tolerance, tolerance*100),
		},
		{
			low * p.left(thin) / (1 + tolerance),
			fmt.Sprintf("lower end of the line %s × %.3g ÷ %.3g, as %s may be lost (%d "+
				"of %d instances)",
				format.Rate(low), p.left(thin), 1+tolerance, what, p.mostLost(thin), thin),
		},
	}
	least := a.Limits[0]
	for _, l := range a.Limits[1:] {
		if l.Rate < least.Rate {
			least = l
		}
	}
	a.TargetRate = Figure{least.Rate, "/s", least.Why}
	p.request(a, run)
	a.MinReplicas = p.fewest(a.TargetRate.Value)
	a.MaxReplicas = max(i.Count, a.MinReplicas, int(ceil(o.Rate/a.TargetRate.Value)))
	a.Surge = int(ceil(surge * float64(a.MaxReplicas)))
	a.ScaleDownWindow = min(max(downWindow, int(ceil(2*lag.Seconds()))), longestWindow)
	a.ScaleUpPeriod = min(max(15, int(ceil(o.PodStart.Seconds()))), longestPeriod)
	p.Autoscaler = a
	p.doubtAutoscaler(a, run)
}

// left returns the share of the instances that the worst loss leaves.
func (p *DeploymentPlan) left(count int) float64 {
	return 1 - float64(p.mostLost(count))/float64(count)
}

// thinnest returns the number of instances, among those that the autoscaler may run, of which a
// loss leaves the smallest share. Below the planned number, a loss may leave slightly less than of
// the planned ones; numbers for which it leaves even less are not run.
func (p *DeploymentPlan) thinnest() int {
	thin := p.Instances.Count
	bound := (1-uneven)*p.left(thin) - 1e-9
	for n := thin - 1; n >= max(fewestReplicas, p.Options.Zones) && p.left(n) >= bound; n-- {
		if p.left(n) < p.left(thin) {
			thin = n
		}
	}
	return thin
}

// fewest returns the minimum number of instances. At that number and any higher one, the instances
// left after a loss must carry the load that the autoscaler allows all of them. From the planned
// number on they do, because the load never exceeds the planned rate.
func (p *DeploymentPlan) fewest(target float64) int {
	least := max(fewestReplicas, p.Options.Zones)
	for n := p.Instances.Count; n >= least; n-- {
		if p.Line.Low*p.left(n) < target*(1+tolerance)*(1-1e-9) {
			return n + 1
		}
	}
	return least
}

// request sets what an instance requests from its node, and the target as a percentage of that.
func (p *DeploymentPlan) request(a *Autoscaler, run *record.Run) {
	c := p.CPU
	a.RequestCPU = Figure{
		cpuStep * ceil(c.AtLine.Value/cpuStep),
		"cores",
		"what an instance takes at the lower end of the line, " + c.AtLine.How + ", rounded up",
	}
	at := c.at(a.TargetRate.Value)
	a.TargetCPU = max(1, int(math.Floor(100*at/a.RequestCPU.Value)))
	if rss := residentAtMost(run); rss > 0 {
		asked := memoryStep * ceil(rss*(1+p.Options.Headroom)/memoryStep)
		a.RequestMemory = Figure{
			asked,
			"bytes",
			fmt.Sprintf("highest resident memory in the run, %s, with %s of headroom", format.Bytes(rss),
				format.Percent(p.Options.Headroom)),
		}
	}
	if m := p.Memory; m != nil && m.Beyond <= far && m.Total.Value+m.Error > a.RequestMemory.Value {
		a.RequestMemory = Figure{memoryStep * ceil((m.Total.Value+m.Error)/memoryStep), "bytes",
			fmt.Sprintf("%d idle and %d active connections, upper end of the interval, rounded up",
				m.Idle, m.Active)}
	}
}

// doubtAutoscaler adds cautions where processor time is a poor metric for scaling.
func (p *DeploymentPlan) doubtAutoscaler(a *Autoscaler, run *record.Run) {
	c := p.CPU
	if at := c.at(a.TargetRate.Value); c.Idle.Value > .5*at {
		p.caution("%.0f %% of the processor time at the target is spent whatever the rate: "+
			"scale on requests a second (%s an instance) rather than on the processor",
			100*c.Idle.Value/at, format.Rate(a.TargetRate.Value))
	}
	cores := float64(run.Manifest.Machine.Cores)
	if run.Manifest.Machine.TargetLocal && cores > 0 && c.AtLine.Value < .7*cores {
		p.caution("at the line an instance uses %.2g of %.0f cores, so something else is the "+
			"bottleneck: beyond the line, processor use may no longer show the load, and the "+
			"autoscaler may not see it", c.AtLine.Value, cores)
	}
	if a.TargetCPU < 30 {
		p.caution("the target of %d %% is low: fewer zones lost at once, a shorter start of "+
			"instances or slower growth would raise it", a.TargetCPU)
	}
}
