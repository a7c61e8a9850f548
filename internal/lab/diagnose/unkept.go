package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

const (
	// mostlyFresh is the part of the connections over a Unix socket that are new in each look, at
	// least, where none is used again: those that are kept are as old as the service.
	mostlyFresh = .8
	// fewestFresh is how many have to be seen to be new.
	fewestFresh = 4
	// freshOpened is how many are taken to be opened for each request then: nobody counts them.
	freshOpened = 1
)

// freshTo is the Unix socket to which the service has other connections each time that it is looked
// at, near the line and beyond it; empty where there is none. The kernel counts the connections
// that are opened over TCP alone.
func (e *Evidence) freshTo() (to string) {
	best := 0.0
	for _, at := range e.sampledOf(measure.OutgoingFresh) {
		open, fresh := 0.0, 0.0
		for i := range e.Run.Steps {
			m := &Moment{Step: &e.Run.Steps[i]}
			if e.Line == 0 || m.Step.Plan.Rate < nearFrom*e.Line {
				continue
			}
			all, _, _ := m.values(measure.OutgoingTo + at)
			for _, n := range all[min(len(all), 1):] { // the first is what the counter begins with
				open += n
			}
			fresh += m.Grown(measure.OutgoingFresh + at)
		}
		if fresh >= fewestFresh && fresh >= mostlyFresh*open && fresh > best {
			to, best = at, fresh
		}
	}
	return to
}

// unkept is the finding that connections over a Unix socket are not used again; nil where they are.
func (e *Evidence) unkept() *Finding {
	to := e.freshTo()
	if to == "" {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("The service opens connections to %s again and again: none of them is "+
			"there when it is looked at the next time", e.named(to)),
		Rank:       e.costRank(),
		Confidence: .75,
		Evidence: []Fact{{
			What:  "connections there from the line on, at most",
			Value: number(e.fromTheLineOn(measure.OutgoingTo + to).most),
		}},
		Advice: e.keepUpstream(),
		Gain:   e.gainOfKeeping(freshOpened, nil),
	}
	if d, is := e.sessionsBehind(); is && strings.HasPrefix(d.address, measure.UnixAddress) {
		e.begins(f, d, freshOpened)
	}
	return f
}

const (
	// openingCosts is the share of the service's processor time that is assumed to go into opening
	// connections where each request opens one and no profile shows it. In six services it was 0.57
	// to 0.96, so that their lines rose to 2.3 to 24 times what they were when they kept them.
	openingCosts = .75
	// acceptingCosts is the same of what others on this machine compute, who have to accept them.
	acceptingCosts = .5
	// openingUnsure is by how much more than any gain that may be off.
	openingUnsure = 2
)

// gainOfKeeping is the gain when connections to others are kept, of which so many are opened for
// each request. begun is the store that is busy beginning sessions on them; nil where there is
// none.
func (e *Evidence) gainOfKeeping(opened float64, begun *dependency) Gain {
	c := cure{saves: e.connectionShare()}
	var assumed []string
	if e.Classes == nil {
		often := min(opened, 1)
		accept, who := e.acceptors(begun)
		c = cure{saves: openingCosts * often, elsewhere: acceptingCosts * often * accept}
		of := percent(openingCosts*often) + " of the service's time"
		if accept > 0 {
			of += fmt.Sprintf(" and %s of what %s computes", percent(acceptingCosts*often), who)
		}
		assumed = append(assumed,
			"no profile shows what connections cost, which is assumed to be "+of)
	}
	if begun != nil {
		c.elsewhere += leftBehind * begun.used
		assumed = append(assumed, fmt.Sprintf("%s of what %s computes is assumed to be for new "+
			"sessions", percent(leftBehind), begun.process))
	}
	g := e.gain(c)
	if e.Classes == nil {
		g.Low, g.High = max(g.Low/openingUnsure, 1), min(g.High*openingUnsure, most)
	}
	for _, a := range assumed {
		g.Why += "; " + a
	}
	return g
}

// acceptors are those on this machine that accept the connections, but for one: how many processors
// they use, and their names. Where it is known who is asked, nobody else's time is spared.
func (e *Evidence) acceptors(but *dependency) (used float64, who string) {
	all := e.dependencies()
	var names []string
	for _, d := range all {
		if but == nil || d != *but {
			used, names = used+d.used, append(names, d.process)
		}
	}
	if len(all) > 0 {
		return min(used, e.others()), strings.Join(names, " and ")
	}
	to := e.sampledOf(measure.OutgoingTo)
	if len(to) > 0 && !slices.ContainsFunc(to, onThisMachine) {
		return 0, ""
	}
	return e.others(), "everything else on the machine"
}

// onThisMachine says that an address is sure to be the machine's own.
func onThisMachine(to string) bool {
	return strings.HasPrefix(to, "127.") || strings.HasPrefix(to, "[::1]") ||
		strings.HasPrefix(to, measure.UnixAddress)
}
