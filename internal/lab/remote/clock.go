package remote

import "math"

// Two clocks are compared as NTP does: a message goes there and back, and each side notes when it
// was sent and received by its own clock. That it was received after it was sent bounds by how much
// the other clock is ahead, from above on the way there and from below on the way back. Of several
// round trips the narrowest bounds hold, so one that was quick both ways is worth many that were not.
// Neither way is taken to be as long as the other: the uncertainty is a bound and not a guess.

// roundTrips is how many are made before each load: enough for a quick one among them, and some
// milliseconds in a data centre.
const roundTrips = 12

// reading is one round trip: sent and back by our clock, received and answered by the other's, in
// nanoseconds.
type reading struct{ sent, received, answered, back int64 }

// comparison is what readings have shown of another clock.
type comparison struct {
	// offset is by how much the other clock is ahead, to within uncertainty, in nanoseconds.
	offset, uncertainty int64
	// longest is the longest round trip, without the time that the other side took to answer.
	longest int64
}

// compare needs at least one reading.
func compare(readings []reading) comparison {
	low, high := int64(math.MinInt64/2), int64(math.MaxInt64/2)
	c := comparison{}
	for _, r := range readings {
		low, high = max(low, r.answered-r.back), min(high, r.received-r.sent)
		c.longest = max(c.longest, r.back-r.sent-(r.answered-r.received))
	}
	c.offset = low + (high-low)/2
	// Clocks that drift while they are compared make bounds that cross by as much.
	c.uncertainty = max(high-low, low-high)/2 + 1
	return c
}
