package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/measure"
)

const (
	// lowGOGC is the largest GOGC that is worth a finding by itself. Below it the collector takes
	// over a quarter of the processor time of most services that compute.
	lowGOGC = 25
	// usualCollector is the share of the processor time that the collector is assumed to take with
	// GOGC=100: of services that compute, 5 to 15 %.
	usualCollector = .1
	// fewestHeap is the minimum memory of the process in bytes. The runtime keeps the heap at 4 MB
	// times GOGC/100 or more, so a small one is hardly collected whatever GOGC is.
	fewestHeap = 32 << 20
)

// collectsBySetting is the finding about the collector of a Go service that shows nothing of itself,
// from the GOGC that it was started with; nil if that is not low.
func (e *Evidence) collectsBySetting() *Finding {
	set, is := e.percentSet()
	if !is || set <= 0 || set > lowGOGC || e.AtLine.Max(measure.TargetRSS) < fewestHeap {
		return nil
	}
	// The number of collections, and what all of them cost, goes with 1/GOGC.
	more := usualCollector * gogcDefault / set
	share := more / (1 - usualCollector + more)
	return &Finding{
		Claim: fmt.Sprintf("With GOGC=%.0f the collector runs %.0f times as often as by default: it "+
			"takes an estimated %s of the processor time", set, gogcDefault/set, percent(share)),
		Rank:       Cost,
		Confidence: .5,
		Evidence: []Fact{
			{What: "GOGC that the process was started with", Value: number(set)},
			{What: "memory of the process", Value: size(e.AtLine.Max(measure.TargetRSS))},
			{
				What: "garbage collection, estimated from that: no profile and no metrics page show it",
				Value: fmt.Sprintf("%s, if it would take %s with GOGC=100", percent(share),
					percent(usualCollector)),
			},
		},
		Advice: []Action{{
			Text: "let the heap grow between collections, as far as there is memory: unset GOGC, and " +
				"bound the memory by GOMEMLIMIT",
			Command: "GOGC=100 GOMEMLIMIT=SIZE",
		}},
		saves: &cure{saves: 1 - (1-share)/(1-usualCollector)},
	}
}
