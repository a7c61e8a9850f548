// Package diagnose finds what limits a service, from nothing but the run directory of a survey:
// evidence goes in, findings come out. It must not measure, and knows no clock, no network and no
// terminal, so that a diagnosis can be repeated years later on another machine.
//
// A rule (see Rules) is a claim with the evidence that it needs, a threshold and the reason for it,
// the evidence against the claim, what to do about it, the expected gain, and how to verify it. A
// healthy service has no findings: every service has a bottleneck, and that is not a defect.
//
// "The line" is the load line: the highest rate at which the service keeps its objectives.
package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/profile"
)

// Diagnosis is what a run shows.
type Diagnosis struct {
	// First is the bottleneck at the line, whether it is a defect or not.
	First Limit `json:"bottleneck"`
	// Findings, the most important first.
	Findings []Finding `json:"findings"`
	// HeldBack are claims that the evidence supports, but that other evidence contradicts.
	HeldBack []HeldBack `json:"held_back,omitempty"`
	// NotJudged are rules whose evidence is missing.
	NotJudged []NotJudged `json:"not_judged,omitempty"`
	// Kernel is what the kernel counted for the target, if the survey had it count.
	Kernel []Fact `json:"kernel,omitempty"`
	// Flames are the stacks of the processor profiles, if there are any: at the line, and the
	// difference between half of the line and the line.
	Flames []Flame `json:"-"`
}

// Limit is the bottleneck: the resource that is saturated first.
type Limit struct {
	// What it is, in the usual words: "the target's processor time", "connections to the database",
	// "unknown".
	What string `json:"what"`
	// Share is how much of it was in use at the line, 0 to 1; 0 if that is not known.
	Share float64 `json:"share"`
	Why   string  `json:"why"` // the numbers, for a person
	// Where are the functions that use the most processor time, the largest first. It is set only
	// if processors are the bottleneck and there was a profile.
	Where []Spender `json:"where,omitempty"`
}

// Rank orders findings before their gain does.
type Rank int

// The ranks, the most important first.
const (
	// Reach says that the survey did not get as far as the line because of this. All other findings
	// concern rates below the line.
	Reach Rank = iota
	// Binding says that the line is where it is because of this.
	Binding
	// Cost says that this makes requests more expensive than necessary. If processors are the
	// bottleneck, they have too much to do. Having too few processors is Binding and comes first.
	Cost
	// Risk says that this does not set the line, but will hurt later: with time, under overload, or
	// once something else has been fixed.
	Risk
)

var rankNames = [...]string{"reach", "binding", "cost", "risk"}

// String returns the rank's name in JSON.
func (r Rank) String() string { return rankNames[r] }

// MarshalText implements encoding.TextMarshaler.
func (r Rank) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rank) UnmarshalText(text []byte) error {
	for i, name := range rankNames {
		if name == string(text) {
			*r = Rank(i)
			return nil
		}
	}
	return fmt.Errorf("a finding's rank is one of %v, and not %q", rankNames, text)
}

// Finding is a diagnosis.
type Finding struct {
	Rule string `json:"rule"` // its name in the table: "database-pool-small"
	// Claim is one sentence with the most important number.
	Claim string `json:"claim"`
	Rank  Rank   `json:"rank"`
	// Confidence is how likely the claim is right, 0 to 1.
	Confidence float64 `json:"confidence"`
	// Evidence supports the claim. Against is possible counter-evidence that was not found, or that
	// is too weak.
	Evidence []Fact `json:"evidence,omitempty"`
	Against  []Fact `json:"against,omitempty"`
	// Where are places in the code, the worst first: a lock's caller, a hot function, the code that
	// starts goroutines.
	Where  []profile.Place `json:"where,omitempty"`
	Advice []Action        `json:"advice,omitempty"`
	Gain   Gain            `json:"gain"`
	// Verify says how to check whether the advice helped, with a command if there is one.
	Verify Action `json:"verify"`
	// saves is the processor time that following the advice saves, if it saves any. The gain is
	// computed from it once all findings are known.
	saves *cure
	// spares says that the gain was computed from that.
	spares bool
	// whatever says that this sets the line however busy the machine is.
	whatever bool
	// turns says that requests wait for what others compute, one at a time. Processor time that is
	// saved there shows at once.
	turns bool
	// before says that this comes before others of its rank, whatever they gain.
	before bool
	// cause says that a finding which sets the line does not explain this one, even if its rule is
	// marked Last.
	cause bool
}

// Fact is a measured value, with the threshold that it is compared with.
type Fact struct {
	What  string `json:"what"`  // "waits for a connection at the line"
	Value string `json:"value"` // "412 a second"
	// Threshold is what the value is compared with, and Reason is why. Both are empty if the value
	// is only reported.
	Threshold string `json:"threshold"`
	Reason    string `json:"reason"`
}

// Action is something to do: words, and if possible a command or a line of code, exactly as it must
// be typed.
type Action struct {
	Text    string `json:"text"`
	Command string `json:"command"`
}

// Gain is the factor by which the line is expected to grow when the advice is followed.
type Gain struct {
	// Factor is 1 if the line is not expected to move, as for a risk. Low and High bound it.
	Factor float64 `json:"factor"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// Why says how the gain was computed: "the next bottleneck is then the processor"
	Why string `json:"why"`
}

// HeldBack is a claim that was not made.
type HeldBack struct {
	Rule  string `json:"rule"`
	Claim string `json:"claim"`
	Why   string `json:"why"`
}

// NotJudged is a rule whose evidence is missing.
type NotJudged struct {
	Rule    string `json:"rule"`
	Missing string `json:"missing"`
}

// Flame is a flame graph's data.
type Flame struct {
	Title string
	// Root is merged from all stacks. In a difference its nodes have both weights.
	Root *profile.Node
	// Difference says that Node.Before is meaningful.
	Difference bool
	Unit       string // unit of the weights: "processor seconds a second"
}
