package diagnose

import (
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// Rule is one entry of the table. To add a rule, add an entry, and a patient under
// examples/patients that has the disease.
type Rule struct {
	Name string
	// Claim is the general claim, for the list of rules. A finding's own claim has the numbers.
	Claim string
	// Needs is what the rule requires at the line: names of samples, names of profiles after
	// "profile:", or GOMAXPROCS in the environment (environmentProcs). Of names joined by "|", one
	// is enough.
	Needs []string
	// Threshold is when the rule fires, and Reason is why there, both for a person.
	Threshold, Reason string
	// Judge looks at the evidence, and returns nil if there is nothing to claim. What all findings
	// have in common (name, advice, verification) is filled in later.
	Judge func(e *Evidence) *Finding
	// Blind returns why the rule could not have seen what it looks for, although all of its Needs
	// are there. A nil Blind, or an empty reason, means that it could.
	Blind func(e *Evidence) string
	// Counters are the evidence that may contradict the claim. They are checked when the claim
	// would be made. The first one that contradicts it holds it back.
	Counters []Counter
	// Unless names rules whose finding says the same better.
	Unless []string
	// Last says that this rule only reports that there is something. A finding of any other rule
	// that sets the line, or keeps the survey from reaching it, says the same better.
	Last   bool
	Advice []Action
	// Verify says how to check whether the advice helped. If it is empty, another survey is
	// suggested.
	Verify string
}

// Counter is evidence against a claim.
type Counter struct {
	What string
	// Look returns what was found, and whether it contradicts the claim. An empty value means that
	// there was nothing to look at.
	Look func(e *Evidence) (value string, speaks bool)
}

// Rules returns the table. A rule that others name in Unless comes before them.
func Rules() []Rule {
	return slices.Concat(hostRules, limitRules, coreRules, databaseRules, networkRules, fileRules,
		runtimeRules, growthRules, processorRules, concurrencyRules, waitingRules)
}

// missing returns the rule's Needs that the run lacks.
func (r *Rule) missing(e *Evidence) []string {
	var all []string
	for _, need := range r.Needs {
		if !slices.ContainsFunc(strings.Split(need, "|"), e.has) {
			all = append(all, strings.ReplaceAll(need, "|", " or "))
		}
	}
	return all
}

// has reports whether there is a sample or a profile at the line. A name that ends in a dot stands
// for any sample with that prefix.
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

// leastTold is the share below which a place is not reported: it would only hide those that matter.
const leastTold = .02

// judge returns a rule's verdict. At most one of the results is not nil.
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
		f.Rank = Cost // nothing was seen to saturate
	}
	for i := range found {
		// A finding that does not set the line does not explain one that does.
		weaker := f.Rank == Binding && found[i].Rank > Binding
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
	if a, known := ownTerms[r.Name][e.Run.Manifest.Machine.TargetRuntime]; known {
		f.Advice = append(f.Advice, a)
	}
	f.Advice = append(f.Advice, e.startedWith(r.Name)...)
	if len(f.Evidence) > 0 {
		f.Evidence[0].Threshold, f.Evidence[0].Reason = r.Threshold, r.Reason
	}
	f.Verify.Text = r.Verify
	return f, nil, nil
}
