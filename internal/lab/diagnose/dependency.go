package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// dependency is a service that the target asks, on the same machine.
type dependency struct {
	process, address string
	sample           string // the name of its processor time
	pooled           bool   // a pooler stands between the service and it
	// hop says that another service stands there. Its address is that of the other service.
	hop bool
	// child says that the service has started it: it is part of what is measured as the service, too.
	child bool
	// used and over are the processors that it used at the line and beyond it.
	used, over float64
}

// behind parses the name of a dependency's processor time. The path of a Unix socket contains
// slashes too.
func behind(name string) (address, process string, is bool) {
	rest, is := strings.CutPrefix(name, measure.Behind)
	at := strings.IndexByte(rest, '/')
	if strings.HasPrefix(rest, measure.UnixAddress) {
		at = strings.LastIndexByte(rest, '/')
	}
	if !is || at < 0 {
		return "", "", false
	}
	return rest[:at], rest[at+1:], true
}

// dependencies returns the dependencies that the run has samples of, the one that used the most
// processor time first.
func (e *Evidence) dependencies() (all []dependency) {
	for name := range e.AtLine.last() {
		address, process, is := behind(name)
		if !is {
			continue
		}
		used := e.AtLine.PerSecond(name)
		all = append(all, dependency{
			process: process,
			address: address,
			sample:  name,
			child:   e.isChild(process, used),
			used:    used,
			over:    e.Over.PerSecond(name),
		})
	}
	all = append(all, e.behindPoolers(all)...)
	slices.SortFunc(all, func(a, b dependency) int {
		return cmp.Or(cmp.Compare(b.used, a.used), strings.Compare(a.address, b.address),
			strings.Compare(a.process, b.process))
	})
	return all
}

// sameChild is how much the processor time of a dependency may differ from that of the threads of its
// name in the service, if it is a child of the service. They are looked at at other times.
const sameChild = 1.2

// isChild reports whether a dependency that uses so many processors is a child of the service: threads of
// its name are among the service's, use as much, and are not all there is. The names of threads lack the
// numbers at their end.
func (e *Evidence) isChild(process string, used float64) bool {
	threads := e.AtLine.PerSecond(measure.ThreadsCPU + strings.TrimRight(process, "0123456789."))
	return used > 0 && near(used, threads, sameChild) &&
		threads <= (1-notAlone)*e.AtLine.PerSecond(measure.TargetCPU)
}

// besides returns how many processors the service used at the line besides a dependency.
func (e *Evidence) besides(d dependency) float64 {
	used := e.AtLine.PerSecond(measure.TargetCPU)
	if d.child {
		used = max(used-d.used, 0)
	}
	return used
}

// spares returns the cure that leaves a dependency little to do.
func (e *Evidence) spares(d dependency) cure {
	if d.child {
		return cure{saves: leftBehind * d.used / max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9)}
	}
	return cure{elsewhere: leftBehind * d.used}
}

// poolers are programs that stand between a service and its stores, and pass on what they are asked,
// and the stores that they speak for.
var poolers = map[string][]string{
	"pgbouncer": {"postgres"}, "pgcat": {"postgres"}, "odyssey": {"postgres"}, "pgpool": {"postgres"},
	"proxysql": {"mysqld", "mariadbd"}, "mysqlrouter": {"mysqld"},
	"nutcracker": {"redis-server", "memcached"},
}

// behindPoolers returns the stores that are asked through one of the services: the target has no
// connection to them, so they are among the machine's other processes. What a store computes for
// others too is another share of each request at half of the line, and is not counted.
func (e *Evidence) behindPoolers(by []dependency) (all []dependency) {
	services := slices.DeleteFunc(slices.Clone(by), func(d dependency) bool {
		s := d.store()
		return poolers[d.process] != nil || s != nil && (s.keyed || s.quick)
	})
	for _, pooler := range by {
		for _, process := range poolers[pooler.process] {
			all = e.addBehind(all, by, pooler, process)
		}
	}
	if len(services) != 1 { // which of them asks it is not known
		return all
	}
	for i := range stores {
		if s := &stores[i]; s.keyed || s.quick {
			for _, process := range s.processes {
				all = e.addBehind(all, by, services[0], process)
			}
		}
	}
	return all
}

