package gateway

import (
	"plimsoll/internal/loadline"
	"plimsoll/internal/telemetry"
)

// Indexes of the series of the load line.
const (
	seriesHeadroom = iota
	seriesResourceHeadroom
	seriesResourceCapacity
	seriesUpstreamHeadroom
	seriesUpstreamCapacity
)

// lineSeries are absent while nothing is known: an unmeasured headroom of 0 or 1 would make an
// autoscaler start or stop instances.
var lineSeries = []telemetry.Series{
	seriesHeadroom: {
		Name: "headroom",
		Help: "Share of the capacity that is left, of what has the least of it: 0 to 1.",
	},
	seriesResourceHeadroom: {
		Name:   "resource_headroom",
		Help:   "Share of the instance's capacity that is left, by resource: 0 to 1.",
		Labels: []string{"resource"},
	},
	seriesResourceCapacity: {
		Name:   "resource_capacity",
		Help:   "Requests a second that use a resource of the instance up, and their interval.",
		Labels: []string{"resource", "bound"},
	},
	seriesUpstreamHeadroom: {
		Name:   "upstream_headroom",
		Help:   "Share of an upstream's capacity that is left: 0 to 1.",
		Labels: []string{"upstream"},
	},
	seriesUpstreamCapacity: {
		Name:   "upstream_capacity",
		Help:   "Requests a second that an upstream can carry, and their interval.",
		Labels: []string{"upstream", "bound"},
	},
}

func (g *Gateway) readLoadLine(emit telemetry.Emit) {
	s := g.LoadLine()
	if s.Headroom != nil {
		emit(seriesHeadroom, s.Headroom.Estimate)
	}
	each := func(all []loadline.Estimate, headroom, capacity int) {
		for i := range all[:min(len(all), telemetry.MaxNames)] {
			e := &all[i]
			if e.Capacity == nil || e.Headroom == nil {
				continue
			}
			emit(headroom, e.Headroom.Estimate, e.Name)
			emit(capacity, e.Capacity.Low, e.Name, "low")
			emit(capacity, e.Capacity.Estimate, e.Name, "estimate")
			emit(capacity, e.Capacity.High, e.Name, "high")
		}
	}
	each(s.Instance, seriesResourceHeadroom, seriesResourceCapacity)
	each(s.Upstreams, seriesUpstreamHeadroom, seriesUpstreamCapacity)
}
