package diagnose

import (
	"slices"
	"testing"
)

func TestALeakStandsBeforeTheLimitThatItReaches(t *testing.T) {
	lines := append(idleService, "all target.memory.rss_bytes = 50000000",
		"all target.descriptors_limit = 1024", "before target.descriptors = 40",
		"half target.descriptors = 40 to 250", "at-line target.descriptors = 250 to 600",
		"over target.descriptors = 600 to 1000", "after target.descriptors = 900 to 1000",
		"half target.descriptors_most = 250", "at-line target.descriptors_most = 1000",
		"over target.descriptors_most = 1000")
	d := diagnosed(t, lines...)
	if found := names(d); !slices.Equal(found, []string{"leak", "descriptors-near-limit"}) ||
		d.Findings[0].Rank != d.Findings[1].Rank || d.First.What != "leak" {
		t.Errorf("found %v, and the bottleneck is %+v", found, d.First)
	}
}

func TestAConsequenceStandsBehindItsCauseAndOthersStay(t *testing.T) {
	e := newEvidence(newFixture(t, "all listener.queue_limit = 128").open(t))
	findings := []Finding{
		{Rule: "retransmits", Rank: Binding}, {Rule: "accept-queue-overflow", Rank: Binding},
		{Rule: "json-hot", Rank: Cost}, {Rule: "client-connections-closed", Rank: Cost},
	}
	e.causesFirst(findings)
	var got []string
	for _, f := range findings {
		got = append(got, f.Rule)
	}
	if !slices.Equal(got, []string{
		"retransmits", "client-connections-closed", "accept-queue-overflow", "json-hot",
	}) || findings[1].Rank != Binding {
		t.Errorf("the order is %v: %+v", got, findings)
	}
	// A backlog that is too short overflows by itself.
	e = newEvidence(newFixture(t, "all listener.queue_limit = 2").open(t))
	findings = findings[2:]
	slices.Reverse(findings)
	findings[1].Rule, findings[0].Rule = "client-connections-closed", "accept-queue-overflow"
	if e.causesFirst(findings); findings[0].Rule != "accept-queue-overflow" {
		t.Errorf("the first is %s", findings[0].Rule)
	}
}
