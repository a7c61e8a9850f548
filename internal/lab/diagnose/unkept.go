package diagnose

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/measure"
)

const (
	// mostlyFresh is the part of the connections over a Unix socket that are new in each look, at
	// least, where none is used again: those that are kept are as old as the service.
	mostlyFresh = .8
	// fewestFresh is how many have to be seen to be new.
	fewestFresh = 4
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
		Gain:   e.gain(cure{saves: e.connectionShare()}),
	}
	if d, is := e.sessionsBehind(); is && strings.HasPrefix(d.address, measure.UnixAddress) {
		e.begins(f, d)
	}
	return f
}
