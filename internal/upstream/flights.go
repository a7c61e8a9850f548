package upstream

import (
	"plimsoll/internal/hist"
	"plimsoll/internal/invariant"
)

// How much requests delay each other shows how many a target works on at a time, and it does so
// long before a percentile does. So each loop notes for each try that succeeds how many others of
// its own were at the target when it was sent, and how long the answer took. A try is at the target
// from its sending until the head of the response: the rest of a long response comes as fast as the
// client reads it, which says nothing about the target.
//
// A loop hands over its whole record to the collector, which brings an empty one in exchange. So
// the loop copies nothing, and allocates only at the first answer of a target.

const (
	// MostFound bounds how many others a try counts as having found at the target: if it found
	// more, it counts as having found this many.
	MostFound = 255
	// measured is for how many targets of an upstream flights are noted. A name can have thousands,
	// and a record takes 8 KB on each loop; the others are taken to be like these.
	measured = 32
)

// Met sums up the tries that found the same number of others at the target.
type Met struct {
	Count uint64
	// the sums of the times in nanoseconds, and of their squares
	Sum, Squares float64
}

// Flights records the tries of one loop at a target that were answered since the loop last handed
// over its record.
type Flights struct {
	Found  [MostFound + 1]Met
	Times  hist.Histogram // of all tries that succeeded
	Failed uint64         // tries that were sent and answered badly, or not at all
}

// note counts a try that succeeded.
func (f *Flights) note(found int, took int64) {
	t := float64(took)
	m := &f.Found[min(found, MostFound)]
	m.Count, m.Sum, m.Squares = m.Count+1, m.Sum+t, m.Squares+t*t
	f.Times.Record(took)
}

// Sent notes that the request of a try was sent to the target, and returns how many others of this
// loop are there. Each call needs one of Answered. Loop only.
func (m *Member) Sent() (found int) {
	found = m.flying
	m.flying++
	return found
}

// Answered notes that the target has answered a try, or that the try ended without an answer. found
// is what Sent returned. took is the time since the sending in nanoseconds, or negative if it says
// nothing about how long the target takes. Loop only; it allocates at the first answer only.
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

// TargetFlights are the flights at one target.
type TargetFlights struct {
	Address string
	*Flights
}

// TakeFlights appends the records of at most most targets, beginning at the index from, to taken,
// and returns that as all. It replaces them by empty records from spare, and returns those that it
// did not need as left. next is the index to continue at, 0 if there are no more. Loop only.
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
