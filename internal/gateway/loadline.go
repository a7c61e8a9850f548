package gateway

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/crash"
	"plimsoll/internal/loadline"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

const (
	// fitEvery is after how many windows targets are fitted again, and fitsPerRound is how many
	// targets then. Each takes about a second of processor time.
	fitEvery, fitsPerRound = 3, 3
	// tooBusy is the loops' busy share above which nothing is fitted. The fitting thread has the
	// lowest priority, and if it gets no processor, a garbage collection has to wait for it.
	tooBusy = .8
	// flightsPerCall is how many targets a loop looks at in one call.
	flightsPerCall = 64
	// spareFlights bounds the empty records that are kept, of 8 KB.
	spareFlights = 512
)

// lookout gathers what the loops see of the upstreams, to estimate the load line. The fields below
// window are guarded by it.
type lookout struct {
	estimator *loadline.Estimator
	fitting   atomic.Bool
	fitted    atomic.Int64 // processor time that fits took, in nanoseconds
	// processors is how many the process may use.
	processors int

	window         lock  // held while a window is being ended
	at             int64 // the end of the last window
	requests, busy uint64
	cpu            int64             // used by the process, without fits
	routes         map[string]uint64 // requests of each, since the start
	refused        map[string]uint64 // of each upstream with a limit, since the start
	spare          []*upstream.Flights
	windows        int
}

// LoadLine returns the estimates of how much the instance and its upstreams can carry.
func (g *Gateway) LoadLine() loadline.Status {
	return g.lookout.estimator.Status(reactor.Clock())
}

// observe ends a window: it collects what the loops have recorded and, every fitEvery windows,
// begins a fit.
func (g *Gateway) observe(s *telemetry.Snapshot) {
	l := &g.lookout
	l.window.Lock()
	defer l.window.Unlock()
	v, now := g.view(), reactor.Clock()
	w := &loadline.Window{End: now, Length: now - l.at, Seen: map[loadline.Target]*loadline.Seen{}}
	busy := uint64(0)
	for _, c := range s.Loops {
		busy += c.BusyNS
	}
	w.Instance = loadline.Use{
		Requests: s.Requests - l.requests, Busy: int64(busy - l.busy),
		Clients: g.shared.Clients.Load(), ClientsAllowed: g.shared.MaxClients.Load(),
	}
	w.Instance.Memory, w.Instance.MemoryLimit = g.memory()
	w.Instance.Routes = l.countRoutes(s)
	if cpu := processCPU() - l.fitted.Load(); !g.simulated() {
		w.Instance.CPU, w.Instance.Processors = max(0, cpu-l.cpu), l.processors
		l.cpu = cpu
	}
	first := l.at == 0
	l.at, l.requests, l.busy = now, s.Requests, busy
	g.takeFlights(v, w.Seen)
	w.Refused = g.refused(v)
	l.estimator.Configure(described(v))
	if first {
		return // the window's length is not known
	}
	l.estimator.Feed(w)
	share := float64(w.Instance.Busy) / float64(max(w.Length, 1)*int64(len(g.loops)))
	if l.windows++; l.windows%fitEvery == 0 && share < tooBusy {
		g.fit()
	}
}

// countRoutes is how many requests each route had since the last time.
func (l *lookout) countRoutes(s *telemetry.Snapshot) (counts []loadline.RouteCount) {
	ever := make(map[string]uint64, len(s.Routes))
	for _, r := range s.Routes {
		ever[r.Name] = r.Total.Count()
		if n := ever[r.Name] - min(ever[r.Name], l.routes[r.Name]); n > 0 {
			counts = append(counts, loadline.RouteCount{Name: r.Name, Requests: n})
		}
	}
	l.routes = ever
	return counts
}

// fit fits targets on a thread that uses only processor time that the loops leave. It does nothing
// in a simulation, where it would use real processor time.
func (g *Gateway) fit() {
	l := &g.lookout
	if g.simulated() || !l.fitting.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer crash.Guard("in the estimate of load lines")
		defer l.fitting.Store(false)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		giveWay()
		began := reactor.ThreadCPU()
		l.estimator.Fit(fitsPerRound)
		l.fitted.Add(reactor.ThreadCPU() - began)
	}()
}

// processCPU is the processor time that the process has used, all threads together, in nanoseconds.
func processCPU() int64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// described is what the estimator must know about the active upstreams. An upstream to which no
// route leads, such as that of a mirror, has no objective.
func described(v *inForce) []loadline.Upstream {
	all := make([]loadline.Upstream, 0, len(v.upstreams))
	objectives := objectivesOf(v.config)
	for _, name := range slices.Sorted(maps.Keys(v.upstreams)) {
		u := loadline.Upstream{Name: name, Objective: objectives[name], Prior: v.lines[name]}
		for _, t := range v.upstreams[name].Status().Targets {
			if t.Usable {
				u.Targets = append(u.Targets, t.Address)
			}
		}
		all = append(all, u)
	}
	return all
}

