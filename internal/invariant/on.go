//go:build race

package invariant

// On says whether invariants are checked. It is a constant, so that checks behind it vanish from ordinary builds.
const On = true
