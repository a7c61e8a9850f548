package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// Possible returns why a run cannot be diagnosed, or nil if it can.
func Possible(run *record.Run) error {
	if kind := run.Manifest.Kind; kind != record.KindSurvey {
		return fmt.Errorf("%s is a run of plimsoll %s: only plimsoll survey finds the bottleneck",
			run.Dir, format.Clean(kind))
	}
	if len(run.Steps) == 0 {
		return fmt.Errorf("%s has no whole step to look at: the run ended too early", run.Dir)
	}
	return nil
}

// Run diagnoses a run for which Possible is nil. The result depends on the run's files alone. Run
// reads the profiles from them.
func Run(run *record.Run) *Diagnosis {
	e := newEvidence(run)
	d := &Diagnosis{Findings: []Finding{}} // an empty list in JSON, not null
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
	d.settle(e)
	d.wasteBeforeThreads(e)
	// Binding findings come first, then costs, then risks. Within a rank, the findings that move
	// the line most come first, weighted by confidence.
	slices.SortStableFunc(d.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), earlier(a.before, b.before),
			cmp.Compare(worth(&b), worth(&a)))
	})
	e.causesFirst(d.Findings)
	d.verify(e)
	for _, text := range e.unread {
		d.NotJudged = append(d.NotJudged, NotJudged{"all that need it", text})
	}
	d.First = first(e, d.Findings)
	d.Kernel, d.Flames = e.kernel(), e.flames()
	return d
}

// settle computes the gains that depend on other findings.
func (d *Diagnosis) settle(e *Evidence) {
	// Once a single thread wastes less, it has time for what it could not do before.
	elsewhere := slices.ContainsFunc(d.Findings, func(f Finding) bool {
		return f.Rank <= Binding && !e.computedAlone(&f)
	})
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.saves != nil {
			f.Gain, f.saves, f.spares = e.processorGain(*f.saves, elsewhere), nil, true
		}
	}
}

// verify says how to verify each finding whose rule does not.
func (d *Diagnosis) verify(e *Evidence) {
	for i := range d.Findings {
		f := &d.Findings[i]
		switch {
		case f.Verify.Text != "":
		case f.Gain.Factor < 1.05:
			f.Verify = Action{
				"survey again after the change, and diagnose: the finding should be gone",
				format.Command("plimsoll", "diagnose", "NEW-RUN"),
			}
		default:
			f.Verify = Action{
				"survey again after the change, and compare: the line should be about " +
					times(f.Gain.Factor) + " what it was",
				format.Command("plimsoll", "compare", e.Run.Dir, "NEW-RUN"),
			}
		}
	}
}

// computedAlone reports whether a finding is that requests wait for what one thread computes, or one
// at a time.
func (e *Evidence) computedAlone(f *Finding) bool {
	return f.turns || f.Rule == "single-threaded" && e.computesAlone()
}

// muchWasted is the gain from which on a waste on a single thread comes before further threads,
// whatever these gain: they would do the same waste.
const muchWasted = 1.75

// wasteBeforeThreads makes costs on a single thread binding, and puts them before it, if they move the
// line more than further threads or processes would, or by far.
func (d *Diagnosis) wasteBeforeThreads(e *Evidence) {
	i := slices.IndexFunc(d.Findings, func(f Finding) bool { return e.computedAlone(&f) })
	if i < 0 {
		return
	}
	threads := worth(&d.Findings[i])
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Rank == Cost && f.spares && (worth(f) > threads || f.Gain.Factor >= muchWasted) {
			f.Rank, f.before = Binding, true
		}
	}
}

// earlier compares by what comes before others.
func earlier(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// worth is the value that findings of one rank are sorted by.
func worth(f *Finding) float64 { return (f.Gain.Factor - 1) * f.Confidence }

// first returns the bottleneck at the line.
func first(e *Evidence, findings []Finding) Limit {
	if e.failsAlone() != nil {
		return e.longAlone(findings)
	}
	if e.neverAsked() {
		return Limit{What: "unknown", Why: "the survey ended before it asked at any rate"}
	}
	if e.AtLine == nil || e.Line == 0 {
		return Limit{What: "unknown", Why: "the run has no step that the service passed"}
	}
	despite := len(findings) > 0 && findings[0].Rank == Binding && findings[0].whatever
	for i := range e.Reserves {
		if r := &e.Reserves[i]; r.Share() >= saturated && !despite {
			return e.gives(r)
		}
	}
	if len(findings) > 0 && findings[0].Rank <= Binding {
		return Limit{What: findings[0].Rule, Why: findings[0].Claim}
	}
	if !e.found() {
		return Limit{
			What: "unknown",
			Why: fmt.Sprintf("the line was not reached: at %s, the highest rate that was served "+
				"well, nothing was saturated yet", rate(e.AtLine.Rate())),
		}
	}
	if len(e.Reserves) == 0 {
		return Limit{
			What: "unknown",
			Why: "no processor time was sampled: run the survey where the service runs, " +
				"or name its process with --pid",
		}
	}
	if e.waitedFor() {
		return e.gives(e.busiest())
	}
	if e.waitsToCompute() && e.AtLine.Has(measure.TargetCPU) {
		return Limit{
			What:  "the time that a request computes",
			Where: e.spenders(),
			Why: fmt.Sprintf("a request that is alone computes for %s of its time, so those that "+
				"come together wait for each other's worker or loop long before all processors "+
				"are busy (%s at %s)", percent(e.computing()), percent(e.busy(targetProcessor)),
				rate(e.AtLine.Rate())),
		}
	}
	return Limit{
		What: "not the processor",
		Why: fmt.Sprintf("at %s the service's share of the processors was %s busy, "+
			"the machine %s: requests waited for something else%s",
			rate(e.AtLine.Rate()), percent(e.busy(targetProcessor)),
			percent(e.busy(hostProcessor)), e.standWords()),
	}
}

// gives returns the limit that says that processors are the bottleneck.
func (e *Evidence) gives(r *Reserve) Limit {
	others := ""
	if names := e.AtLine.othersNamed(); r.What == hostProcessor && e.others() >= muchTaken*r.Capacity {
		others = fmt.Sprintf("; other processes used %s%s", number(e.others()), named(names))
	}
	return Limit{
		What:  r.What,
		Share: min(r.Share(), 1),
		Where: e.spenders(),
		Why: fmt.Sprintf("at %s %s of %s processors that it may use were busy%s",
			rate(e.AtLine.Rate()), number(r.Used), number(r.Capacity), others),
	}
}
