package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

const (
	// mostlyFresh is the minimum share of the connections over a Unix socket that are new in each
	// look if none is used again. Kept connections are as old as the service.
	mostlyFresh = .8
	// fewestFresh is the minimum number of connections seen to be new.
	fewestFresh = 4
	// freshOpened is how many connections are assumed to be opened per request in that case. They
	// are not counted.
	freshOpened = 1
)

// freshTo returns the Unix socket to which the service has other connections in each look, near the
// line and beyond it; empty if there is none. The kernel counts opened connections only for TCP.
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
			for _, n := range all[min(len(all), 1):] { // the first is the counter's starting point
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

// unkept is the finding that connections over a Unix socket are not used again; nil if they are.
func (e *Evidence) unkept() *Finding {
	to := e.freshTo()
	if to == "" {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("The service opens connections to %s again and again: none of them is "+
			"there when it is looked at the next time", e.named(to)),
		Rank:       e.openingRank(),
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
	// connections if each request opens one and no profile shows it. In six services it was 0.57 to
	// 0.96, so keeping connections raised their lines to 2.3 to 24 times what they were.
	openingCosts = .75
	// acceptingCosts is the same share for other processes on this machine, which have to accept
	// the connections.
	acceptingCosts = .5
	// openingUnsure is how many times further off this gain may be than others.
	openingUnsure = 2
)

// gainOfKeeping is the gain from keeping connections to others. opened is how many are opened per
// request. begun is the store that is busy beginning sessions on them; nil if there is none.
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

// acceptors returns the processes on this machine that accept the connections, except for but: how
// many processors they use, and their names. If the dependencies are known, nothing is saved in
// other processes.
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

// onThisMachine reports whether an address is sure to be on this machine.
func onThisMachine(to string) bool {
	return strings.HasPrefix(to, "127.") || strings.HasPrefix(to, "[::1]") ||
		strings.HasPrefix(to, measure.UnixAddress)
}
