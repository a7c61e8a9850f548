package diagnose

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/lab/measure"
)

// knownProcs is the entry in Needs that requires GOMAXPROCS to be known: from the service's metrics
// page, or from its environment.
const (
	knownProcs       = measure.GoMaxProcs + "|" + environmentProcs
	environmentProcs = "environment:GOMAXPROCS"
)

// limitRules are about what the service is allowed: processors, descriptors, entries of tables.
var limitRules = []Rule{
	{
		Name:  "cgroup-throttled",
		Claim: "The cgroup's quota stops the service",
		Needs: []string{measure.TargetCgroupThrottledPeriods, measure.TargetCgroupCPUQuota},
		Threshold: "throttled in over 10 % of the periods, or in over 1 % and, beyond the line, in " +
			"over 30 % with most of the quota in use",
		Reason: "a period is 100 ms: what is throttled stands still for most of one, which is a " +
			"percentile of its own; and one in a hundred of them is enough to miss a p99",
		Judge: func(e *Evidence) *Finding {
			share := e.AtLine.Grown(measure.TargetCgroupThrottledPeriods) /
				max(e.AtLine.Grown(measure.TargetCgroupPeriods), 1)
			quota := e.AtLine.Last(measure.TargetCgroupCPUQuota)
			// A request that comes early in a pause of 70 ms breaks an objective of 50 ms, so the line
			// may be where few periods are throttled. Waste that is known comes first then: what runs
			// into a quota beyond the line need not be stopped by it before.
			over := e.Over.Grown(measure.TargetCgroupThrottledPeriods) /
				max(e.Over.Grown(measure.TargetCgroupPeriods), 1)
			sets := share > .01 && over > .3 && e.Over.PerSecond(measure.TargetCPU) > .85*quota &&
				e.AtLine.PerSecond(measure.TargetCPU) > .6*quota && e.wasting() == nil
			if share <= .1 && !sets {
				return nil
			}
			confidence := .95
			if share <= .1 {
				confidence = .8
			}
			cores := e.pinned(e.AtLine.Last(measure.HostCores))
			f := &Finding{
				Claim: fmt.Sprintf("The cgroup's quota of %s cores stops the service in "+
					"%s of its periods", number(quota), percent(share)),
				Rank:       Binding,
				Confidence: confidence,
				Evidence: []Fact{
					{
						What:  "periods throttled, at the line and beyond it",
						Value: percent(share) + ", " + percent(over),
					},
					{
						What: "time throttled",
						Value: span(e.AtLine.PerSecond(measure.TargetCgroupThrottled)) +
							" a second",
					},
					{What: "quota", Value: number(quota) + " cores of " + number(cores)},
				},
				Advice: []Action{{
					Text: fmt.Sprintf("raise the quota, or take it away: "+
						"as %s cores need it (Kubernetes: resources.limits.cpu)", number(cores)),
					Command: fmt.Sprintf("echo %.0f > cpu.cfs_quota_us   # of the cgroup; "+
						"with cgroup v2: echo '%.0f 100000' > cpu.max", cores*1e5, cores*1e5),
				}},
				Gain: e.gain(cure{allowed: cores}),
			}
			if threads := e.maxProcs(); threads > 0 {
				f.Evidence = append(f.Evidence, Fact{
					What:  "goroutines run on",
					Value: number(threads) + " threads (GOMAXPROCS)",
				})
			}
			return f
		},
		Counters: []Counter{{
			"it used little of its quota, so that only bursts were stopped",
			func(e *Evidence) (string, bool) {
				share := e.AtLine.PerSecond(measure.TargetCPU) /
					max(e.AtLine.Last(measure.TargetCgroupCPUQuota), 1e-9)
				return percent(share) + " of the quota used at the line",
					e.AtLine.Has(measure.TargetCPU) && share < .3
			},
		}},
	},
	{
		Name:  "gomaxprocs-high",
		Claim: "GOMAXPROCS is above the quota",
		Needs: []string{knownProcs, measure.TargetCgroupCPUQuota},
		Threshold: "GOMAXPROCS is twice the quota or more, and over 2, which is the least that " +
			"Go sets by itself",
		Reason: "threads use the quota up together early in a period, and all stand still for " +
			"the rest of it; since Go 1.25 the default follows the quota",
		Judge: func(e *Evidence) *Finding {
			threads := e.maxProcs()
			quota := e.AtLine.Last(measure.TargetCgroupCPUQuota)
			if threads <= 2 || threads < 2*math.Ceil(quota) {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("GOMAXPROCS is %s with a quota of %s cores",
					number(threads), number(quota)),
				Rank:       Risk,
				Confidence: .8,
				Evidence: []Fact{
					{What: "GOMAXPROCS", Value: number(threads)},
					{What: "quota", Value: number(quota) + " cores"},
				},
				Gain: Gain{
					Factor: 1,
					Low:    1,
					High:   1.3,
					Why:    "the quota stays what it is; pauses get shorter",
				},
			}
		},
		Counters: []Counter{{
			"the quota never stopped the process",
			func(e *Evidence) (string, bool) {
				throttled := e.AtLine.PerSecond(measure.TargetCgroupThrottled)
				return span(throttled) + " a second", throttled == 0
			},
		}},
		Advice: []Action{{
			Text: "take GOMAXPROCS out of the environment and the code, " +
				"and build with Go 1.25 or newer, which follows the quota",
			Command: "unset GOMAXPROCS",
		}},
	},
	{
		Name:  "gomaxprocs-low",
		Claim: "GOMAXPROCS is below the number of processors",
		Needs: []string{knownProcs, measure.TargetCPU},
		Threshold: "over 80 % of its threads' time is used, at the line or, where requests mostly " +
			"compute, beyond it, and there are more cores",
		Reason: "requests wait for a thread at that use while cores are idle",
		Judge: func(e *Evidence) *Finding {
			threads := e.maxProcs()
			cores := e.granted(e.AtLine.Last(measure.HostCores))
			over := e.Over.PerSecond(measure.TargetCPU) / max(threads, 1)
			if threads <= 0 || threads >= math.Floor(cores) || e.neverAsked() ||
				e.busy(targetProcessor) < saturated && !(e.busy(targetProcessor) >= keptLow &&
					over >= saturated && e.computing() >= onlyComputing) {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("The service may use %s of %s processors (GOMAXPROCS), "+
					"and they are %s busy",
					number(threads), number(cores), percent(e.busy(targetProcessor))),
				Rank:       Binding,
				Confidence: .95,
				Evidence: []Fact{
					{
						What:  "use of the processors that it may use, at the line",
						Value: percent(e.busy(targetProcessor)),
					},
					{What: "GOMAXPROCS", Value: number(threads)},
					{What: "processors", Value: number(cores)},
					{What: "use of the machine", Value: percent(e.busy(hostProcessor))},
				},
				Gain: e.gain(cure{allowed: cores}),
			}
		},
		Counters: []Counter{othersBusy},
		Advice: []Action{{
			Text: "take GOMAXPROCS out of the environment and the code: " +
				"the default is what the machine and the quota allow",
			Command: "unset GOMAXPROCS",
		}},
	},
	{
		Name:      "numa-spread",
		Claim:     "The service is spread over NUMA nodes",
		Needs:     []string{measure.HostNUMANodes, knownProcs},
		Threshold: "several nodes, and more threads than one has cores",
		Reason: "an access to another node's memory takes half as long again, and the " +
			"garbage collector touches all of it",
		Judge: func(e *Evidence) *Finding {
			nodes := e.AtLine.Last(measure.HostNUMANodes)
			threads := e.maxProcs()
			cores := e.AtLine.Last(measure.HostCores)
			if nodes < 2 || threads <= cores/nodes {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("%s threads of one process run on %s NUMA nodes",
					number(threads), number(nodes)),
				Rank:       Risk,
				Confidence: .5,
				Evidence: []Fact{
					{What: "NUMA nodes", Value: number(nodes)},
					{What: "GOMAXPROCS", Value: number(threads)},
					{What: "cores of a node", Value: number(cores / nodes)},
				},
				Gain: Gain{
					Factor: 1.1,
					Low:    1,
					High:   1.4,
					Why:    "not measured here: an experiment with numactl tells",
				},
			}
		},
		Counters: []Counter{{
			"it needs no more processors than one node has",
			func(e *Evidence) (string, bool) {
				used := e.AtLine.PerSecond(measure.TargetCPU)
				node := e.AtLine.Last(measure.HostCores) / max(e.AtLine.Last(measure.HostNUMANodes), 1)
				return number(used) + " of " + number(node), used < node
			},
		}},
		Advice: []Action{{
			Text:    "run one process for each node, bound to it",
			Command: "numactl --cpunodebind=0 --membind=0 SERVICE",
		}},
	},
	{
		Name:      "descriptors-near-limit",
		Claim:     "The service is about to run out of descriptors",
		Needs:     []string{measure.TargetDescriptorsMost, measure.TargetDescriptorsLimit},
		Threshold: "over 80 % of the limit",
		Reason:    "at the limit accept fails, and connections to others and files with it",
		Judge: func(e *Evidence) *Finding {
			used, limit := e.descriptors()
			if limit == 0 || used/limit < .8 {
				return nil
			}
			f := &Finding{
				Claim: fmt.Sprintf("The service has %s of %s descriptors open",
					number(used), number(limit)),
				Rank:       Risk,
				Confidence: .9,
				Evidence: []Fact{
					{
						What:  "descriptors open, at most",
						Value: number(used) + " of " + number(limit),
					},
					{What: "requests that failed at the line", Value: percent(e.AtLine.Failed())},
					{What: "requests that failed beyond it", Value: percent(e.Over.Failed())},
				},
				Advice: []Action{{
					Text: "raise the limit of the process that runs (prlimit) " +
						"and where it is started (LimitNOFILE= of systemd, ulimit -n)",
					Command: fmt.Sprintf("prlimit --pid %d --nofile=%.0f:   "+
						"# where the hard limit is lower, without the colon",
						e.Run.Manifest.Machine.TargetPID, max(65536, 4*limit)),
				}},
				Gain: Gain{Factor: 1, Low: 1, High: most, Why: "it does not set the line yet"},
			}
			if a := programs[e.Run.Manifest.Machine.TargetServer].opens; a.Text != "" {
				f.Advice = slices.Insert(f.Advice, 0, a)
			}
			// If even the line takes nearly all descriptors, they set the line, whatever the
			// processors do: a loop whose accept keeps failing takes all of one processor.
			there, most := e.AtLine.descriptors()
			if used/limit >= .95 && (e.idle() || there >= .95*most && e.Over.Failed() > .01) {
				f.Rank, f.Confidence, f.Gain = Binding, .95, e.gain(cure{})
			}
			return f
		},
		Counters: []Counter{{
			steadily, func(e *Evidence) (string, bool) {
				if used, limit := e.descriptors(); used >= .95*limit {
					return "", false // there are no descriptors left by which it could grow
				}
				return e.steady(measure.TargetDescriptorsMost)
			},
		}},
	},
	{
		Name:      "conntrack-near-full",
		Claim:     "The table of tracked connections is nearly full",
		Needs:     []string{measure.HostConntrackEntries, measure.HostConntrackLimit},
		Threshold: "over 80 % of nf_conntrack_max",
		Reason:    "when it is full the kernel drops new connections without telling either side",
		Judge: func(e *Evidence) *Finding {
			limit := e.AtLine.Last(measure.HostConntrackLimit)
			used := max(e.AtLine.Max(measure.HostConntrackEntries),
				e.Over.Max(measure.HostConntrackEntries))
			if limit == 0 || used/limit < .8 {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("%s of %s tracked connections are taken",
					number(used), number(limit)),
				Rank:       rankOf(used/limit >= .99 && e.idle()),
				Confidence: .9,
				Evidence: []Fact{{
					What:  "tracked connections, at most",
					Value: number(used) + " of " + number(limit),
				}},
				Advice: []Action{{
					Text: "enlarge the table, or do not track these connections",
					Command: fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%.0f",
						max(1<<20, 4*limit)),
				}},
				Gain: e.gainIf(used/limit >= .99 && e.idle()),
			}
		},
		Counters: []Counter{{steadily, func(e *Evidence) (string, bool) {
			return e.steady(measure.HostConntrackEntries)
		}}},
	},
}

