// Package sim runs whole gateways in a simulated world: a model of the kernel in virtual time
// (package kernel), and clients, services and an operator that a seed has drawn. Few of them behave
// well. It watches what every client and service sees and what the gateway says of itself, and
// compares it with what must always be true.
//
// A seed decides everything, so a failure can be repeated, examined and shortened: the shrinker
// removes parts of the scenario as long as the failure stays. See docs/simulation.md.
//
// It must not know how the gateway does what it does: it sees configurations, bytes, metrics and
// log lines.
package sim