// addBehind adds a store behind one of the services, if it works for the requests.
func (e *Evidence) addBehind(all, by []dependency, asks dependency, process string) []dependency {
	name := measure.OthersCPU + process
	if e.AtLine.PerRequest(name) == 0 ||
		!near(e.AtLine.PerRequest(name), e.Half.PerRequest(name), samePooled) ||
		slices.ContainsFunc(all, func(d dependency) bool { return d.sample == name }) ||
		slices.ContainsFunc(by, func(d dependency) bool { return d.process == process }) {
		return all
	}
	return append(all, dependency{
		process: process + " behind " + asks.process,
		address: asks.address,
		sample:  name,
		pooled:  true,
		hop:     poolers[asks.process] == nil,
		used:    e.AtLine.PerSecond(name),
		over:    e.Over.PerSecond(name),
	})
}

// samePooled is how much a store's processor time for each request may differ at half of the line.
const samePooled = 1.5

// computes reports whether the processors are busy with a dependency: it uses at least half of the
// processor time in use on the machine, and at least 1.5 times as much as the service.
func (e *Evidence) computes(d dependency) bool {
	host, target := e.reserve(hostProcessor), e.reserve(targetProcessor)
	return host != nil && target != nil && host.Share() >= host.waited() &&
		d.used >= .5*host.Used && d.used >= 1.5*e.besides(d)
}

const (
	// slowCommands is the minimum processor time in seconds that a request costs a quick store if its
	// commands are at fault: hundreds of commands, or a few that go through much.
	slowCommands = 1e-3
	// slowShare is the minimum share of the processor time in use that it then uses.
	slowShare = .25
)

// runsSlowCommands reports whether a store whose commands take microseconds computes for a millisecond
// or longer per request, and a good part of what the machine has in use, while requests wait for
// processors. A pipeline of many commands is one exchange, so exchanges do not tell how many they are.
func (e *Evidence) runsSlowCommands(d dependency) bool {
	s, host := d.store(), e.reserve(hostProcessor)
	return s != nil && s.quick && host != nil && host.Share() >= host.waited() &&
		d.used >= slowShare*host.Used && d.used >= slowCommands*e.AtLine.Goodput()
}

// onlyThread reports whether a store that is known to have one thread keeps it busy most of the
// time, or computes for long for each request. Further connections would wait for the same thread.
func (e *Evidence) onlyThread(address string) bool {
	return slices.ContainsFunc(e.dependencies(), func(d dependency) bool {
		s := d.store()
		return d.address == address && !d.hop && s != nil && s.single &&
			(min(d.used, d.over) >= singleBusy ||
				s.quick && d.used >= slowCommands*e.AtLine.Goodput())
	})
}

// wholeThread reports whether a dependency uses whole processors, and no more of them beyond the
// line, while others are idle: it has no further thread.
//
// For a store that is known to have one thread, less is enough. It does not get all of a processor,
// because of the gaps between commands, and because the generator and the kernel share few
// processors with it.
func (e *Evidence) wholeThread(d dependency) bool {
	if s := d.store(); s != nil && s.single && d.used >= singleBusy && d.over >= singleFull &&
		e.idleProcessors() >= leastIdle {
		return true
	}
	cores := e.AtLine.Last(measure.HostCores)
	k := math.Floor(max(d.used, d.over) + overCore)
	// PostgreSQL has a process for each connection.
	if strings.HasPrefix(d.process, "postgres") &&
		(d.hop || e.fromTheLineOn(measure.OutgoingTo+d.address).most > k) {
		return false
	}
	return k >= 1 && k < cores && e.idleProcessors() >= leastIdle &&
		max(d.used, d.over) >= fullCore*k && d.used >= .7*k && d.over <= 1.35*d.used
}

const (
	// singleBusy and singleFull are the minimum shares of a processor that the only thread of a
	// store uses, at the line and beyond it, if requests wait for it. The tail of the response
	// times gets long before the thread is full.
	singleBusy, singleFull = .5, .75
)

