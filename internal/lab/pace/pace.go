// Package pace computes when requests are due. Schedules are pure: they know no clock and send
// nothing, so a plan can be tested to the nanosecond and compared with what was sent. This package
// must not know what a request is.
package pace

// Schedule is a series of due times. It must not be used concurrently.
type Schedule interface {
	// Next returns when the next arrival is due, in nanoseconds since the run's start, never before
	// the previous one. ok is false if there are no more, and then stays false.
	Next() (due int64, ok bool)
}

// Streamed is a schedule that is read from a file during the run.
type Streamed interface {
	Schedule
	// Pending reports, after Next returned false, that there are more arrivals that have not been
	// read yet. The caller tries again a millisecond later. Pending never blocks.
	Pending() bool
}

// Arrivals is how arrivals are distributed in time.
type Arrivals string

// The kinds of arrivals.
const (
	// Poisson arrivals are those of many independent users: the time between two is exponential.
	Poisson Arrivals = "poisson"
	// Constant arrivals are evenly spaced.
	Constant Arrivals = "constant"
)

// Profile is the offered rate over time: consecutive segments, and bursts on top of them. It ends
// with its last segment. A segment of rate 0 is a pause. The zero value is not valid; see Validate.
type Profile struct {
	Segments []Segment
	Bursts   []Burst
}

// Segment holds a rate for a time, or changes it linearly from one to another.
type Segment struct {
	From, To float64 // arrivals per second at its start and end, 0 to MaxRate
	Length   int64   // nanoseconds, at least 1
}

// Burst is a rate on top of the segments, from a moment on and for a time. It must lie within the
// segments. Overlapping bursts add up.
type Burst struct {
	Rate       float64 // arrivals per second, 0 to MaxRate
	At, Length int64   // nanoseconds since the run's start, and at least 1 nanosecond
}

// Hold returns the profile of one rate for a time in nanoseconds.
func Hold(rate float64, length int64) Profile {
	return Profile{Segments: []Segment{{rate, rate, length}}}
}
