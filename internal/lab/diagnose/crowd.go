package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// The loads at which threads are looked at: well below the line, near it, and beyond it.
const (
	gentle = iota
	nearLine
	beyondLine
	loads
	warmUp // one request after the other, at no rate
)

const (
	// gentleTo is the share of the line up to which a rate is gentle, and nearTo the one up to which
	// it is near the line: what is between the two is neither.
	gentleTo, nearFrom, nearTo = .65, .8, 1.03
)

// look is where the target's threads stand at one moment: how many by place, as measure.ThreadsAt
// names it.
type look struct {
	at      map[string]float64
	goodput float64 // of its step, requests a second
	inside  float64 // requests under way in its step, on average
}

// looks are those of all steps, by load. One step has few of them, and a crowd comes and goes, so
// that those of one step alone would say little.
func (e *Evidence) looks() *[loads][]look {
	if e.looked != nil {
		return e.looked
	}
	e.looked = new([loads][]look)
	var alone []look
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		load := loads
		switch r := s.Plan.Rate / max(e.Line, 1e-9); {
		case r == 0:
			load = warmUp
		case r <= gentleTo:
			load = gentle
		case s.Plan.Phase == measure.PhaseOverload || r > nearTo:
			load = beyondLine
		case r >= nearFrom:
			load = nearLine
		}
		if load == loads {
			continue
		}
		m := &Moment{Step: s}
		for j := range s.Samples {
			seen := look{map[string]float64{}, m.Goodput(), m.inFlight()}
			for name, n := range s.Samples[j].Values {
				if at, is := strings.CutPrefix(name, measure.ThreadsAt); is {
					seen.at[at] = n
				}
			}
			switch {
			case len(seen.at) == 0 || !s.Judged(s.Samples[j].At):
			case load == warmUp:
				alone = append(alone, seen)
			default:
				e.looked[load] = append(e.looked[load], seen)
			}
		}
	}
	// Where the line is lower than all that was tried, the warm-up is what is gentle: without one
	// every thread that waits would seem to wait because of the load.
	if len(e.looked[gentle]) == 0 {
		e.looked[gentle] = alone
	}
	return e.looked
}

// mean is how many threads stood in a place on average. Where nobody has stood yet it is not told.
func mean(of []look, place string) float64 {
	sum := 0.0
	for _, l := range of {
		sum += l.at[place]
	}
	return sum / max(float64(len(of)), 1)
}

// crowd is the place in which requests stand: the one whose threads become more with the load, and
// more still beyond the line.
type crowd struct {
	stand
	grown float64
	// holds is what those do that have passed the crowd, where that is a lock; share is the part of
	// the looks at the crowd in which one was seen to.
	holds *meaning
	call  string
	share float64
}

// waitsThere says that what is waited for in such a place is outside of the service.
func (m *meaning) waitsThere() bool {
	return m.kind == kindOf(measure.TargetWaitingSocketRead) ||
		m.kind == kindOf(measure.TargetWaitingSocketWrite) ||
		m.kind == kindOf(measure.TargetWaitingPoll) || slices.Contains(m.calls, "connect")
}

// crowd finds where requests stand by the threads of the process; nil where that is not seen.
//
// Threads that read from clients become more with the clients, and not with what they wait for:
// where a process has fewer connections to others than threads that read, these are they.
func (e *Evidence) crowd() *crowd {
	outgoing := e.askers()
	var best *crowd
	for _, s := range e.stands() {
		m := s.means()
		grown := max(s.over, s.atLine) - s.half
		if s.over > 0 || len(e.looks()[beyondLine]) > 0 {
			grown = s.over - s.half
			if s.over < .8*s.atLine {
				continue // the load empties it
			}
		}
		idle := m.kind == kindOf(measure.TargetWaitingEvents) ||
			m.kind == kindOf(measure.TargetWaitingAccept)
		clients := m.waitsThere() && readsClients(outgoing, grown)
		if idle || clients || best != nil && grown <= best.grown {
			continue
		}
		best = &crowd{stand: s, grown: grown}
	}
	if best != nil {
		e.holder(best)
	}
	return best
}

// askers are how many threads may wait for what the service asks, near the line and beyond it: the
// connections on which an answer is waited for, and half as many more, as each look is of one
// moment; where that is not known those that there are.
func (e *Evidence) askers() gauge {
	waiting := e.answersAwaited()
	if waiting.count == 0 {
		return e.fromTheLineOn(measure.TargetOutgoingEstablished)
	}
	waiting.most *= 1.5
	return waiting
}

// answersAwaited is on how many connections an answer is waited for, to all addresses together. Where
// that is not known of an address, all its connections count.
func (e *Evidence) answersAwaited() (g gauge) {
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		if e.Line == 0 || s.Plan.Rate < nearFrom*e.Line {
			continue
		}
		for j := range s.Samples {
			sum, told := 0.0, false
			for name, n := range s.Samples[j].Values {
				to, is := strings.CutPrefix(name, measure.OutgoingTo)
				if !is {
					continue
				}
				if waiting, known := s.Samples[j].Values[measure.OutgoingWaiting+to]; known {
					n, told = waiting, true
				}
				sum += n
			}
			if told {
				g.sum, g.most, g.count = g.sum+sum, max(g.most, sum), g.count+1
			}
		}
	}
	return g
}

