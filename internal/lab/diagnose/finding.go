// Package diagnose says what limits a service, from the run directory of a survey and nothing else:
// evidence goes in, findings come out. It must not measure, and knows no clock, no network and no
// terminal, so that a diagnosis can be made again years later, elsewhere.
//
// A rule (see Rules) is a claim with the evidence that it needs, a threshold with its reason, what
// speaks against it, what to do about it, the expected gain, and how to verify it. A healthy
// service has no findings: every service has a bottleneck, and that is not a disease.
package diagnose

import "plimsoll/internal/lab/profile"

// Diagnosis is what a run shows.
type Diagnosis struct {
	// First is the bottleneck at the line, sick or not.
	First Limit
	// Findings, the first bottleneck first.
	Findings []Finding
	// HeldBack are claims that the evidence would have supported, had other evidence not spoken
	// against them.
	HeldBack []HeldBack
	// NotJudged are rules that had not the evidence they need.
	NotJudged []NotJudged
	// Kernel is what the kernel counted for the target, where the survey was asked to have it do
	// so.
	Kernel []Fact
	// Flames are the stacks of the processor profiles, where there were any: at the line, and the
	// difference between half the line and the line.
	Flames []Flame
}

// Limit is the bottleneck: the resource that is saturated first.
type Limit struct {
	// What it is, in the words of the field: "the target's processor time", "connections to the
	// database", "unknown".
	What string
	// Share of it that was in use at the line, 0 to 1; 0 when that is not known.
	Share float64
	Why   string // the figures, for a person
	// Where are the functions that processor time goes to, the most first; only where processors
	// are the bottleneck, and there was a profile.
	Where []Spender
}

// Rank orders findings before their gain does.
type Rank int

// The ranks, the first first.
const (
	// Reach says that the survey did not get as far as the line because of this: whatever else is
	// found lies below it.
	Reach Rank = iota
	// Binding says that the line is where it is because of this.
	Binding
	// Cost says that this makes requests more expensive than they need to be. Where processors are
	// the bottleneck, they are given too much to do; how many there are, which is Binding, comes
	// first.
	Cost
	// Risk says that this does not set the line, and will hurt all the same: in time, under
	// overload, or when something else has been fixed.
	Risk
)

// Finding is a diagnosis.
type Finding struct {
	Rule  string // its name in the table, "database-pool-small"
	Claim string // one sentence, with the figure that matters most
	Rank  Rank
	// Confidence that the claim is right, 0 to 1.
	Confidence float64
	// Evidence and Against are what speaks for the claim, and the possible counter-evidence that
	// was not found, or not enough of it.
	Evidence, Against []Fact
	// Where are places in the code, the worst first: a lock's caller, a hot function, the site that
	// makes goroutines.
	Where  []profile.Place
	Advice []Action
	Gain   Gain
	// Verify says how to check whether the advice helped; with a command where there is one.
	Verify Action
	// saves is what following the advice saves of the processors' time, where that is what it does;
	// the gain is then computed when all that sets the line is known.
	saves *cure
}

// Fact is a figure with what it is compared with.
type Fact struct {
	What  string // "waits for a connection at the line"
	Value string // "412 a second"
	// Threshold is what it is compared with and Reason why that, both empty where the figure is
	// only reported.
	Threshold, Reason string
}

// Action is something to do: words, and where there is one the command or the line of code, exactly
// as it has to be typed.
type Action struct {
	Text, Command string
}

// Gain is what the line is expected to be multiplied by when the advice is followed.
type Gain struct {
	// Factor is 1 when the line is not expected to move, as for a risk; Low and High say how sure
	// that is.
	Factor, Low, High float64
	Why               string // how it was computed: "the next bottleneck is then the processor"
}

// HeldBack is a claim that was not made.
type HeldBack struct {
	Rule, Claim, Why string
}

// NotJudged is a rule that lacked something.
type NotJudged struct {
	Rule, Missing string
}

// Flame is a flame graph's data.
type Flame struct {
	Title string
	// Root is merged from all stacks; for a difference its nodes have both weights.
	Root *profile.Node
	// Difference says that Node.Before is meaningful.
	Difference bool
	Unit       string // what the weights are: "processor seconds a second"
}
