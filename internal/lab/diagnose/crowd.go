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
	warmUp // requests one after the other, at no rate
)

const (
	// gentleTo is the share of the line up to which a rate is gentle. From nearFrom to nearTo a
	// rate is near the line. Rates between gentleTo and nearFrom are neither.
	gentleTo, nearFrom, nearTo = .65, .8, 1.03
)

// look is where the target's threads are at one moment: how many by place, as named by
// measure.ThreadsAt.
type look struct {
	at      map[string]float64
	goodput float64 // of its step, requests a second
	inside  float64 // mean number of requests under way in its step
}

// looks returns the looks of all steps, by load. One step has few of them, and a crowd comes and
// goes, so the looks of a single step would say little.
func (e *Evidence) looks() *[loads][]look {
	if e.looked != nil {
		return e.looked
	}
	e.looked = new([loads][]look)
	var alone []look
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		load := e.loadOf(s)
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
	// If the line is below all tried rates, the warm-up counts as the gentle load. Without a gentle
	// load, every waiting thread would seem to wait because of the load.
	if len(e.looked[gentle]) == 0 {
		e.looked[gentle] = alone
	}
	return e.looked
}

// loadOf returns which of the loads a step has; loads if it has none of them.
func (e *Evidence) loadOf(s *measure.Step) int {
	switch r := s.Plan.Rate / max(e.Line, 1e-9); {
	case r == 0:
		return warmUp
	case r <= gentleTo:
		return gentle
	case s.Plan.Phase == measure.PhaseOverload || r > nearTo:
		return beyondLine
	case r >= nearFrom:
		return nearLine
	}
	return loads
}

// mean is how many threads were in a place on average. A look that does not have the place counts
// as 0.
func mean(of []look, place string) float64 {
	sum := 0.0
	for _, l := range of {
		sum += l.at[place]
	}
	return sum / max(float64(len(of)), 1)
}

// meanWhere is how many threads were on average in the places that fit.
func meanWhere(of []look, fits func(at *stand) bool) float64 {
	sum := 0.0
	for _, l := range of {
		for place, n := range l.at {
			if at, ok := standOf(place); ok && fits(&at) {
				sum += n // whole numbers, whose sum is the same in any order
			}
		}
	}
	return sum / max(float64(len(of)), 1)
}

// crowd is the place where requests wait: the place whose threads increase with the load, and
// increase further beyond the line.
type crowd struct {
	stand
	grown float64
	// holds is what threads do that have passed the crowd, if the crowd waits for a lock. share is
	// the share of the looks at the crowd in which such a thread was seen.
	holds *meaning
	call  string
	share float64
}

// waitsThere reports whether threads in such a place wait for something outside of the service.
func (m *meaning) waitsThere() bool {
	return m.kind == kindOf(measure.TargetWaitingSocketRead) ||
		m.kind == kindOf(measure.TargetWaitingSocketWrite) ||
		m.kind == kindOf(measure.TargetWaitingPoll) || slices.Contains(m.calls, "connect")
}

// crowd finds where requests wait from the threads of the process; nil if that is not seen.
//
// Threads that read from clients increase with the clients, and not with what requests wait for. If
// the process has fewer connections to others than reading threads, these threads read from
// clients.
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

// askers returns how many threads may wait for dependencies, near the line and beyond it: the
// connections on which an answer is awaited, and half as many more, because each look shows one
// moment only. If that is not known, it returns all outgoing connections.
func (e *Evidence) askers() gauge {
	waiting := e.answersAwaited()
	if waiting.count == 0 {
		return e.fromTheLineOn(measure.TargetOutgoingEstablished)
	}
	waiting.most *= 1.5
	return waiting
}

// answersAwaited returns the number of connections on which an answer is awaited, over all
// addresses. If that is not known for an address, all of its connections count.
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

// readsClients reports whether threads that wait for the other end to send must be reading from
// clients: there are more of them than the service has connections to others.
func readsClients(outgoing gauge, threads float64) bool {
	return outgoing.count > 0 && outgoing.most < threads
}

// keepers returns the threads that wait for clients, in the place with the most of them: for the
// next request on a kept connection, or for the rest of one. It returns nil if no such threads
// increase with the load.
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
	// fewestLooks is the minimum number of looks in which a holder is seen.
	fewestLooks = 2
	// leastHeld is the minimum share of the looks. A place that has a thread less often is chance.
	leastHeld = .05
)

// holder finds what the few threads do that the crowd waits for: those that are, while there is a
// crowd, in a place where threads work or wait for others, and not for work.
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
				// If there are several calls, the first by name is taken, so that the same run
				// gives the same words.
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

// mostHolders is the largest mean number of threads in a place where a holder may be. More of them
// are another crowd, or idle threads.
const mostHolders = 3

// mayHold returns what the threads in a place do, if one of them may hold what a crowd waits for:
// they are in the midst of a request, and are there more often with more load. It returns nil
// otherwise.
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

// words says what the crowd does, for a claim: "12.0 threads "python" wait for a time to pass: …".
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

// stands is what threads do in such a place, such as "wait for a disk".
func (m *meaning) stands() string { return cmp.Or(m.does, "wait for "+m.what) }

// facts returns the evidence for the crowd.
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
