package config

import "time"

// SLA is what a class promises, with the defaults filled in.
type SLA struct {
	Name         string
	Availability float64       // share of requests, 0 to 1
	Latency      time.Duration // of an answer
	Patience     time.Duration // for a turn at an overloaded service
}

// classDefaults are the classes that differ from the others.
var classDefaults = map[string]SLA{
	"P0": {Availability: 0.9999, Latency: 100 * time.Millisecond},
	"P1": {Availability: 0.9995, Latency: 500 * time.Millisecond},
}

var otherClasses = SLA{Availability: 0.99, Latency: 5 * time.Second}

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
	return sla
}
