// Package diagnose says what limits a service, from nothing but the run directory of a survey:
// evidence goes in, findings come out. It must not measure, and knows no clock, no network and no
// terminal, so that a diagnosis can be repeated years later on another machine.
//
// A rule (see Rules) is a claim with the evidence that it needs, a threshold and the reason for it,
// the evidence against the claim, what to do about it, the expected gain, and how to verify it. A
// healthy service has no findings: every service has a bottleneck, and that is not a defect.
package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/profile"
)

// Diagnosis is what a run shows.
type Diagnosis struct {
	// First is the bottleneck at the line, sick or not.
	First Limit `json:"bottleneck"`
	// Findings, the first bottleneck first.
	Findings []Finding `json:"findings"`
	// HeldBack are claims that the evidence would have supported, had other evidence not spoken
	// against them.
	HeldBack []HeldBack `json:"held_back,omitempty"`
	// NotJudged are rules that had not the evidence they need.
	NotJudged []NotJudged `json:"not_judged,omitempty"`
	// Kernel is what the kernel counted for the target, where the survey was asked to have it do
	// so.
	Kernel []Fact `json:"kernel,omitempty"`
	// Flames are the stacks of the processor profiles, where there were any: at the line, and the
	// difference between half the line and the line.
	Flames []Flame `json:"-"`
}

// Limit is the bottleneck: the resource that is saturated first.
type Limit struct {
	// What it is, in the words of the field: "the target's processor time", "connections to the
	// database", "unknown".
	What string `json:"what"`
	// Share of it that was in use at the line, 0 to 1; 0 when that is not known.
	Share float64 `json:"share"`
	Why   string  `json:"why"` // the figures, for a person
	// Where are the functions that processor time goes to, the most first; only where processors
	// are the bottleneck, and there was a profile.
	Where []Spender `json:"where,omitempty"`
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

var rankNames = [...]string{"reach", "binding", "cost", "risk"}

// String is the rank's name in JSON.
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
	Rule string `json:"rule"` // its name in the table, "database-pool-small"
	// Claim: one sentence, with the figure that matters most
	Claim string `json:"claim"`
	Rank  Rank   `json:"rank"`
	// Confidence that the claim is right, 0 to 1.
	Confidence float64 `json:"confidence"`
	// Evidence and Against are what speaks for the claim, and the possible counter-evidence that
	// was not found, or not enough of it.
	Evidence []Fact `json:"evidence,omitempty"`
	Against  []Fact `json:"against,omitempty"`
	// Where are places in the code, the worst first: a lock's caller, a hot function, the site that
	// makes goroutines.
	Where  []profile.Place `json:"where,omitempty"`
	Advice []Action        `json:"advice,omitempty"`
	Gain   Gain            `json:"gain"`
	// Verify says how to check whether the advice helped; with a command where there is one.
	Verify Action `json:"verify"`
	// saves is what following the advice saves of the processors' time, where that is what it does;
	// the gain is then computed when all that sets the line is known.
	saves *cure
	// whatever says that this sets the line however busy the machine is.
	whatever bool
	// cause says that what sets the line does not explain this, even where the rule is one that
	// speaks last.
	cause bool
}

// Fact is a figure with what it is compared with.
type Fact struct {
	What  string `json:"what"`  // "waits for a connection at the line"
	Value string `json:"value"` // "412 a second"
	// Threshold is what it is compared with and Reason why that, both empty where the figure is
	// only reported.
	Threshold string `json:"threshold"`
	Reason    string `json:"reason"`
}

// Action is something to do: words, and where there is one the command or the line of code, exactly
// as it has to be typed.
type Action struct {
	Text    string `json:"text"`
	Command string `json:"command"`
}

// Gain is what the line is expected to be multiplied by when the advice is followed.
type Gain struct {
	// Factor is 1 when the line is not expected to move, as for a risk; Low and High say how sure
	// that is.
	Factor float64 `json:"factor"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// Why: how it was computed: "the next bottleneck is then the processor"
	Why string `json:"why"`
}

// HeldBack is a claim that was not made.
type HeldBack struct {
	Rule  string `json:"rule"`
	Claim string `json:"claim"`
	Why   string `json:"why"`
}

// NotJudged is a rule that lacked something.
type NotJudged struct {
	Rule    string `json:"rule"`
	Missing string `json:"missing"`
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
