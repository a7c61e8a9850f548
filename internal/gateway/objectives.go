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

// feeder updates the ledger of error budgets every budget.Interval.
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

// feed updates the ledger, and returns the counters that it used.
func (g *Gateway) feed() *telemetry.Snapshot {
	s := g.registry.Collect(g.ask)
	g.ledger.Feed(reactor.Clock(), s)
	return s
}

// classOf is the number of the class with this name.
func classOf(name string) uint8 { return name[1] - '0' }

// className is the name of the class with this number.
func className(class int) string { return "P" + strconv.Itoa(class) }

// declareClasses makes the counters of each route visible for the class that a config gives it.
func (g *Gateway) declareClasses(cfg *config.Config) {
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		g.registry.RouteClass(g.registry.Route(r.Name), classOf(r.SLA))
	}
}

// SLOStatus is the objective of a route's SLA class, and how well the route met it.
type SLOStatus struct {
	// Availability is the share of requests that must be good, LatencyMS the time of a good one.
	Availability float64 `json:"availability"`
	LatencyMS    float64 `json:"latency_ms"`
	// Windows reach back at most to when the route got this class.
	Windows []SLOWindow `json:"windows"`
}

// SLOWindow is how well an objective was met over a period that ends now.
type SLOWindow struct {
	Window   string `json:"window"` // "5m", "1h", "6h" or "3d"
	Requests uint64 `json:"requests"`
	Good     uint64 `json:"good"`
	// Attainment is the share of requests that were good; absent without requests.
	Attainment *float64 `json:"attainment,omitempty"`
	// Burn is how many times faster than allowed by the objective requests failed.
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

// Indexes of the series about objectives.
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

// classesOf is the classes of a route's requests: the route's own and, if trusted peers may choose,
// those that they have recently chosen.
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

// readObjectives emits the series of the active routes and their classes. Routes that share a
// series because there are too many have no burn, because their classes may differ.
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
