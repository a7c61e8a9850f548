// Package upstream holds the named services that a gateway sends to: which targets each has, which
// of them may be used, which one is next, how many connections to it are open, and whether a failed
// request may be tried again.
//
// It does not dial connections that carry traffic, and reads none of their bytes: a connection is
// the data plane's own type, seen here only through Conn. It must not know of configurations,
// routes, protocols or exchanges.
//
// There are three kinds of state here, and the kind decides which goroutine may touch it:
//
//   - Upstream and Target are shared. Their slow parts (health, ejection, DNS, operators' settings)
//     belong to the upstream's goroutines, under its mutex. A loop needs to see only one version
//     number, and one word of state bits for each target. They are written when something changes,
//     which is rare, and otherwise they are only read.
//   - Local, Member, Pool and the balancers are one loop's own view. No other goroutine may touch
//     them, and they hold no lock. A loop compares the version number at each Pick, and rebuilds
//     its view only if the number has changed.
//   - Two things move between loops: idle connections (through the spare list of a target), and
//     wake-ups for loops whose requests wait. Both happen on the rare path, behind an atomic that
//     says whether there is anything to do.
//
// Time is int64 nanoseconds of a monotonic clock, the same one for all loops and for Env.Now.
package upstream