// keptLow is the share of their threads' time from which on requests that mostly compute may wait for
// one, as those of many milliseconds do long before it is always in use.
const keptLow = .5

// steadily is the counter-evidence that steady checks.
const steadily = "they do not grow with the load"

// steady reports whether a gauge is the same beyond the line as at half of it, and nothing fails.
func (e *Evidence) steady(name string) (value string, is bool) {
	half, over := e.Half.Max(name), max(e.AtLine.Max(name), e.Over.Max(name))
	return fmt.Sprintf("%s at half of the line, %s at it or beyond", number(half), number(over)),
		half > 0 && over < 1.05*half && e.Over.Failed() < .01
}

// rankOf returns Binding for what sets the line, and Risk otherwise.
func rankOf(binding bool) Rank {
	if binding {
		return Binding
	}
	return Risk
}

// costRank returns the rank of what costs processor time and waiting. If processors are not the
// bottleneck, the waiting sets the line.
func (e *Evidence) costRank() Rank {
	if e.idle() {
		return Binding
	}
	return Cost
}

// gainIf returns the gain of removing a limit that sets the line, or no gain if it does not set it.
func (e *Evidence) gainIf(binding bool) Gain {
	if binding {
		return e.gain(cure{})
	}
	return Gain{Factor: 1, Low: 1, High: 1.1, Why: "it does not set the line"}
}

// descriptors returns how many descriptors a process has open, at the line or beyond it, and how
// many it may have.
func (e *Evidence) descriptors() (used, limit float64) {
	used, limit = e.AtLine.descriptors()
	if u, l := e.Over.descriptors(); u*limit > used*l || limit == 0 {
		return u, l
	}
	return used, limit
}

// descriptors returns those of the process that was nearest to its limit, at that time. Each sample
// may be of another process, with another limit.
func (m *Moment) descriptors() (used, limit float64) {
	if m == nil {
		return 0, 0
	}
	for i := range m.Step.Samples {
		s := &m.Step.Samples[i]
		u, l := s.Values[measure.TargetDescriptorsMost], s.Values[measure.TargetDescriptorsLimit]
		if m.Step.Judged(s.At) && l > 0 && (limit == 0 || u*limit > used*l) {
			used, limit = u, l
		}
	}
	return used, limit
}
