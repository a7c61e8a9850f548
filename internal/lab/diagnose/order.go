package diagnose

import (
	"slices"

	"plimsoll/internal/lab/measure"
)

// cause is a rule whose finding makes those of others: where both are there it stands before them,
// whatever it would do alone.
type cause struct {
	rule  string
	makes []string // rules
	// when says whether it does so in this run; nil is always.
	when func(e *Evidence) bool
}

// causes in the order in which they are looked at.
var causes = []cause{
	{
		rule:  "leak",
		makes: []string{"descriptors-near-limit", "ports-exhausted", "accept-queue-overflow"},
		when: func(e *Evidence) bool {
			g := e.growth()
			return g != nil && g.what != "memory" && g.what != "goroutines"
		},
	},
	{
		rule:  "leak",
		makes: []string{"swapping", "major-faults", "gc-heavy", "gc-pauses"},
		when: func(e *Evidence) bool {
			g := e.growth()
			return g != nil && (g.what == "memory" || g.what == "goroutines")
		},
	},
	// What kept growing has cost more and more: whatever is full at the end was not before.
	{
		rule: "leak",
		makes: []string{
			"single-threaded", "gomaxprocs-low", "concurrency-limited", "cpu-hot-function",
			"lock-contention", "slow-dependency",
		},
		when: func(e *Evidence) bool { return e.degraded() > 0 },
	},
	// Collections come as often as there is something to collect: who makes it is the cause, unless
	// the heap was given little room.
	{rule: "json-hot", makes: []string{"gc-heavy"}, when: makesGarbage(classJSON)},
	{rule: "logging-hot", makes: []string{"gc-heavy"}, when: makesGarbage(classLogging)},
	{rule: "reflection-hot", makes: []string{"gc-heavy"}, when: makesGarbage(classReflection)},
	// Who has no descriptor left, or no processor time, accepts nobody.
	{rule: "descriptors-near-limit", makes: []string{"accept-queue-overflow", "backlog-small"}},
	{
		rule:  "single-threaded",
		makes: []string{"accept-queue-overflow", "backlog-small"},
		when: func(e *Evidence) bool {
			return e.AtLine.Last(measure.ListenerQueueLimit) >= fairBacklog
		},
	},
	{
		rule:  "client-connections-closed",
		makes: []string{"accept-queue-overflow", "backlog-small", "time-wait-high"},
		when: func(e *Evidence) bool {
			return e.AtLine.Last(measure.ListenerQueueLimit) >= fairBacklog
		},
	},
	{rule: "upstream-connections-not-reused", makes: []string{"time-wait-high"}},
	// To ask is what the thread is busy with.
	{
		rule:  "slow-dependency",
		makes: []string{"single-threaded", "gomaxprocs-low"},
		when:  (*Evidence).onlyTalks,
	},
}

// mostGarbage is the share of what is allocated from which on one class makes the collections.
const mostGarbage = .5

// makesGarbage says that most of what is allocated is a class's, and that collections come no sooner
// than they do unless somebody has it so.
func makesGarbage(class string) func(e *Evidence) bool {
	return func(e *Evidence) bool {
		percent, limited := e.gogc()
		return e.Garbage[class] >= mostGarbage && !limited && percent >= gogcDefault
	}
}

// fairBacklog is how long an accept queue is at least when it is not too short by itself.
const fairBacklog = 64

// causesFirst puts findings before those that they make. A cause does to the line what its
// consequence does: it takes its rank, where that is a higher one, and its gain with it.
func (e *Evidence) causesFirst(findings []Finding) {
	at := func(rule string) int {
		return slices.IndexFunc(findings, func(f Finding) bool { return f.Rule == rule })
	}
	for _, c := range causes {
		from := at(c.rule)
		if from < 0 || c.when != nil && !c.when(e) {
			continue
		}
		to := from
		for _, rule := range c.makes {
			if i := at(rule); i >= 0 {
				to = min(to, i)
			}
		}
		if to == from {
			continue
		}
		f := findings[from]
		if made := &findings[to]; made.Rank < f.Rank {
			f.Rank, f.Gain, f.whatever = made.Rank, made.Gain, f.whatever || made.whatever
			f.Gain.Why = "what it makes, " + made.Rule + ", is gone with it: " + made.Gain.Why
		}
		copy(findings[to+1:from+1], findings[to:from])
		findings[to] = f
	}
}
