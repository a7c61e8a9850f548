// Package scenario reads a scenario, a YAML file that says which requests to send in which mix,
// with which values, and what answers are good, and compiles it to prepared bytes for the
// generator. docs/scenario.md explains the file. The package must not know sockets, clocks or
// loops: it makes requests and judges answers, and when they are sent is not its business.
package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"plimsoll/internal/config"
	"plimsoll/internal/config/strict"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/pace"
)

const (
	// maxFile is the largest scenario, in bytes.
	maxFile = 1 << 20
	// maxBody is the largest body of a request, in bytes, before values are put in.
	maxBody = 16 << 20
	// maxData is how many bytes all files that a scenario names may have together.
	maxData = 64 << 20
	// maxEntries and maxSteps bound the mix and its sequences, maxSources the data.
	maxEntries, maxSteps, maxSources = 1000, 100, 100
)

// Scenario is a scenario that has been read and found right. It is immutable.
type Scenario struct {
	// Profile is what the file's load section offers, in requests a second, as every rate of the
	// lab: for a schedule of arrivals it is scaled by 1 ÷ Script().Requests(). It is nil when the
	// file has no load section.
	Profile *pace.Profile
	// Arrivals is how the load section spreads them; empty when it does not say.
	Arrivals pace.Arrivals

	script *script
}

// Load reads a scenario and the files it names, whose paths start from its folder. The requests go
// to target: its authority is their Host, and its path comes before theirs. The error is a
// config.Errors with everything that is wrong, one line each. Load may block.
func Load(path string, target load.Target) (*Scenario, error) {
	return LoadFrom(path, target, Source{Open: strict.Read, Lookup: os.LookupEnv})
}

// Source is where a scenario's files and the values of its environment come from, for one that is
// not read where it was written.
type Source struct {
	// Open reads a file of at most limit bytes; its errors do not name the file.
	Open   func(path string, limit int64) ([]byte, error)
	Lookup func(name string) (value string, ok bool)
}

// LoadFrom is Load from another source than this machine.
func LoadFrom(path string, target load.Target, from Source) (*Scenario, error) {
	r := &strict.Reader{
		File:   path,
		Dir:    filepath.Dir(path),
		Lookup: from.Lookup,
		Open:   from.Open,
		Left:   maxData,
		Docs:   "docs/scenario.md",
		Least:  "at least a mix is needed, as in: mix: [{name: home, request: {path: /}}]",
	}
	src, err := r.Read(path, maxFile)
	if err != nil {
		return nil, config.Errors{{
			File: path,
			Problem: fmt.Sprintf("the scenario cannot be read: %v; "+
				"give the path of a readable file", err),
		}}
	}
	s := &Scenario{script: &script{}}
	if root, ok := r.Parse(src); ok {
		s.compile(root, target)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// compile fills the scenario from the file's top level.
func (s *Scenario) compile(root strict.Value, target load.Target) {
	top, ok := root.Fields("load", "data", "headers", "mix")
	if !ok {
		return
	}
	if v, ok := top.Get("load"); ok {
		s.Profile, s.Arrivals = offered(v)
	}
	c := &compiler{
		script:    s.script,
		sources:   map[string]int{},
		authority: target.Authority,
		base:      basePath(target.Path),
	}
	if v, ok := top.Get("data"); ok {
		c.data(v)
	}
	if v, ok := top.Get("headers"); ok {
		c.common = headers(v)
	}
	v, ok := top.Need("mix")
	if !ok {
		return
	}
	entries, ok := v.List()
	switch {
	case !ok:
		return
	case len(entries) == 0:
		v.Fail("empty; give it at least one request, as in: mix: [{name: home, request: {path: " +
			"/}}]")
	case len(entries) > maxEntries:
		v.Fail("%d entries; %d are the most", len(entries), maxEntries)
		return
	}
	for _, e := range entries {
		c.entry(e)
	}
	c.unused()
	s.script.weigh()
}

// basePath is what of the target's path comes before that of each request.
func basePath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return strings.TrimRight(path, "/")
}

// Script is what a run sends.
func (s *Scenario) Script() load.Script { return s.script }

// Mix is the mix in words: "80 % list, 20 % buy (login, then buy)".
func (s *Scenario) Mix() string {
	parts := make([]string, len(s.script.entries))
	for i, e := range s.script.entries {
		parts[i] = e.name
		if len(s.script.entries) > 1 {
			parts[i] = fmt.Sprintf("%.3g %% %s", 100*e.weight/s.script.weight, e.name)
		}
		if len(e.steps) > 1 {
			steps := make([]string, len(e.steps))
			for j := range e.steps {
				_, steps[j], _ = strings.Cut(e.steps[j].name, "/")
			}
			parts[i] += " (" + strings.Join(steps, ", then ") + ")"
		}
	}
	return strings.Join(parts, ", ")
}
