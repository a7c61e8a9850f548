package config

import (
	"slices"
	"time"
)

// SLA is what a class promises, with the defaults filled in.
type SLA struct {
	Name         string
	Availability float64       // share of requests, 0 to 1
	Latency      time.Duration // of an answer
	Patience     time.Duration // for a turn at an overloaded service
	Degrade      []string      // what stands in for the live answer
}

// Static says that the class's requests may get the fallback of their route.
func (s SLA) Static() bool { return slices.Contains(s.Degrade, stepStatic) }

// stepStatic is the step of Class.Degrade that a route's fallback is.
const stepStatic = "static"

// classDefaults are the classes that differ from the others.
var classDefaults = map[string]SLA{
	"P0": {Availability: 0.9999, Latency: 100 * time.Millisecond},
	"P1": {Availability: 0.9995, Latency: 500 * time.Millisecond},
}

var otherClasses = SLA{Availability: 0.99, Latency: 5 * time.Second, Degrade: []string{stepStatic}}

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

func (c *Class) check(s *scope) {
	if c.Availability != nil && *c.Availability == 1 && s.good("availability") {
		s.reject("availability", "100%% leaves nothing that may fail, so any failure would be an "+
			"alert; give at most 99.999%%")
	}
	s.items("degrade", func(i int, at place) {
		switch step := c.Degrade[i]; {
		case step != stepStatic:
			s.fail(at, "the step %s comes with the cache, which this version does not have; remove it", step)
		case slices.Index(c.Degrade, step) < i:
			s.fail(at, "the step %s is given twice; keep one", step)
		}
	})
}

// checkFallbacks checks that the classes of the routes with a fallback allow one.
func (c *Config) checkFallbacks(s *scope) {
	if s.failed["classes"] {
		return
	}
	for _, f := range s.fallbacks {
		if class := f.name; !c.SLA(class).Static() {
			s.fail(f.at, "the class %s may not get static answers; write classes: {%s: {degrade: [%s]}}, "+
				"give the route another sla, or remove the fallback", class, class, stepStatic)
		}
	}
}
