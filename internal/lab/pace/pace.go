// Package pace says when requests are due. Schedules are pure: they know no clock and send nothing,
// so that a plan can be tested to the nanosecond, and what was sent can be compared with it. This
// package must not know what a request is.
package pace

// Schedule is a series of due times. It has one user.
type Schedule interface {
	// Next is when the next arrival is due, in nanoseconds since the run's start, never before the
	// one that was given last. ok is false when there are no more, and stays so.
	Next() (due int64, ok bool)
}

// Streamed is a schedule that is read from a file while the run goes on.
type Streamed interface {
	Schedule
	// Pending says, after Next was not ok, that there are more arrivals, which have not been read
	// yet: the user asks again in a millisecond. It never blocks.
	Pending() bool
}

// Arrivals is how arrivals are spread in time.
type Arrivals string

// The kinds of arrivals.
const (
	// Poisson arrivals are those of many people who do not know of each other: the time between two
	// is exponential.
	Poisson Arrivals = "poisson"
	// Constant arrivals come at equal distances.
	Constant Arrivals = "constant"
)

// Profile is the offered rate over time: segments one after the other, with bursts on top of them.
// It ends with its last segment. A segment of rate 0 is a pause. The zero value is not valid:
// Validate says what is.
type Profile struct {
	Segments []Segment
	Bursts   []Burst
}

// Segment holds a rate, or moves it evenly from one to another, for a time.
type Segment struct {
	From, To float64 // arrivals a second at its beginning and end, 0 to MaxRate
	Length   int64   // nanoseconds, at least 1
}

// Burst is a rate on top of the segments' from a moment on, for a time. It lies within the
// segments. Bursts may overlap: they add up.
type Burst struct {
	Rate       float64 // arrivals a second, 0 to MaxRate
	At, Length int64   // nanoseconds since the run's start, and at least 1 nanosecond
}

// Hold is the profile of one rate for a time in nanoseconds.
func Hold(rate float64, length int64) Profile {
	return Profile{Segments: []Segment{{rate, rate, length}}}
}
