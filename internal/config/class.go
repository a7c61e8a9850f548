package config

import (
	"slices"
	"strings"
	"time"

	"plimsoll/internal/exchange"
)

// SLA is what a class promises, with the defaults filled in.
type SLA struct {
	Name         string
	Availability float64       // share of requests, 0 to 1
	Latency      time.Duration // of an answer
	Patience     time.Duration // for a turn at an overloaded service
	Degrade      []string      // what stands in for the live answer
}

// May says whether the class's requests may get a step.
func (s SLA) May(step exchange.Step) bool { return slices.Contains(s.Degrade, step.String()) }

// and is the class's list of steps with one more, as it is written.
func (s SLA) and(step exchange.Step) string {
	return "[" + strings.Join(append(slices.Clone(s.Degrade), step.String()), ", ") + "]"
}

// classDefaults are the classes that differ from the others.
var classDefaults = map[string]SLA{
	"P0": {Availability: 0.9999, Latency: 100 * time.Millisecond},
	"P1": {Availability: 0.9995, Latency: 500 * time.Millisecond, Degrade: []string{"cache", "stale"}},
}

var otherClasses = SLA{Availability: 0.99, Latency: 5 * time.Second,
	Degrade: []string{"cache", "stale", "static"}}

// SLA is the class of a name, which is one of P0 to P9.
func (c *Config) SLA(name string) SLA {
	sla, ok := classDefaults[name]
	if !ok {
		sla = otherClasses
	}
	sla.Name = name
	given := c.Classes[name]
	if given == nil {
		given = &Class{}
	}
	if given.Availability != nil {
		sla.Availability = float64(*given.Availability)
	}
	if given.Latency != nil {
		sla.Latency = time.Duration(*given.Latency)
	}
	sla.Patience = sla.Latency
	if given.Patience != nil {
		sla.Patience = time.Duration(*given.Patience)
	}
	if given.Degrade != nil {
		sla.Degrade = given.Degrade
	}
	return sla
}

// stepUse is what a route of a class gives in place of the live answer.
type stepUse struct {
	at    place
	key   string // of the route
	class string
	step  exchange.Step
}

func (c *Class) check(s *scope) {
	if c.Availability != nil && *c.Availability == 1 && s.good("availability") {
		s.reject("availability", "100%% leaves nothing that may fail, so any failure would be an "+
			"alert; give at most 99.999%%")
	}
	s.items("degrade", func(i int, at place) {
		if step := c.Degrade[i]; slices.Index(c.Degrade, step) < i {
			s.fail(at, "the step %s is given twice; keep one", step)
		}
	})
}

// checkSteps checks that the classes of routes allow what the routes give in place of the live
// answer.
func (c *Config) checkSteps(s *scope) {
	if s.failed["classes"] {
		return
	}
	for _, g := range s.steps {
		if class := c.SLA(g.class); !class.May(g.step) {
			s.fail(g.at, "the class %s may not get %s answers; write classes: {%s: {degrade: %s}}, "+
				"give the route another sla, or remove %s",
				g.class, g.step, g.class, class.and(g.step), g.key)
		}
	}
}
