// Package breaker is a circuit breaker: it decides whether a call may be made, records how calls
// ended, and stops them for a while when they end badly. It knows numbers only: no exchanges, no
// configuration, no sockets, and no clock. Time is an argument, in nanoseconds of any monotonic
// clock.
//
// # States
//
//	closed ──rule broken──▶ open ──OpenFor over──▶ half-open ──trials succeeded──▶ ramping ──▶ closed
//	                         ▲                         │                              │
//	                         └──────trial failed───────┴────────rule broken───────────┘
//
// Closed admits every call. Open refuses every call. Half-open admits a bounded number of trials at
// a time. Ramping admits a share of the calls that rises in steps, and the rules of closed apply.
// An operator may force the breaker open or closed, and it stays so until the operator sets it to
// automatic.
//
// Rules are the modes of Options, and any one of them opens: failures in a row, the share of
// failures in a sliding window, the share of slow calls in that window, and the adaptive score of
// law.go.
//
// # Generations
//
// A new generation begins every time the breaker opens, goes half-open, or begins to ramp. A ticket
// belongs to the generation that issued it, and Done changes nothing if its ticket is of an earlier
// one: a call that began before the service broke says nothing about the service now. Closed
// continues the generation of the ramp before it.
//
// # Concurrency
//
// Any method may be called by any goroutine at any time. None waits, and none allocates. Counters
// are atomics. State that must change together is changed only by the holder of the pen, a bit next
// to the state. The pen is taken by one compare-and-swap and never waited for: a caller that finds
// it taken continues with the state that is still shown. No evidence is lost by that, because every
// method first stores its evidence and then tries to take the pen, and each holder checks once
// more, after putting the pen down, whether anything is due. So if a rule is broken while another
// caller holds the pen, that caller acts on it.
//
// Rejected: a pointer to an immutable state, replaced as a whole. It is simpler to read, but it
// allocates with every transition, and what the rules count would still have to be shared.
//
// # Clocks
//
// Loops read the time once a turn, so one caller's now may be a little older than another's. Up to
// a second (skew) counts as such a difference. A now that lies further back means that the clock
// was set back. Waiting times then begin again from that now, so no wait exceeds the configured
// time plus that second. A clock that jumps forward ends the open time, which admits no more than
// the trials. A ramp climbs one step per jump, and a step requires a call that succeeded during it.
package breaker
