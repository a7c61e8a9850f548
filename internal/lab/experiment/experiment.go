// Package experiment varies one thing about a service (a flag, an environment variable, a line of
// its configuration, a kernel setting), and says which differences in the measurements are real. It
// restarts the service for every run and sends it a load. The values take turns, round after round
// in shuffled order, so that anything that drifts meanwhile affects all of them alike.
// docs/experiment.md explains the file and the statistics.
//
// The measurements are written to plain files while an experiment runs, and what they mean
// (Analyse) is a pure function of these files. The package must not know terminals or flags, and it
// starts nothing that the file does not name.
package experiment

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/internal/lab/stats"
)

// Experiment is what a file asks for. It is immutable once it was read. Texts hold variables, which
// fill replaces.
type Experiment struct {
	Name, Question string
	// Variable is what differs, for a person, and Values what it is set to; there are two at least,
	// with different names.
	Variable string
	Values   []Value
	Pairing
	// Figures are what is measured and judged.
	Figures []Figure
	// Repeat is the number of rounds, in each of which every value has one run.
	Repeat int
	// Alpha is the chance that a reader takes: of calling even one difference real that is not.
	// Relevant is the share below which a difference does not matter, however real.
	Alpha, Relevant float64
	// Cool is the pause after each run. Grace is how long the service may take to end when it is
	// asked to.
	Cool, Grace time.Duration
	// Load is what is offered; nil when Command alone measures.
	Load *Load

	setup    [][]string
	start    []string
	env      []setting
	config   []setting // a file's path and its content
	sysctl   []setting
	ready    ready
	metrics  string
	command  []string
	file     string
	dir      string // that relative paths start from
	source   string // the file's text
	needPage bool
}

// Value is one of the values that are compared.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Load is the load of one run.
type Load struct {
	URL string
	// Rate is the requests offered in a second; 0 is a closed loop. Arrivals are "poisson" or
	// "constant".
	Rate     float64
	Arrivals string
	// Connections that are opened at most. Fresh uses a new one for each request.
	Connections int
	Fresh       bool
	// Warmup is offered before, and not measured.
	Warmup, Duration, Timeout time.Duration
	// Scenario is the path of a file that says what is sent; without it the same request is sent
	// again and again.
	Scenario     string
	Method, Body string
	Headers      []string
}

// setting is a name with the text that it is set to.
type setting struct{ name, text string }

// ready is how a service shows that it may be loaded: one of an answer below 400 from a URL, a line
// in its output, a port that accepts.
type ready struct {
	url, line, port string
	within          time.Duration
}

// Pairing is which values are compared with which: all others with one, unless it says otherwise.
type Pairing struct {
	// Baseline is the index of the value that the others are compared with.
	Baseline int `json:"baseline"`
	// AllPairs compares each with each, and Previous each with the one before it; at most one of
	// them is set.
	AllPairs bool `json:"all_pairs,omitempty"`
	Previous bool `json:"previous,omitempty"`
}

// HasBaseline says whether there is a value that all others are compared with.
func (p Pairing) HasBaseline() bool { return !p.AllPairs && !p.Previous }

// pairs are those of so many values that are compared, by index; the second is judged against the
// first.
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

// Comparisons are the pairs of values that are compared, by index; the second is judged against the
// first.
func (e *Experiment) Comparisons() [][2]int { return e.pairs(len(e.Values)) }

// Tests is how many differences are judged together: each comparison in each figure.
func (e *Experiment) Tests() int { return len(e.Comparisons()) * len(e.Figures) }

// Needed is the fewest rounds with which any difference can be called real.
func (e *Experiment) Needed() int { return stats.LeastPairs(e.Alpha, e.Tests()) }

// Runs is how often the service is started.
func (e *Experiment) Runs() int { return len(e.Values) * e.Repeat }

// startTime is what a service is assumed to need to be ready and to end, before one was seen.
const startTime = time.Second

// Time is about how long the runs take together, without the setup.
func (e *Experiment) Time() time.Duration {
	one := startTime + e.Cool
	if e.Load != nil {
		one += e.Load.Warmup + e.Load.Duration
	}
	return time.Duration(e.Runs()) * one
}

// Isolated says whether the experiment may only be run in a network namespace of its own, as it
// changes kernel settings.
func (e *Experiment) Isolated() bool { return len(e.sysctl) > 0 }

// Start is the command that starts the service with a value, for a person: variables that are only
// known later stay as they are written.
func (e *Experiment) Start(v Value) string {
	words := make([]string, len(e.start))
	for i, w := range e.start {
		words[i] = fill(w, v.variables())
	}
	return strings.Join(words, " ")
}

// Settings are the environment, the kernel settings and the files that go with a value, for a
// person.
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
