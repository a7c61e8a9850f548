package remote

import "math"

// Clocks are compared as in NTP: a message goes there and back, and each side records the send and
// receive times of its own clock. Since a message is received after it was sent, the way there
// bounds the other clock's offset from above and the way back bounds it from below. The narrowest
// bounds of several round trips count, so one that was quick both ways is worth many slow ones. The
// two ways are not assumed to take equally long: the uncertainty is a bound, not a guess.

// roundTrips is the number of round trips before each load: enough to include a quick one, and a
// few milliseconds in a data centre.
const roundTrips = 12

// reading is one round trip in nanoseconds: sent and back by our clock, received and answered by
// the other clock.
type reading struct{ sent, received, answered, back int64 }

// comparison is the result of comparing with another clock.
type comparison struct {
	// offset is how far the other clock is ahead, in nanoseconds, with an error of at most
	// uncertainty.
	offset, uncertainty int64
	// longest is the longest round trip, without the other side's time to answer.
	longest int64
}

// compare requires at least one reading.
func compare(readings []reading) comparison {
	low, high := int64(math.MinInt64/2), int64(math.MaxInt64/2)
	c := comparison{}
	for _, r := range readings {
		low, high = max(low, r.answered-r.back), min(high, r.received-r.sent)
		c.longest = max(c.longest, r.back-r.sent-(r.answered-r.received))
	}
	c.offset = low + (high-low)/2
	// If the clocks drift during the comparison, the bounds may cross by that much.
	c.uncertainty = max(high-low, low-high)/2 + 1
	return c
}