// objectivesOf returns each upstream's objective: of the objectives of its routes, the one with the
// shortest latency.
func objectivesOf(cfg *config.Config) map[string]loadline.Objective {
	all := map[string]loadline.Objective{}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		names := []string{r.Upstream}
		if r.Split != nil {
			names = slices.Collect(maps.Keys(r.Split.Weights))
		}
		sla := cfg.SLA(r.SLA)
		o := loadline.Objective{
			Name: sla.Name, Share: 1 - sla.Availability, Limit: int64(sla.Latency),
		}
		for _, name := range names {
			if was, ok := all[name]; !ok || o.Limit < was.Limit ||
				o.Limit == was.Limit && o.Share < was.Share {
				all[name] = o
			}
		}
	}
	return all
}

// taking is the progress of reading the records of all upstreams on one loop, in several calls.
type taking struct {
	next, from int // the upstream, and its target, to continue with
	taken      []upstream.TargetFlights
	of         []int // the upstream of each
	spare      []*upstream.Flights
}

// run is called on the loop.
func (t *taking) run(all []*upstream.Upstream, loop int) {
	for looked := 0; t.next < len(all) && looked < flightsPerCall; looked += flightsPerPiece {
		t.taken, t.spare, t.from = all[t.next].Local(loop).
			TakeFlights(t.taken, t.spare, t.from, flightsPerPiece)
		for len(t.of) < len(t.taken) {
			t.of = append(t.of, t.next)
		}
		if t.from == 0 {
			t.next++
		}
	}
}

// flightsPerPiece is how many targets of an upstream are looked at in one piece.
const flightsPerPiece = 8

// takeFlights adds what the loops have recorded since the last time. If a call does not return in
// time, what it has taken is lost.
func (g *Gateway) takeFlights(v *inForce, seen map[loadline.Target]*loadline.Seen) {
	names := slices.Sorted(maps.Keys(v.upstreams))
	all := make([]*upstream.Upstream, len(names))
	for i, name := range names {
		all[i] = v.upstreams[name]
	}
	l := &g.lookout
	for loop := range g.loops {
		for next, from := 0, 0; next < len(all); {
			n := max(0, len(l.spare)-flightsPerCall)
			t := &taking{next: next, from: from, spare: slices.Clone(l.spare[n:])}
			l.spare = l.spare[:n]
			if !g.Call(loop, func() { t.run(all, loop) }) {
				break
			}
			next, from = t.next, t.from
			l.spare = append(l.spare, t.spare...)
			for i, f := range t.taken {
				at := loadline.Target{Upstream: names[t.of[i]], Address: f.Address}
				if seen[at] == nil {
					seen[at] = &loadline.Seen{}
				}
				seen[at].Add(seenOf(f.Flights))
				if len(l.spare) < spareFlights {
					*f.Flights = upstream.Flights{}
					l.spare = append(l.spare, f.Flights)
				}
			}
		}
	}
}

// seenOf converts a loop's record for the estimator.
func seenOf(f *upstream.Flights) *loadline.Seen {
	s := &loadline.Seen{Times: f.Times, Failed: f.Failed}
	last := len(f.Found)
	for last > 0 && f.Found[last-1].Count == 0 {
		last--
	}
	s.Met = make([]loadline.Met, last)
	for i := range s.Met {
		s.Met[i] = loadline.Met(f.Found[i])
	}
	return s
}

// refused is how many requests, since the last time, have waited without success because the
// concurrency limit of their upstream was reached.
func (g *Gateway) refused(v *inForce) map[string]uint64 {
	var names []string
	var all []*upstream.Upstream
	for _, name := range slices.Sorted(maps.Keys(v.upstreams)) {
		if u := v.config.Upstreams[name]; u != nil && u.Concurrency != nil {
			names, all = append(names, name), append(all, v.upstreams[name])
		}
	}
	refused, ever := make(map[string]uint64, len(all)), make(map[string]uint64, len(all))
	for i, load := range g.loads(all) {
		name := names[i]
		ever[name] = load.Refused
		if before, ok := g.lookout.refused[name]; ok && ever[name] > before {
			refused[name] = ever[name] - before
		}
	}
	g.lookout.refused = ever
	return refused
}

// readLines reads the surveyed lines that upstreams name.
func readLines(cfg *config.Config) (map[string]*loadline.Line, config.Errors) {
	lines := map[string]*loadline.Line{}
	var errs config.Errors
	host, _ := os.Hostname()
	for _, name := range slices.Sorted(maps.Keys(cfg.Upstreams)) {
		u := cfg.Upstreams[name]
		if u.LoadLine == "" || u.Line == nil {
			continue
		}
		line, err := loadline.ReadLine(u.Line)
		if err != nil {
			errs = append(errs, u.Position().Wrong("upstreams."+name+".load_line",
				fmt.Sprintf("%s: %s", u.LoadLine, err)))
			continue
		}
		line.Elsewhere = line.Host != "" && host != "" && line.Host != host
		line.At = reactor.Clock() - int64(time.Since(line.Measured))
		lines[name] = line
	}
	return lines, errs
}

// warnOfLines warns of surveyed lines that may be of other services than those they are configured
// for.
func (g *Gateway) warnOfLines(cfg *config.Config, lines map[string]*loadline.Line) {
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		var targets []string
		for _, t := range cfg.Upstreams[name].Targets {
			targets = append(targets, t.Address)
		}
		if why := lines[name].Doubt(targets); why != "" {
			g.log.Warn("load_line may be that of another service: its interval counts as twice as "+
				"wide", "upstream", name, "why", why)
		}
	}
}