// readsClients says that so many threads which wait for another to send cannot all wait for what
// the service asks, as it has fewer connections to that.
func readsClients(outgoing gauge, threads float64) bool {
	return outgoing.count > 0 && outgoing.most < threads
}

// keepers are the threads that wait for clients, the most in one place: for the next request on a
// connection that is kept, or for the rest of one. Nil where none are seen to become more.
func (e *Evidence) keepers() *stand {
	outgoing := e.askers()
	for _, s := range e.stands() {
		if s.means().waitsThere() && readsClients(outgoing, max(s.atLine, s.over)-s.half) {
			return &s
		}
	}
	return nil
}

const (
	// fewestLooks is in how many looks a holder is seen at least.
	fewestLooks = 2
	// leastHeld is the share of them: a place where it stands less than this is chance.
	leastHeld = .05
)

// holder finds what the few do that the crowd waits for: those that stand, while there is a crowd,
// in a place where somebody works or waits for others, and not for work.
func (e *Evidence) holder(c *crowd) {
	if c.means().kind != kindOf(measure.TargetWaitingFutex) &&
		c.means().kind != kindOf(measure.TargetWaitingFileLock) &&
		c.means().kind != kindOf(measure.TargetWaitingSleep) {
		return
	}
	place := c.place()
	at, seen := 0.0, map[*meaning]float64{}
	calls, candidates := map[*meaning]string{}, map[string]*meaning{}
	for _, load := range []int{nearLine, beyondLine} {
		for _, l := range e.looks()[load] {
			if l.at[place] < 2 {
				continue
			}
			at++
			there := map[*meaning]bool{}
			for name, n := range l.at {
				m, known := candidates[name]
				if !known {
					m = e.mayHold(name, c)
					candidates[name] = m
				}
				if m == nil || n == 0 {
					continue
				}
				there[m] = true
				// Of several the first by name, so that the same run gives the same words.
				s, _ := standOf(name)
				if call, known := calls[m]; !known || s.call != "" && (call == "" || s.call < call) {
					calls[m] = s.call
				}
			}
			for m := range there {
				seen[m]++
			}
		}
	}
	for i := range meanings {
		m := &meanings[i]
		if n := seen[m]; n >= fewestLooks && n/at >= leastHeld && n/at > c.share {
			c.holds, c.share, c.call = m, n/at, calls[m]
		}
	}
}

// mostHolders is how many threads on average may stand in a place where one holds what others wait
// for: more of them are another crowd, or idle ones.
const mostHolders = 3

// mayHold is what those do that stand in a place, where it may be what one does that holds what a
// crowd waits for: it is in the midst of a request, and is there more often when more is asked.
func (e *Evidence) mayHold(place string, c *crowd) *meaning {
	s, ok := standOf(place)
	m := s.means()
	if !ok || m == nil || !m.works || m == c.means() {
		return nil
	}
	all := e.looks()
	most := max(mean(all[nearLine], place), mean(all[beyondLine], place))
	if most > mostHolders || most < 1.5*mean(all[gentle], place) {
		return nil
	}
	outgoing := e.fromTheLineOn(measure.TargetOutgoingEstablished)
	if m.waitsThere() && outgoing.count > 0 && outgoing.most == 0 {
		return nil // it reads from a client
	}
	return m
}

// words say what the crowd does, for a claim: "12.0 threads "python" wait for a time to pass: …".
func (c *crowd) words() string {
	said := fmt.Sprintf("%s threads %q %s", number(max(c.over, c.atLine)), c.thread, c.means().stands())
	if c.holds != nil {
		does := c.holds.stands()
		if !strings.Contains(does, c.call) {
			does += " (" + c.call + ")"
		}
		said += "; meanwhile another was seen to " + does
	}
	return said
}

// stands is what threads do in such a place, as "wait for a disk".
func (m *meaning) stands() string { return cmp.Or(m.does, "wait for "+m.what) }

// facts are what the crowd is known by.
func (c *crowd) facts() (all []Fact) {
	all = append(all, Fact{
		What: fmt.Sprintf("threads %q in %s, well below the line, near it and beyond: where requests "+
			"stand, as their number grows with the load", c.thread, c.in()),
		Value: number(c.half) + ", " + number(c.atLine) + ", " + number(c.over),
	})
	if c.holds != nil {
		all = append(all, Fact{
			What: "share of the looks at these threads in which another thread was seen to " +
				c.holds.stands() + ", in " + cmp.Or(c.call, "the kernel"),
			Value: percent(c.share),
		})
	}
	return all
}