// sessionsBehind returns the store whose processors are busy because each request has it begin a
// session.
func (e *Evidence) sessionsBehind() (d dependency, is bool) {
	d, is = e.saturatedBehind()
	if is && d.session() != "" && e.freshTo() == d.address {
		return d, e.AtLine.Goodput()*d.store().login >= mostlyLogins*d.used
	}
	return d, is && d.session() != "" && e.AtLine.Goodput() > 0 && e.mostlyOpens(d) &&
		max(e.AtLine.Max(measure.TargetOutgoingTimeWait),
			e.AtLine.Max(measure.TargetOutgoingTimeWaitThere)) > 0
}

// mostlyLogins is the minimum share of what a store computes that logins take, at what they usually cost,
// if they are what keeps it busy.
const mostlyLogins = .4

// mostlyOpens reports whether the connections that the service opens are what keeps a dependency
// busy: by what they cost a store that begins a session on each, otherwise one for every other request.
func (e *Evidence) mostlyOpens(d dependency) bool {
	opened := e.AtLine.opened()
	if d.session() != "" {
		return opened*d.store().login >= mostlyLogins*d.used
	}
	return opened >= mostlyOpened*e.AtLine.Goodput()
}

// saturatedBehind returns the dependency whose processors set the line.
func (e *Evidence) saturatedBehind() (d dependency, is bool) {
	for _, d := range e.dependencies() {
		if e.computes(d) || e.wholeThread(d) || e.runsSlowCommands(d) {
			return d, true
		}
	}
	return d, false
}

const (
	// mostlyBehind is the minimum share of the time that a lone request takes which a dependency
	// computes, if the request is mostly that.
	mostlyBehind = .5
	// fewestBehind is how many seconds it then computes for a request at least. Anything that a
	// service asks takes some time.
	fewestBehind = 1e-3
)

// computesMostOf returns the dependency whose processor time is most of the time that a request
// takes, and most of the processor time in use, although the processors have room.
func (e *Evidence) computesMostOf() (d dependency, is bool) {
	host, target := e.reserve(hostProcessor), e.reserve(targetProcessor)
	alone := e.unhurried()
	if !e.found() || !e.room() || host == nil || target == nil || alone <= 0 {
		return d, false
	}
	for _, d := range e.dependencies() {
		cost := e.costsBehind(d)
		if cost >= fewestBehind && cost >= mostlyBehind*alone &&
			d.used >= .5*host.Used && d.used >= 1.5*e.besides(d) {
			return d, true
		}
	}
	return d, false
}

// costsBehind returns how many seconds of processor time a request costs a dependency. What the
// dependency does without requests weighs more at a gentle rate, so it is the lower of the costs
// there and at the line.
func (e *Evidence) costsBehind(d dependency) float64 {
	cost := e.AtLine.PerRequest(d.sample)
	for _, m := range []*Moment{e.Before, e.Half} {
		if m.Has(d.sample) {
			cost = min(cost, m.PerRequest(d.sample))
		}
	}
	return cost
}

// unhurried returns the time that a request takes when no other one is under way, in seconds: in
// the last part of the warm-up, or at the gentlest rate.
func (e *Evidence) unhurried() float64 {
	least := e.alone()
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		if took := (&Moment{Step: s}).Service(); s.Plan.Phase == measure.PhaseWarmUp && took > 0 {
			least = min(least, took)
		}
	}
	return least
}

const (
	// slowQueries is the minimum processor time in seconds that a request costs a database which
	// searches where an index would do, or reads far more than it gives, if it is asked once. To find
	// a row by its key costs .05 to .3 ms; quickQuery is what each further question adds.
	// unknownQueries is the minimum where the number of questions is not known.
	slowQueries, quickQuery, unknownQueries = 2e-3, .4e-3, 5e-3
	// costlyQueries is enough in the place of slowQueries if the database uses more than the service, and
	// the gain is muchQueries.
	costlyQueries, muchQueries = 1.2e-3, 1.5
	// queriesShare is the minimum share of the processor time in use that it then uses, and
	// leastQueries the smallest gain for which its queries are worth a look.
	queriesShare, leastQueries = .3, 1.25
	// partBehind is the minimum share of a lone request's time, and of the processor time in use, if
	// processors have room.
	partBehind = .4
)

