package diagnose

import (
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/profile"
)

// queue is where requests queue, from a goroutine profile.
type queue struct {
	place *waitingPlace
	where []profile.Place
	// waiting are the goroutines that queue there. inside are those that serve a request and have
	// passed the queue. atHalf are those that queued there at half of the line.
	waiting, inside, atHalf float64
	// function is that of the service from which all of them wait, if the place is vague.
	function string
	// behind says that the goroutines in the queue, and those inside, serve no request themselves:
	// requests wait for them.
	behind bool
}

const (
	// fewestWaiting is the minimum number of goroutines in one place that are a queue, and not
	// chance.
	fewestWaiting = 4
	// mostlyWaiting is the minimum share of the requests in the queue if that is what limits them.
	mostlyWaiting = .5
)

// standings counts goroutines by what they do. waits and behind have those that stand in a
// well-known place, by the service's function: waits of those that serve a request, behind of
// others.
type standings struct {
	serves, helpers float64
	waits, behind   map[*waitingPlace]map[string]float64
}

func standingsOf(p *profile.Profile) *standings {
	s := &standings{
		waits:  map[*waitingPlace]map[string]float64{},
		behind: map[*waitingPlace]map[string]float64{},
	}
	for key, n := range p.Classify(profile.Goroutine, standing) {
		kind, where, _ := strings.Cut(key, " ")
		there := s.waits
		switch kind {
		case "":
			continue
		case stateHelper:
			s.helpers += n
			continue
		case stateServes:
			s.serves += n
			continue
		case stateBehind:
			there = s.behind
		default:
			s.serves += n
		}
		i := slices.IndexFunc(waitingPlaces, func(w waitingPlace) bool {
			return strings.HasPrefix(where, w.functions[0]+" ")
		})
		w := &waitingPlaces[i]
		if there[w] == nil {
			there[w] = map[string]float64{}
		}
		there[w][where[len(w.functions[0])+1:]] += n
	}
	return s
}

// longest returns the place with the most goroutines; nil if there is none. In a vague place only
// those of one function of the service count: others may wait there for something else.
func longest(places map[*waitingPlace]map[string]float64) (best *queue) {
	for w, of := range places {
		all := 0.0
		for f, n := range of {
			if all += n; w.vague && (best == nil || n > best.waiting ||
				n == best.waiting && f < best.function) {
				best = &queue{place: w, waiting: n, function: f}
			}
		}
		if !w.vague && (best == nil || all > best.waiting ||
			all == best.waiting && best.place.vague) {
			best = &queue{place: w, waiting: all}
		}
	}
	return best
}

// inLine finds where most of the requests of a step queue. It returns nil if there is no goroutine
// profile, or no such place.
func (e *Evidence) inLine(m *Moment) *queue {
	p := m.Profile(kindGoroutine)
	if p == nil {
		return nil
	}
	s := standingsOf(p)
	best := longest(s.waits)
	if best == nil || best.waiting < fewestWaiting || best.waiting < mostlyWaiting*s.serves {
		return nil
	}
	best.inside = s.serves - best.waiting
	// Requests that wait for goroutines which they have started wait for what these wait for: for a
	// handler with a time-out, for a group of calls at once.
	// Goroutines that stand there whatever the load is are not what they wait for.
	if behind := longest(s.behind); best.place.vague && behind != nil &&
		behind.waiting >= max(mostlyWaiting*best.waiting, fewestWaiting) &&
		behind.waiting > s.helpers {
		behind.behind, behind.inside = true, s.helpers
		if behind.waiting >= 2*behind.count(e.Half) {
			best = behind
		}
	}
	if best.place.vague && s.helpers >= best.waiting/2 {
		return nil
	}
	if little := max(e.AtLine.Goodput(), e.Over.Goodput()) * e.alone(); best.place.polls &&
		!near(best.inside, little, 1.6) {
		return nil
	}
	best.where = p.Top(profile.Goroutine, best.has, placesTold)
	best.atHalf = best.count(e.Half)
	return best
}

// count returns how many goroutines stand in the queue in another step; 0 without a profile of it.
func (q *queue) count(m *Moment) (n float64) {
	p := m.Profile(kindGoroutine)
	if p == nil {
		return 0
	}
	for _, at := range p.Top(profile.Goroutine, q.has, math.MaxInt) {
		n += math.Round(at.Share * p.Total(profile.Goroutine))
	}
	return n
}

// has reports whether a goroutine stands in the queue, and from where in the service's code.
func (q *queue) has(stack []profile.Frame) (profile.Frame, bool) {
	at, place := waitsIn(stack)
	_, serves := serving(stack)
	return at, serves != q.behind && place == q.place &&
		(q.function == "" || at.Function == q.function)
}

// What a goroutine is doing, for standing.
const (
	stateWaits  = "waits"  // serves a request and waits in a well-known place
	stateServes = "serves" // serves a request otherwise
	stateHelper = "helper" // serves no request itself, and waits for an answer from outside
	stateBehind = "behind" // serves no request itself, and waits in a well-known place
)

// standing returns what a goroutine does: a state and, if it waits, the place's first function and
// the function of the service. It is empty for a goroutine that has nothing to do with requests.
func standing(stack []profile.Frame) string {
	if _, serves := serving(stack); serves {
		if at, place := waitsIn(stack); place != nil {
			return stateWaits + " " + place.functions[0] + " " + at.Function
		}
		return stateServes
	}
	if _, own := profile.FirstUser(stack); !own {
		return ""
	}
	if onNetwork(stack) {
		return stateHelper
	}
	if at, place := waitsIn(stack); place != nil && !place.vague && !place.polls {
		return stateBehind + " " + place.functions[0] + " " + at.Function
	}
	return ""
}
