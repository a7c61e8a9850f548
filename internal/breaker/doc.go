// Package breaker is a circuit breaker: it decides whether a call may be made, learns how calls
// ended, and stops them for a while when they end badly. It knows numbers only: no exchanges, no
// configuration, no sockets, and no clock. Time is an argument, in nanoseconds that only a
// monotonic clock needs to give.
//
// # States
//
//	closed ──rule broken──▶ open ──OpenFor over──▶ half-open ──trials succeeded──▶ ramping ──▶ closed
//	                         ▲                         │                              │
//	                         └──────trial failed───────┴────────rule broken───────────┘
//
// Closed admits every call. Open refuses every call. Half-open admits a bounded number of trials at
// a time. Ramping admits a share of the calls that rises in steps, and the rules of closed apply.
// An operator may force open or closed, which stays until the operator says automatic.
//
// Rules are the modes of Options, and any one of them opens: failures in a row, the share of
// failures in a sliding window, the share of slow calls in it, and the adaptive score of law.go.
//
// # Generations
//
// Every time the breaker opens, tries, or begins to serve again, a generation begins. A ticket
// belongs to the generation that gave it, and Done of a ticket of an earlier one changes nothing:
// how a call ended that began before the service broke says nothing of the service now. Closed
// continues the generation of the ramp before it.
//
// # Concurrency
//
// Any method may be called by any goroutine at any time; none waits, and none allocates. Counters
// are atomics. What must change together is changed by who holds the pen, one bit beside the state:
// it is taken by one compare-and-swap and never waited for. A caller that finds it taken goes on
// with the state that is still shown. No evidence is lost by that, because of one order that every
// method keeps: evidence is stored first, then the pen is tried; and who puts the pen down looks
// once more whether anything is due. So a rule that was broken while another held the pen is acted
// on by that other.
//
// Rejected: a pointer to an immutable state, replaced as a whole. It is simpler to read, but it
// allocates with every transition, and what the rules count would still have to be shared.
//
// # Clocks
//
// Loops read the time once a turn, so a caller's now may be a little older than another's. Up to a
// second is taken for that (skew). A now that lies further back is a clock that was set back: what
// was waited for then begins again from that now, so nobody waits longer than the configured time
// and that second. A clock that leaps forward ends the open time, which admits no more than the
// trials; a ramp climbs one step a leap, and a step requires a call that succeeded during it.
package breaker
