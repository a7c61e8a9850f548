package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/internal/lab/record"
)

// Run diagnoses a run. It is a function of the run's files alone; profiles are read from them now.
func Run(run *record.Run) *Diagnosis {
	e := newEvidence(run)
	d := &Diagnosis{Findings: []Finding{}} // an empty list, not null, for who reads it as JSON
	for _, rule := range Rules() {
		finding, held, lacking := rule.judge(e, d.Findings)
		switch {
		case finding != nil:
			d.Findings = append(d.Findings, *finding)
		case held != nil:
			d.HeldBack = append(d.HeldBack, *held)
		case lacking != nil:
			d.NotJudged = append(d.NotJudged, *lacking)
		}
	}
	// What is binding comes first, then what costs, then risks; within each what moves the line most, as far as it is sure.
	slices.SortStableFunc(d.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(worth(&b), worth(&a)))
	})
	for _, text := range e.unread {
		d.NotJudged = append(d.NotJudged, NotJudged{"all that need it", text})
	}
	d.First = first(e, d.Findings)
	d.Kernel, d.Flames = e.kernel(), e.flames()
	return d
}

// worth is what a finding is ordered by.
func worth(f *Finding) float64 { return (f.Gain.Factor - 1) * f.Confidence }

// first is what gives first at the line.
func first(e *Evidence, findings []Finding) Limit {
	if e.Knee == nil || e.Line == 0 {
		return Limit{What: "unknown", Why: "the run has no step that the service passed"}
	}
	for i := range e.Reserves {
		r := &e.Reserves[i]
		if r.Share() >= saturated {
			return Limit{What: r.What, Share: min(r.Share(), 1), Where: e.spenders(),
				Why: fmt.Sprintf("at %s %s of %s processors that it may use were busy", rate(e.Knee.Rate()), number(r.Used), number(r.Capacity))}
		}
	}
	if len(findings) > 0 && findings[0].Rank <= Binding {
		return Limit{What: findings[0].Rule, Why: findings[0].Claim}
	}
	if !e.found() {
		return Limit{What: "unknown", Why: fmt.Sprintf("the line was not reached: at %s, the most that was served well, nothing gave yet", rate(e.Knee.Rate()))}
	}
	if len(e.Reserves) == 0 {
		return Limit{What: "unknown", Why: "no processor time was sampled: run the survey where the service runs, or name its process with --pid"}
	}
	return Limit{What: "not the processor", Why: fmt.Sprintf("at %s the service's share of the processors was %s busy, the machine %s: requests waited for something else",
		rate(e.Knee.Rate()), percent(e.busy(targetProcessor)), percent(e.busy(hostProcessor)))}
}