// runsSlowQueries returns the database that computes for milliseconds for each request, and uses a
// good part of what the machine has in use, while requests wait for processors; or for a good part of
// the time that a lone request takes, if they do not. The service may use as much itself.
func (e *Evidence) runsSlowQueries() (d dependency, is bool) {
	host := e.reserve(hostProcessor)
	if !e.found() || host == nil {
		return d, false
	}
	busy := host.Share() >= host.waited()
	for _, d := range e.dependencies() {
		s, cost := d.store(), e.costsBehind(d)
		asked := max(e.exchanged(d.address, nearLine).each(), 1)
		least := slowQueries + quickQuery*(asked-1)
		if strings.HasPrefix(d.address, measure.UnixAddress) || d.hop {
			least = unknownQueries // there it is not known how many they are
		}
		gain := e.gain(e.spares(d)).Factor
		if busy && gain >= muchQueries && d.used >= e.besides(d) {
			least -= slowQueries - costlyQueries
		}
		if s == nil || !s.keyed || cost < least {
			continue
		}
		if busy && d.used >= queriesShare*host.Used && gain >= leastQueries ||
			!busy && d.used >= partBehind*host.Used && cost >= partBehind*e.unhurried() {
			return d, true
		}
	}
	return d, false
}

// slowQueriesOf is the finding that a database's part of the processor time is what to change.
func (e *Evidence) slowQueriesOf(d dependency) *Finding {
	own := e.besides(d)
	rank := Cost
	if d.used >= own && e.waitedFor() || e.room() && e.queues() {
		rank = Binding
	}
	cost := e.costsBehind(d)
	f := &Finding{
		Claim: fmt.Sprintf("Each request costs %s at %s %s of a processor, which is much for what "+
			"an index finds: it uses %s of the %s processors in use at the line, the service "+
			"itself %s", d.process, d.address, span(cost), number(d.used),
			number(e.reserve(hostProcessor).Used), number(own)),
		Rank:       rank,
		Confidence: .65,
		Evidence: append([]Fact{{
			What: "processor time of a request in " + d.process + ", and in the service",
			Value: span(cost) + ", " +
				span(e.AtLine.PerRequest(measure.TargetCPU)),
		}}, e.dependencyFacts()...),
		Advice:   e.askedOf(d),
		Gain:     e.gain(e.spares(d)),
		whatever: rank == Binding,
	}
	f.Gain.Low = 1
	f.Gain.Why += fmt.Sprintf("; %s of what %s computes is assumed to be spared",
		percent(leftBehind), d.process)
	return f
}

// mostOf is the finding that most of a request's time is a dependency's processor time.
func (e *Evidence) mostOf(d dependency) *Finding {
	cost, took := e.costsBehind(d), e.unhurried()
	rank := Cost
	if e.station() != nil || e.Over.Service() > 1.5*took { // requests wait for each other there
		rank = Binding
	}
	f := &Finding{
		Claim: fmt.Sprintf("A request that is alone takes %s, and for %s of that %s at %s "+
			"computes, though the processors have room", span(took), span(min(cost, took)),
			d.process, d.address),
		Rank:       rank,
		Confidence: .7,
		Evidence: []Fact{
			{
				What: "processor time of a request in " + d.process + ", and in the service",
				Value: span(cost) + ", " +
					span(e.AtLine.PerRequest(measure.TargetCPU)),
			},
			{
				What: "time of a request that is alone, at half of the line, at it and beyond",
				Value: span(took) + ", " + span(e.Half.Service()) + ", " +
					span(e.AtLine.Service()) + ", " + span(e.Over.Service()),
			},
		},
		Advice: e.askedOf(d),
		Gain:   e.gain(e.spares(d)),
	}
	f.Evidence = append(f.Evidence, e.dependencyFacts()...)
	f.Evidence = append(f.Evidence, e.stationFacts()...)
	f.Gain.Low = 1
	f.Gain.Why += fmt.Sprintf("; %s of what %s computes is assumed to be spared",
		percent(leftBehind), d.process)
	return f
}

