package diagnose

import (
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// Rule is one entry of the table. Adding one is an entry, and a patient under examples/patients
// that has the disease.
type Rule struct {
	Name string
	// Claim in general, for the list of rules; a finding's own claim has the figures.
	Claim string
	// Needs are what the rule cannot do without at the line: names of samples, and of profiles with
	// "profile:" before them, or GOMAXPROCS of the environment (environmentProcs). Of names that are
	// joined by "|" one is enough.
	Needs []string
	// Threshold is when it fires, and Reason why there, for a person.
	Threshold, Reason string
	// Judge looks at the evidence; nil is that there is nothing to claim. What is the same in each
	// finding (name, advice, verification) is filled in later.
	Judge func(e *Evidence) *Finding
	// Blind says why the rule could not have seen what it looks for, though all that it needs is
	// there; nil, or empty, is that it could.
	Blind func(e *Evidence) string
	// Counters are what can speak against the claim. They are looked at when it would be made; the
	// first that speaks holds it back.
	Counters []Counter
	// Unless names rules whose finding says the same better.
	Unless []string
	// Last says that the finding of any rule that sets the line, or hides it, says the same better:
	// this one only says that there is something.
	Last   bool
	Advice []Action
	// Verify says how to check whether it helped; empty means another survey.
	Verify string
}

// Counter is evidence against a claim.
type Counter struct {
	What string
	// Look gives what was found, and whether that speaks against the claim. An empty value means
	// that there was nothing to look at.
	Look func(e *Evidence) (value string, speaks bool)
}

// Rules is the table. A rule that others are Unless of comes before them.
func Rules() []Rule {
	return slices.Concat(hostRules, limitRules, coreRules, databaseRules, networkRules, fileRules,
		runtimeRules, growthRules, processorRules, concurrencyRules, waitingRules)
}

// missing are the needs of a rule that the run lacks.
func (r *Rule) missing(e *Evidence) []string {
	var all []string
	for _, need := range r.Needs {
		if !slices.ContainsFunc(strings.Split(need, "|"), e.has) {
			all = append(all, strings.ReplaceAll(need, "|", " or "))
		}
	}
	return all
}

// has says whether there is a sample or a profile at the line. A name that ends in a dot is that of
// any sample that begins so.
func (e *Evidence) has(name string) bool {
	if kind, ok := strings.CutPrefix(name, "profile:"); ok {
		return e.AtLine.Profile(kind) != nil
	}
	if name == measure.GoMaxProcs || name == environmentProcs {
		return e.maxProcs() > 0
	}
	if strings.HasSuffix(name, ".") {
		for sampled := range e.AtLine.last() {
			if strings.HasPrefix(sampled, name) {
				return true
			}
		}
		return false
	}
	return e.AtLine.Has(name)
}

// leastTold is the share under which a place is not reported: it would only hide those that matter.
const leastTold = .02

// judge is a rule's verdict: at most one of the three is there.
func (r *Rule) judge(e *Evidence, found []Finding) (*Finding, *HeldBack, *NotJudged) {
	if missing := r.missing(e); len(missing) > 0 {
		return nil, nil, &NotJudged{r.Name, strings.Join(missing, ", ")}
	}
	f := r.Judge(e)
	if f == nil && r.Blind != nil {
		if why := r.Blind(e); why != "" {
			return nil, nil, &NotJudged{r.Name, why}
		}
	}
	if f == nil {
		return nil, nil, nil
	}
	if f.Rank == Binding && !e.found() {
		f.Rank = Cost // nothing was seen to give
	}
	for i := range found {
		// What sets the line is not explained by what does not.
		weaker := f.Rank == Binding && found[i].Rank == Risk
		if slices.Contains(r.Unless, found[i].Rule) && !weaker ||
			r.Last && !f.cause && found[i].Rank <= Binding {
			return nil,
				&HeldBack{
					r.Name,
					f.Claim,
					"it is what is to be expected of " + found[i].Rule + ", which was found",
				}, nil
		}
	}
	for _, c := range r.Counters {
		value, speaks := c.Look(e)
		if speaks {
			return nil, &HeldBack{r.Name, f.Claim, c.What + ": " + value}, nil
		}
		if value != "" {
			f.Against = append(f.Against, Fact{What: c.What, Value: value})
		}
	}
	f.Rule = r.Name
	f.Where = slices.DeleteFunc(f.Where, func(p profile.Place) bool { return p.Share < leastTold })
	for _, a := range r.Advice {
		f.Advice = append(f.Advice, Action{a.Text, e.filled(a.Command)})
	}
	f.Advice = append(f.Advice, e.startedWith(r.Name)...)
	if len(f.Evidence) > 0 {
		f.Evidence[0].Threshold, f.Evidence[0].Reason = r.Threshold, r.Reason
	}
	f.Verify.Text = r.Verify
	return f, nil, nil
}
