// Package invariant switches on the checks that find a broken invariant where it breaks: a buffer
// given back twice, an exchange ended twice, a loop touched from outside. They cost too much for
// production. Builds with the race detector turn them on, and so does a simulation.
package invariant

// On says whether invariants are checked. The code that turns it on does so before anything that
// asks it runs. It was a constant once, so that a simulation had to be built with a tag of its own;
// a load of a variable that never changes costs 0.3 ns, some ten times a request.
var On = raceDetector

// Sequential says that no two loops run at the same time, as in a simulation: then what one loop
// sees of the others does not change while it looks, and checks across loops are exact.
var Sequential bool

// Sequentially turns on both kinds of checks.
func Sequentially() { On, Sequential = true, true }
