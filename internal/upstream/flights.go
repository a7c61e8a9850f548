package upstream

import (
	"plimsoll/internal/hist"
	"plimsoll/internal/invariant"
)

// How requests delay each other shows how many a target works on at a time, long before a
// percentile does. So each loop notes, of each try that succeeds, how many others of its own were at
// the target when it was sent, and how long the answer took. A try is at the target from its
// sending until the response's head: the rest of a long response comes as fast as its client takes
// it, which says nothing of the target.
//
// What a loop has noted is handed over whole: the collector brings an empty record, so that the
// loop copies nothing and allocates at a target's first answer only.

const (
	// MostFound bounds what a try may have found: one that finds more counts as having found this
	// many.
	MostFound = 255
	// measured is how many targets of an upstream are noted. A name can have thousands, and a record
	// takes 8 KB on each loop; the others are taken to be like these.
	measured = 32
)

// Met is the tries that found the same number of others.
type Met struct {
	Count uint64
	// of the times in nanoseconds, and of their squares
	Sum, Squares float64
}

// Flights are tries at a target that were answered, as one loop saw them since it was last asked.
type Flights struct {
	Found  [MostFound + 1]Met
	Times  hist.Histogram // of all of them
	Failed uint64         // tries that were sent and answered badly, or not at all
}

// note counts a try that succeeded.
func (f *Flights) note(found int, took int64) {
	t := float64(took)
	m := &f.Found[min(found, MostFound)]
	m.Count, m.Sum, m.Squares = m.Count+1, m.Sum+t, m.Squares+t*t
	f.Times.Record(took)
}

// Sent says that a try's request has gone to the target, and returns how many others of this loop
// are there. Each needs one Answered. Loop only.
func (m *Member) Sent() (found int) {
	found = m.flying
	m.flying++
	return found
}

// Answered says that the target has answered a try that was sent, or that the try is over without
// it: took is the time from its sending in nanoseconds, below 0 where it says nothing of how long
// the target takes. Loop only; it allocates at the first one only.
func (m *Member) Answered(found int, o Outcome, took int64) {
	if m.flying--; invariant.On && m.flying < 0 {
		panic("upstream: a try was answered twice, or never sent")
	}
	if o == Cancelled || o == Success && took < 0 || !m.noted {
		return
	}
	if m.flights == nil {
		m.flights = new(Flights)
	}
	if o != Success {
		m.flights.Failed++
		return
	}
	m.flights.note(found, took)
}

// TargetFlights are those at one target.
type TargetFlights struct {
	Address string
	*Flights
}

// TakeFlights hands over what the loop has noted of its targets from the index from on, of at most
// so many, and takes as many of the empty records in spare as it needs in their place. next is the
// index to go on at, 0 when there are no more. Loop only.
func (l *Local) TakeFlights(
	taken []TargetFlights, spare []*Flights, from, most int,
) (all []TargetFlights, left []*Flights, next int) {
	last := min(len(l.members), measured)
	for next = from; next < min(from+most, last); next++ {
		m := l.members[next]
		if m.flights == nil || m.flights.Failed == 0 && m.flights.Times.Count() == 0 {
			continue
		}
		taken = append(taken, TargetFlights{m.target.addr.String(), m.flights})
		m.flights = nil
		if n := len(spare) - 1; n >= 0 {
			m.flights, spare = spare[n], spare[:n]
		}
	}
	if next >= last {
		next = 0
	}
	return taken, spare, next
}
