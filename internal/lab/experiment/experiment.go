// Package experiment varies one thing about a service (a flag, an environment variable, a line of
// its configuration, a kernel setting) and determines which differences in the measurements are
// real. It restarts the service for every run and sends it a load. The values take turns, round
// after round in shuffled order, so that any drift affects all of them alike. docs/experiment.md
// explains the file and the statistics.
//
// An experiment writes its measurements to plain files. Their analysis (Analyse) is a pure function
// of these files. The package must not know terminals or flags, and it starts nothing that the file
// does not name.
package experiment

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/internal/lab/stats"
)

// Experiment is the content of an experiment's file. It is immutable after reading. Texts contain
// variables, which fill replaces.
type Experiment struct {
	Name, Question string
	// Variable describes what differs. Values are its settings: at least two, with different names.
	Variable string
	Values   []Value
	Pairing
	// Figures are measured and judged.
	Figures []Figure
	// Repeat is the number of rounds. Every value has one run in each round.
	Repeat int
	// Alpha is the accepted risk of calling even one difference real that is not. Relevant is the
	// share below which a difference does not matter, even if it is real.
	Alpha, Relevant float64
	// Cool is the pause after each run. Grace is the time that the service gets to end after
	// SIGTERM.
	Cool, Grace time.Duration
	// Load is what is offered; nil if only Command measures.
	Load *Load

	setup    [][]string
	start    []string
	env      []setting
	config   []setting // the path and content of a file
	sysctl   []setting
	ready    ready
	metrics  string
	command  []string
	file     string
	dir      string // base of relative paths
	source   string // the file's text
	needPage bool
}

// Value is one of the compared values.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Load is the load of one run.
type Load struct {
	URL string
	// Rate is the number of requests offered per second; 0 for a closed loop. Arrivals is "poisson"
	// or "constant".
	Rate     float64
	Arrivals string
	// Connections is the most open connections. Fresh uses a new one for each request.
	Connections int
	Fresh       bool
	// Warmup is load before the measurement; it is not measured.
	Warmup, Duration, Timeout time.Duration
	// Scenario is the path of a file that describes the requests. If empty, the same request is
	// sent repeatedly.
	Scenario     string
	Method, Body string
	Headers      []string
}

// setting is a name and the text it is set to.
type setting struct{ name, text string }

// ready is how a service shows that it is ready, one of: an answer below 400 from a URL, a line in
// its output, a port that accepts connections.
type ready struct {
	url, line, port string
	within          time.Duration
}

// Pairing says which values are compared: by default, one value with all others.
type Pairing struct {
	// Baseline is the index of the value that the others are compared with.
	Baseline int `json:"baseline"`
	// AllPairs compares each value with each other one, and Previous each with the one before it;
	// at most one of the two is set.
	AllPairs bool `json:"all_pairs,omitempty"`
	Previous bool `json:"previous,omitempty"`
}

// HasBaseline reports whether one value is compared with all others.
func (p Pairing) HasBaseline() bool { return !p.AllPairs && !p.Previous }

// pairs returns the indexes of the compared pairs, for the given number of values. The second of a
// pair is judged against the first.
func (p Pairing) pairs(values int) (all [][2]int) {
	for a := range values {
		for b := a + 1; b < values; b++ {
			if p.AllPairs || p.Previous && b == a+1 {
				all = append(all, [2]int{a, b})
			}
		}
		if p.HasBaseline() && a != p.Baseline {
			all = append(all, [2]int{p.Baseline, a})
		}
	}
	return all
}

// Comparisons returns the indexes of the compared pairs of values. The second of a pair is judged
// against the first.
func (e *Experiment) Comparisons() [][2]int { return e.pairs(len(e.Values)) }

// Tests is the number of differences that are judged together: every comparison in every figure.
func (e *Experiment) Tests() int { return len(e.Comparisons()) * len(e.Figures) }

// Needed is the smallest number of rounds with which any difference can be called real.
func (e *Experiment) Needed() int { return stats.LeastPairs(e.Alpha, e.Tests()) }

// Runs is the number of times that the service is started.
func (e *Experiment) Runs() int { return len(e.Values) * e.Repeat }

// startTime is the assumed time for a service to become ready and to end, before any was measured.
const startTime = time.Second

// Time is the approximate time that all runs take, without the setup.
func (e *Experiment) Time() time.Duration {
	one := startTime + e.Cool
	if e.Load != nil {
		one += e.Load.Warmup + e.Load.Duration
	}
	return time.Duration(e.Runs()) * one
}

// Isolated reports whether the experiment must run in its own network namespace, because it changes
// kernel settings.
func (e *Experiment) Isolated() bool { return len(e.sysctl) > 0 }

// Start describes the command that starts the service with a value. Variables that are only known
// later remain unreplaced.
func (e *Experiment) Start(v Value) string {
	words := make([]string, len(e.start))
	for i, w := range e.start {
		words[i] = fill(w, v.variables())
	}
	return strings.Join(words, " ")
}

// Settings describes the environment, the kernel settings and the files for a value.
func (e *Experiment) Settings(v Value) (all []string) {
	for _, group := range [][]setting{e.env, e.sysctl} {
		for _, s := range group {
			all = append(all, s.name+"="+fill(s.text, v.variables()))
		}
	}
	for _, s := range e.config {
		all = append(all, "file "+s.name)
	}
	return all
}

// SetRepeat changes the number of rounds, before the experiment is run.
func (e *Experiment) SetRepeat(rounds int) error {
	if rounds < 1 || rounds > maxRepeat {
		return fmt.Errorf("%d rounds are not within 1 and %d", rounds, maxRepeat)
	}
	e.Repeat = rounds
	return nil
}
