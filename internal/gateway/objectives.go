package gateway

import (
	"strconv"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/crash"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/telemetry/budget"
)

// feeder brings the ledger of error budgets up to date every now and then.
type feeder struct{ stop, done chan struct{} }

// startFeeder begins feeding; it ends with stopFeeder, before the loops do, so that it never waits
// for one that has gone.
func (g *Gateway) startFeeder() {
	f := &feeder{make(chan struct{}), make(chan struct{})}
	g.feeder = f
	go func() {
		defer crash.Guard("in the feeding of error budgets")
		defer close(f.done)
		tick := time.NewTicker(budget.Interval)
		defer tick.Stop()
		for {
			select {
			case <-f.stop:
				return
			case <-tick.C:
				g.observe(g.feed())
			}
		}
	}()
}

func (g *Gateway) stopFeeder() {
	close(g.feeder.stop)
	<-g.feeder.done
}

// feed brings the ledger up to date, and gives the counters that it did so with.
func (g *Gateway) feed() *telemetry.Snapshot {
	s := g.registry.Collect(g.ask)
	g.ledger.Feed(reactor.Clock(), s)
	return s
}

// classOf is the number of a class's name.
func classOf(name string) uint8 { return name[1] - '0' }

// className is the name of a class's number.
func className(class int) string { return "P" + strconv.Itoa(class) }

// declareClasses makes the counters of routes visible in the classes that a config gives them.
func (g *Gateway) declareClasses(cfg *config.Config) {
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		g.registry.RouteClass(g.registry.Route(r.Name), classOf(r.SLA))
	}
}

// SLOStatus is the objective of a route's SLA class, and how the route kept it.
type SLOStatus struct {
	// Availability is the share of requests that must be good, LatencyMS the time of a good one.
	Availability float64 `json:"availability"`
	LatencyMS    float64 `json:"latency_ms"`
	// Since the route is in this class, at most.
	Windows []SLOWindow `json:"windows"`
}

// SLOWindow is how an objective was kept over a time that ends now.
type SLOWindow struct {
	Window   string `json:"window"` // "5m", "1h", "6h" or "3d"
	Requests uint64 `json:"requests"`
	Good     uint64 `json:"good"`
	// Attainment is the share of requests that were good; absent without requests.
	Attainment *float64 `json:"attainment,omitempty"`
	// Burn is how many times faster than the objective allows requests failed.
	Burn float64 `json:"burn"`
}

func sloStatus(sla config.SLA, windows []budget.Window) *SLOStatus {
	s := &SLOStatus{
		Availability: sla.Availability, LatencyMS: round(float64(sla.Latency) / float64(time.Millisecond)),
	}
	for _, w := range windows {
		shown := SLOWindow{
			Window: w.Name, Requests: w.Requests, Good: w.Good, Burn: round(w.Burn(sla.Availability)),
		}
		if share, ok := w.Attainment(); ok {
			shown.Attainment = &share
		}
		s.Windows = append(s.Windows, shown)
	}
	return s
}

// Indexes of the series that say how objectives are kept.
const (
	seriesObjective = iota
	seriesBurn
	seriesClassBurn
)

var sloSeries = []telemetry.Series{
	seriesObjective: {
		Name:   "slo_objective",
		Help:   "Share of a route's requests that must be good, by its SLA class.",
		Labels: []string{"route", "class"},
	},
	seriesBurn: {
		Name:   "slo_burn",
		Help:   "How many times faster than its objective allows a route's requests failed.",
		Labels: []string{"route", "window"},
	},
	seriesClassBurn: {
		Name:   "slo_class_burn",
		Help:   "How many times faster than its objective allows a class's requests failed.",
		Labels: []string{"class", "window"},
	},
}

// classesOf are the classes that a route's requests have: its own and, where trusted peers choose,
// those that they chose of late.
func (g *Gateway) classesOf(cfg *config.Config, route int, own uint8) []uint8 {
	list := []uint8{own}
	for class := uint8(0); class < telemetry.Classes && cfg.SLAHeader != ""; class++ {
		windows := g.ledger.Route(route, class)
		if class != own && windows[len(windows)-1].Requests > 0 {
			list = append(list, class)
		}
	}
	return list
}

// readObjectives tells of the routes in force and of their classes. Routes that share a series,
// because there are too many, have no burn: their classes may differ.
func (g *Gateway) readObjectives(emit telemetry.Emit) {
	cfg := g.view().config
	type objective struct {
		route int
		class uint8
	}
	told, classes := map[objective]bool{}, [telemetry.Classes]bool{}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		route, usual := g.registry.Route(r.Name), classOf(r.SLA)
		label, own := g.registry.RouteLabel(route)
		for _, class := range g.classesOf(cfg, route, usual) {
			if told[objective{route, class}] {
				continue
			}
			told[objective{route, class}] = true
			sla := cfg.SLA(className(int(class)))
			classes[class] = true
			emit(seriesObjective, sla.Availability, label, sla.Name)
			if !own || class != usual {
				continue
			}
			for _, w := range g.ledger.Route(route, class) {
				emit(seriesBurn, w.Burn(sla.Availability), label, w.Name)
			}
		}
	}
	for class, has := range classes {
		if !has {
			continue
		}
		sla := cfg.SLA(className(class))
		for _, w := range g.ledger.Class(uint8(class)) {
			emit(seriesClassBurn, w.Burn(sla.Availability), sla.Name, w.Name)
		}
	}
}
