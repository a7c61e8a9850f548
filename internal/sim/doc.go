// Package sim runs whole gateways in a simulated world: a model of the kernel in virtual time
// (package kernel), and clients, services and an operator drawn from a seed. Few of them behave
// well. The package watches what every client and service sees and what the gateway reports about
// itself, and compares it with what must always hold.
//
// A seed decides everything, so a failure can be repeated, examined and shortened: the shrinker
// removes parts of the scenario as long as the failure remains. See docs/simulation.md.
//
// It must not know how the gateway works inside: it sees configurations, bytes, metrics and log
// lines.
package sim
