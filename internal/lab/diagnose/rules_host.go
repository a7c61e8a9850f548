package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/measure"
)

// hostRules are about the machine and the generator. The rules below must not blame the service for
// what these take away.
var hostRules = []Rule{
	{
		Name:  "processors-taken",
		Claim: "Other processes took the machine's processors",
		Threshold: "steps near the line are INVALID, there is no line, and others used a quarter " +
			"of the processors while 80 % were in use, and the generator's loops less than 80 % of " +
			"theirs",
		Reason: "when the generator is late because other processes run, neither it nor the " +
			"service is the limit: what the kernel does for the network takes less than that",
		Judge: judgeTaken,
		Counters: []Counter{{
			"the service's own processors were busy too",
			func(e *Evidence) (string, bool) {
				share := e.busy(targetProcessor)
				return percent(share), share >= saturated
			},
		}},
		Advice: []Action{
			{
				Text: "end what else runs, or survey when it is quiet; see what it is, and what " +
					"is started again and again",
				Command: "top -b -n 1 -o %CPU | head -20",
			},
			{
				Text:    "or run the generator on a machine that has processors to spare",
				Command: "plimsoll survey TARGET --slo OBJECTIVES --generator USER@HOST",
			},
		},
		Verify: "survey again: no step should be INVALID",
	},
	{
		Name:      "generator-limit",
		Claim:     "The generator was the limit, and not the service",
		Threshold: "steps near the line are INVALID, and there is no line",
		Reason:    "what the generator cannot offer says nothing about the service",
		Judge: func(e *Evidence) *Finding {
			if e.Run.Result == nil || e.Run.Result.Line.Found {
				return nil
			}
			steps := e.outpaced()
			if len(steps) == 0 {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("The generator was the limit at %s, not the service: "+
					"its line is higher", rate(lowest(steps))),
				Rank:       Reach,
				Confidence: .95,
				Evidence: []Fact{{
					What: "steps in which the generator was the limit",
					Value: fmt.Sprintf("%d, such as: %s", len(steps),
						steps[len(steps)-1].Totals.Generator.Invalid),
				}},
				Gain: Gain{
					Factor: 1,
					Low:    1,
					High:   most,
					Why:    "the service's line was not reached",
				},
			}
		},
		Counters: []Counter{{
			"the service's own processors were busy too",
			func(e *Evidence) (string, bool) {
				share := e.busy(targetProcessor)
				return percent(share), share >= saturated
			},
		}},
		Unless: []string{"processors-taken"},
		Advice: []Action{{
			Text:    "run the survey from another machine, or with more loops",
			Command: "plimsoll survey TARGET --slo OBJECTIVES --loops 4",
		}},
		Verify: "survey again from another machine: no step should be INVALID",
	},
	{
		Name:      "swapping",
		Claim:     "The machine swaps",
		Needs:     []string{measure.HostSwapIn},
		Threshold: "over 1 MB a second swapped in",
		Reason:    "each page is a wait for the disk in the middle of a request",
		Judge: func(e *Evidence) *Finding {
			in := e.AtLine.PerSecond(measure.HostSwapIn)
			if in <= 1<<20 {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("The machine swaps: %s a second came back from "+
					"disk at the line", size(in)),
				Confidence: .9,
				Rank:       Binding,
				Evidence: []Fact{
					{What: "swapped in at the line", Value: size(in) + " a second"},
					{
						What:  "memory that was available",
						Value: size(e.AtLine.Mean(measure.HostMemoryAvailable)),
					},
				},
				Gain: e.gain(cure{}),
			}
		},
		Counters: []Counter{processorBusy},
		Advice: []Action{
			{
				Text: "give the machine more memory, or its processes less: " +
					"a Go service by GOMEMLIMIT",
			},
			{
				Text:    "keep the kernel from swapping while there is memory",
				Command: "sysctl -w vm.swappiness=1",
			},
		},
	},
	{
		Name:      "major-faults",
		Claim:     "The service waits for pages from disk",
		Needs:     []string{measure.TargetMajorFaults},
		Threshold: "over 100 major faults a second",
		Reason: "each is a wait for the disk that the program does not know of; " +
			"a service at rest has none",
		Judge: func(e *Evidence) *Finding {
			faults := e.AtLine.PerSecond(measure.TargetMajorFaults)
			if faults <= 100 {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("The service waits for pages from disk: "+
					"%s major faults a second, %s for each request",
					number(faults), number(e.AtLine.PerRequest(measure.TargetMajorFaults))),
				Confidence: .9,
				Rank:       Binding,
				Evidence: []Fact{
					{What: "major faults at the line", Value: perSecond(faults)},
					{
						What:  "memory that was available",
						Value: size(e.AtLine.Mean(measure.HostMemoryAvailable)),
					},
					{
						What:  "read from disks",
						Value: size(e.AtLine.PerSecond(measure.HostDiskRead)) + " a second",
					},
				},
				Gain: e.gain(cure{
					saves: min(faultCost*faults/max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9),
						e.system()),
				}),
			}
		},
		Counters: []Counter{processorBusy},
		Unless:   []string{"swapping"},
		Advice: []Action{{
			Text: "keep what requests touch in memory: read files instead of mapping them, " +
				"or lock the mapping with mlock(2); see that nothing drops the page cache (a " +
				"memory limit of the cgroup does)",
		}},
	},
}

// faultCost is the processor time in seconds that a major fault costs the kernel, besides the
// waiting: 32 µs were measured for a page of a mapped file.
const faultCost = 32e-6

// system returns the share of the target's processor time at the line that the kernel spent.
func (e *Evidence) system() float64 {
	return min(
		e.AtLine.PerSecond(measure.TargetCPUSystem)/
			max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9),
		1,
	)
}

// processorBusy speaks against a claim if requests waited for processors anyway.
var processorBusy = Counter{
	"the processors were busy, which makes everything wait",
	func(e *Evidence) (string, bool) {
		if len(e.Reserves) == 0 {
			return "", false
		}
		return fmt.Sprintf("the service used %s of what it may, the machine was %s busy",
			percent(e.busy(targetProcessor)), percent(e.busy(hostProcessor))), e.processorBound()
	},
}

// unreached speaks against a claim if nothing was seen to saturate: what takes most of a processor
// that is hardly used does no harm.
var unreached = Counter{
	"the line was not reached, and the processors were not busy",
	func(e *Evidence) (string, bool) {
		if len(e.Reserves) == 0 || e.found() {
			return "", false
		}
		return fmt.Sprintf("the service used %s of what it may, the machine was %s busy",
			percent(e.busy(targetProcessor)), percent(e.busy(hostProcessor))), !e.processorBound()
	},
}

// othersBusy speaks against a claim if processes other than the target and the generator kept the
// machine busy.
var othersBusy = Counter{"other processes took the processors", func(e *Evidence) (string, bool) {
	host := e.reserve(hostProcessor)
	if host == nil {
		return "", false
	}
	return fmt.Sprintf("others used %s of %s processors%s",
			number(e.others()), number(host.Capacity), named(e.AtLine.othersNamed())),
		host.Share() >= saturated && e.others() > host.Capacity/2
}}
