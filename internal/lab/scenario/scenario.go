// Package scenario reads a scenario, a YAML file that says which requests to send in which mix,
// with which values, and which answers are good. It compiles the scenario to prepared bytes for the
// generator. docs/scenario.md explains the file. The package must not know sockets, clocks or
// loops: it makes requests and judges answers, and does not decide when requests are sent.
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
	// maxBody is the largest body of a request, in bytes, before values are inserted.
	maxBody = 16 << 20
	// maxData is the largest total size of the files that a scenario names, in bytes.
	maxData = 64 << 20
	// maxEntries and maxSteps bound the mix and its sequences, maxSources the data.
	maxEntries, maxSteps, maxSources = 1000, 100, 100
)

// Scenario is a valid scenario. It is immutable.
type Scenario struct {
	// Profile is the file's load section in requests per second, like every rate of the lab. For a
	// schedule of arrivals it must be scaled by 1 ÷ Script().Requests(). It is nil if the file has
	// no load section.
	Profile *pace.Profile
	// Arrivals is the kind of arrivals in the load section; empty if it does not say.
	Arrivals pace.Arrivals

	script *script
}

// Load reads a scenario and the files it names, whose paths are relative to its folder. The
// requests go to target: they get its authority as Host, and its path as a prefix of theirs. The
// error is a config.Errors with all problems, one per line. Load may block.
func Load(path string, target load.Target) (*Scenario, error) {
	return LoadFrom(path, target, Source{Open: strict.Read, Lookup: os.LookupEnv})
}

// Source provides a scenario's files and environment variables, if it is not read where it was
// written.
type Source struct {
	// Open reads a file of at most limit bytes; its errors do not name the file.
	Open   func(path string, limit int64) ([]byte, error)
	Lookup func(name string) (value string, ok bool)
}

// LoadFrom is Load with another source than this machine.
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

// basePath is the part of the target's path that precedes each request's path.
func basePath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return strings.TrimRight(path, "/")
}

// Script is the script of a run.
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