// askedOf returns how to see what a busy dependency does.
func (e *Evidence) askedOf(d dependency) []Action {
	if s := d.store(); s != nil {
		return []Action{s.busy}
	}
	return nil
}

// dependencyFacts returns what the dependencies on this machine use.
func (e *Evidence) dependencyFacts() (facts []Fact) {
	for _, d := range e.dependencies() {
		facts = append(facts, Fact{
			What: "processors that " + d.process + " at " + d.address +
				" uses, at the line and beyond it",
			Value: number(d.used) + ", " + number(d.over),
		})
	}
	return facts
}

// namedDependencies returns " (postgres at 127.0.0.1:5432)" for what the service asks.
func (e *Evidence) namedDependencies() string {
	names := e.asked()
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// dependencyAdvice returns how to see what the dependencies do. They are known by their process, or
// by their usual port.
func (e *Evidence) dependencyAdvice() (all []Action) {
	busy, is := e.saturatedBehind()
	for i := range stores {
		s := &stores[i]
		for _, d := range e.dependencies() {
			if d.store() != s {
				continue
			}
			if is && d.sample == busy.sample {
				all = append(all, s.busy)
			} else {
				all = append(all, s.waits)
			}
			break
		}
		if len(e.dependencies()) == 0 && e.asks(s.port) {
			all = append(all, s.waits, s.busy)
		}
	}
	return all
}

// asks reports whether the service has connections to a port.
func (e *Evidence) asks(port string) bool {
	for name := range e.AtLine.last() {
		if strings.HasPrefix(name, measure.OutgoingTo) && strings.HasSuffix(name, port) {
			return true
		}
	}
	return false
}

// behindClaim says which dependency's processors set the line.
func (e *Evidence) behindClaim(d dependency) string {
	if e.wholeThread(d) {
		return fmt.Sprintf("Requests wait for %s at %s, which uses %s processors to the full and "+
			"has no thread for another", d.process, d.address, number(max(d.used, d.over)))
	}
	if e.runsSlowCommands(d) && !e.computes(d) {
		return fmt.Sprintf("Each request costs %s at %s %s of a processor, which is much for a store "+
			"whose commands take microseconds: it uses %s of the %s processors in use at the line",
			d.process, d.address, span(d.used/e.AtLine.Goodput()), number(d.used),
			number(e.reserve(hostProcessor).Used))
	}
	return fmt.Sprintf("The processors are busy with %s at %s, which uses %s of the %s in use at "+
		"the line; the service itself uses %s", d.process, d.address, number(d.used),
		number(e.reserve(hostProcessor).Used), number(e.besides(d)))
}

// leftBehind is the share of a dependency's processor time that is assumed to be saved once the
// cause is found: an index, or another command, leaves little of it.
const leftBehind = .75

// saturated is the finding that a dependency's processors set the line.
func (e *Evidence) saturated(d dependency) *Finding {
	f := &Finding{
		Claim:      e.behindClaim(d),
		Rank:       Binding,
		Confidence: .75,
		Evidence:   e.dependencyFacts(),
		Advice:     e.dependencyAdvice(),
		Gain:       e.gain(e.spares(d)),
		whatever:   true,
	}
	if r := e.asksAgain(); r != nil && r.to == d.address {
		f.Claim += fmt.Sprintf("; for each request %s small segments with data go there, and as "+
			"many come back", number(r.calls))
		f.Advice = append([]Action{e.askOnce()}, f.Advice...)
		if d.store() != nil {
			f.Gain = e.gain(e.asksOnce(r))
		}
	}
	f.Gain.Low = 1
	f.Gain.Why += fmt.Sprintf("; %s of what %s computes is assumed to be spared",
		percent(leftBehind), d.process)
	return f
}
